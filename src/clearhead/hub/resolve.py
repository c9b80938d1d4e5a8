"""Resolves a model name to a local folder: in a package, from the Hugging Face hub or an object store, cached."""

import importlib.util
from fnmatch import fnmatch
from pathlib import Path

from clearhead.cards.public_names import is_hub_name
from clearhead.files import MANIFEST, MissingFile, is_marked, read_json, read_manifest, verify_if_marked
from clearhead.files.s3_folder import cached_copy
from clearhead.files.s3_path import S3Path, is_s3

# Files that are downloaded. Code and pickles are not.
ALLOW_PATTERNS = ("*.json", "*.safetensors", "*.txt", "*.model", "1_Pooling/config.json")
PACKAGE = "package:"  # prefix of the name of an installed Python package that contains a model


CARD_PATTERNS = ("README.md", "card.yaml")  # beside the files that the manifest lists


def resolve_model(source: str | Path, revision: str | None = None) -> Path:
    """Returns the folder of a model: local, `package:NAME`, or a cached copy from the hub or from `s3://...`."""
    if isinstance(source, str) and is_s3(source):
        if revision is not None:
            raise ValueError(f"{source} is in an object store, which has no revision {revision!r}: leave it out")
        return _stored_model(S3Path.parse(source))
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


def _stored_model(source: S3Path) -> Path:
    """Returns a local copy of a model in an object store, verified if it has a manifest."""
    source.check_access()
    try:
        listed = set(read_manifest(source).files) if (source / MANIFEST).exists() else set[str]()
        marked = is_marked(read_json(source, "config.json"))
    except MissingFile:
        raise ValueError(f"there is no model at {source}: it has no config.json. Check the address") from None
    if marked and not listed:
        raise ValueError(f"{source} is incomplete: {MANIFEST} is missing, which is written last. Save the model again")
    patterns = (*ALLOW_PATTERNS, *CARD_PATTERNS, MANIFEST)

    def wanted(name: str) -> bool:
        return name in listed or ("/" not in name and any(fnmatch(name, p) for p in patterns)) or name in patterns

    return cached_copy(source, "model", wanted, verify_if_marked)


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
