"""Resolves a model name to a local folder: in an installed package, or through the Hugging Face hub cache."""

import importlib.util
from pathlib import Path

from clearhead.cards.public_names import is_hub_name

# Files that are downloaded. Code and pickles are not.
ALLOW_PATTERNS = ("*.json", "*.safetensors", "*.txt", "*.model", "1_Pooling/config.json")
PACKAGE = "package:"  # prefix of the name of an installed Python package that contains a model


def resolve_model(source: str | Path, revision: str | None = None) -> Path:
    """Returns the folder of a model: a local folder, `package:NAME`, or a hub snapshot, downloaded if not cached."""
    if isinstance(source, str) and source.startswith(PACKAGE):
        if revision is not None:
            raise ValueError(f"{source} is an installed package, which has no revision {revision!r}: leave it out")
        return package_model(source)
    folder = Path(source)
    if folder.is_dir():
        if revision is not None:
            raise ValueError(f"{folder} is a local folder, which has no revision {revision!r}: leave it out")
        return folder
    if isinstance(source, Path) or not is_hub_name(source):
        raise ValueError(f"there is no folder {str(source)!r}, and it is not a valid hub name (owner/name)")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(source, revision=revision, allow_patterns=list(ALLOW_PATTERNS)))
    except (HfHubHTTPError, LocalEntryNotFoundError, HFValidationError, OSError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(
            f"there is no folder {source!r}, and it could not be downloaded from the hub: {reason}"
        ) from error


def package_folder(name: str) -> Path:
    """Returns the folder of an installed package; no code of it is run."""
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"there is no package {name!r}: pip install {name.replace('_', '-')}")
    return Path(next(iter(spec.submodule_search_locations)))


def package_model(source: str) -> Path:
    """Returns the model folder of `package:NAME`; no code of the package is run."""
    name = source.removeprefix(PACKAGE)
    root = package_folder(name)
    folders = sorted(path.parent for path in root.rglob("config.json") if (path.parent / "model.safetensors").exists())
    if not folders:
        raise ValueError(f"the package {name!r} contains no model folder (config.json and model.safetensors)")
    return folders[0]
