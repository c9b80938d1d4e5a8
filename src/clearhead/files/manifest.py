"""`clearhead.json`, the manifest of a folder: size and SHA-256 of every file, to detect damage.

The hashes are not signed: they detect damage, not forgery. A subfolder may have a manifest of its own: then the folder
above lists that manifest alone, so that a folder of any number of files is a tree of manifests of a limited size.
"""

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any, TypeVar

from clearhead.files.atomic import write_atomic
from clearhead.files.s3_path import S3Path
from clearhead.files.safe import MAX_DEPTH, MissingFile, file_size, parse_json, read_bytes, read_json, safe_join, sha256

MANIFEST = "clearhead.json"
"""The file with the hashes of a folder."""

MARKER = {"clearhead": {"manifest": MANIFEST}}
"""An entry of `config.json`, so that a missing manifest is detected."""

VERSION_KEY = "transformers_version"  # of config.json; transformers writes it, clearhead keeps it
MAX_MANIFEST_BYTES = 2 << 20
MAX_NESTED = 4  # manifests in folders of others
MIN_BYTES_TWO_THREADS = 16 << 20  # prefix this, a second hashing thread costs more than it saves
LOADED_SUFFIXES = {".json", ".safetensors", ".txt", ".model", ".jinja"}  # files that some program opens by itself


T = TypeVar("T")
Folder = Path | S3Path
"""A folder on disk or in an object store."""


class IntegrityError(ValueError):
    """A folder does not match its manifest; `problems` has a reason per file, the message the first 20."""

    def __init__(self, folder: Folder, problems: dict[str, str]) -> None:
        super().__init__(folder, problems)
        self.folder, self.problems = folder, problems

    def __str__(self) -> str:
        listed = [f"{name!r:.200} {why}" for name, why in sorted(self.problems.items())]
        more = [f"{len(listed) - 20:,} more"] if len(listed) > 20 else []
        return f"{self.folder} is damaged: {'; '.join(listed[:20] + more)}. Download or copy the folder again"


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """Size and hash of a file."""

    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The files of a folder, the metadata of its writer, and the version of clearhead that wrote it."""

    version: str
    metadata: dict[str, Any]
    files: dict[str, FileEntry]


def write_manifest(
    folder: str | Path, metadata: Mapping[str, Any], *, hashed: Mapping[str, FileEntry] | None = None
) -> Manifest:
    """Writes the manifest of all files in `folder`, with `metadata`, which must be JSON; returns it.

    Of a subfolder that has a manifest of its own, that manifest alone is listed. Files in `hashed`, whose writers
    hashed them, are not read again; one whose size differs from its entry is refused.
    """
    folder, hashed = Path(folder), hashed or {}
    names = _names(folder)
    sizes = {name: safe_join(folder, name).stat().st_size for name in names}
    for name, file in hashed.items():
        if sizes.get(name) != file.size:
            raise IntegrityError(folder, {name: f"has {sizes.get(name, 0):,} bytes instead of {file.size:,}"})
    unread = [name for name in names if name not in hashed]
    size = sum(sizes[name] for name in unread)
    files = {**hashed, **_each(lambda name: file_entry(folder / name), unread, size)}
    manifest, data = make_manifest(folder, metadata, files)
    write_atomic(folder / MANIFEST, data)
    return manifest


def make_manifest(
    folder: Folder, metadata: Mapping[str, Any], files: Mapping[str, FileEntry]
) -> tuple[Manifest, bytes]:
    """Returns the manifest of a folder with these files, and its bytes."""
    plain = json.loads(json.dumps(dict(metadata), allow_nan=False))  # number keys become strings now, not when read
    manifest = Manifest(version=_version(), metadata=plain, files=dict(files))
    data = serialize(manifest)
    if len(data) > MAX_MANIFEST_BYTES:
        raise ValueError(
            f"the manifest of {folder} would have {len(data):,} bytes, over {MAX_MANIFEST_BYTES:,}: give less "
            "metadata, or put the files into subfolders with a manifest each"
        )
    return manifest, data


def file_entry(path: Path) -> FileEntry:
    """Returns the size and hash of a file."""
    return FileEntry(size=path.stat().st_size, sha256=sha256(path))


def read_manifest(folder: str | Folder) -> Manifest:
    """Reads the manifest of `folder` and checks its own hash; the files it lists are not read."""
    folder = _folder(folder)
    try:
        data = read_bytes(folder, MANIFEST, max_bytes=MAX_MANIFEST_BYTES)
        manifest = _load(parse_json(data, MANIFEST))
        intact = serialize(manifest) == data
    except MissingFile:
        raise IntegrityError(folder, {MANIFEST: "is missing"}) from None
    except ValueError as error:
        raise IntegrityError(folder, {MANIFEST: f"cannot be read ({error})"}) from None
    if not intact:
        raise IntegrityError(folder, {MANIFEST: "was changed: its own SHA-256 does not match"})
    return manifest


def read_parts(folder: str | Folder, manifest: Manifest) -> dict[str, Manifest]:
    """Reads the manifests of the subfolders that `manifest` lists, by name, and checks their hashes."""
    folder = _folder(folder)
    parts: dict[str, Manifest] = {}
    for part in _parts(manifest):
        name = f"{part}/{MANIFEST}"
        try:
            problem = _problem(folder, name, manifest.files[name])
        except FileNotFoundError:
            problem = "is missing"
        if problem is not None:
            raise IntegrityError(folder, {name: problem})
        parts[part] = read_manifest(folder / part)
    return parts


def verify(folder: str | Folder, *, elsewhere: Collection[str] = ()) -> Manifest:
    """Checks every file of `folder` against its manifest and returns the manifest; else raises `IntegrityError`.

    Subfolders with a manifest of their own are checked too. Of files in `elsewhere`, whose bytes another process
    checks with `find_damage`, only the presence is checked.

    An unlisted file is an error if its suffix is one of `LOADED_SUFFIXES`, because some program would open it by
    itself; other files (a README, git's files, anything in a folder whose name begins with a dot) may be added.
    """
    manifest, problems = _check(_folder(folder), 0, elsewhere)
    if problems:
        raise IntegrityError(_folder(folder), problems)
    return manifest


def find_damage(folder: str | Folder, manifest: Manifest, names: Iterable[str]) -> dict[str, str]:
    """Returns what is wrong with these files of a folder, by name; empty: they are as the manifest says."""
    folder = _folder(folder)
    files = {name: manifest.files[name] for name in names}
    results = _each(lambda name: _problem(folder, name, files[name]), files, sum(f.size for f in files.values()))
    return {name: why for name, why in results.items() if why}


def _check(folder: Folder, depth: int, elsewhere: Collection[str] = ()) -> tuple[Manifest, dict[str, str]]:
    """Returns the manifest of a folder, and what does not match it, by file."""
    manifest = read_manifest(folder)
    present = set(_names(folder))
    problems = dict.fromkeys(manifest.files.keys() - present, "is missing")
    problems |= find_damage(folder, manifest, (manifest.files.keys() & present) - set(elsewhere))
    for name in present - manifest.files.keys():
        hidden = any(part.startswith(".") for part in name.split("/")[:-1])
        if Path(name).suffix.lower() in LOADED_SUFFIXES and not hidden:
            problems[name] = "is not listed in the manifest"
    for part in _parts(manifest):
        name = f"{part}/{MANIFEST}"
        if depth == MAX_NESTED:
            problems.setdefault(name, f"is nested in more than {MAX_NESTED} other manifests")
        if name not in problems:
            _, inner = _check(folder / part, depth + 1)
            problems |= {f"{part}/{name}": why for name, why in inner.items()}
    return manifest, problems


def _parts(manifest: Manifest) -> list[str]:
    """Returns the subfolders that have a manifest of their own."""
    end = f"/{MANIFEST}"
    return [name.removesuffix(end) for name in manifest.files if name.endswith(end)]


def verify_if_marked(folder: str | Path) -> Manifest | None:
    """Returns the verified manifest of a model folder, or None for a folder without one.

    An existing manifest is checked even if `config.json` does not mention it, and one that `config.json` mentions must
    exist: no single change disables the check.
    """
    if os.path.lexists(Path(folder) / MANIFEST) or is_marked(read_json(folder, "config.json")):
        return verify(folder)
    return None


def mark(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the `config.json` of a folder that has a manifest."""
    version = {VERSION_KEY: config[VERSION_KEY]} if VERSION_KEY in config else {}
    return {**config, "clearhead": {**MARKER["clearhead"], **version}}


def is_marked(config: Mapping[str, Any]) -> bool:
    """Returns whether a `config.json` says that its folder has a manifest.

    transformers copies the mark into the folders that it saves, which have no manifest, and writes its version: where
    that is not the one of the mark, the folder was saved by transformers.
    """
    found = config.get("clearhead")
    return isinstance(found, dict) and found.get(VERSION_KEY) == config.get(VERSION_KEY)


def _each(function: Callable[[str], T], names: Iterable[str], size: int) -> dict[str, T]:
    """Maps each name to `function(name)`, in two threads if there is much to hash (hashing releases the GIL)."""
    if size < MIN_BYTES_TWO_THREADS:
        return {name: function(name) for name in names}
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(function, names), strict=True))


def _folder(folder: str | Folder) -> Folder:
    return folder if isinstance(folder, S3Path) else Path(folder)


def _problem(folder: Folder, name: str, file: FileEntry) -> str | None:
    try:
        path = safe_join(folder, name)
        size = file_size(path)
    except ValueError as error:
        return f"cannot be read ({error})"
    if size != file.size:
        return f"has {size:,} bytes instead of {file.size:,}"
    return None if sha256(path) == file.sha256 else "was changed: its SHA-256 differs"


def _names(folder: Folder) -> list[str]:
    """Lists every file below `folder` except the manifest, by relative name; links to folders are not followed.

    Of a subfolder with a manifest of its own, that manifest alone is listed.
    """
    if isinstance(folder, S3Path):
        present = folder.files()
        parts = {name.removesuffix(MANIFEST) for name in present if name.endswith(f"/{MANIFEST}")}
        own = (n for n in present if n.endswith(f"/{MANIFEST}") or not any(n.startswith(part) for part in parts))
        return sorted(name for name in own if name != MANIFEST)
    names: list[str] = []
    pending = [""]
    while pending:
        prefix = pending.pop()
        if prefix.count("/") > MAX_DEPTH:
            raise ValueError(f"{folder} has folders nested deeper than {MAX_DEPTH} levels")
        if prefix and (folder / prefix / MANIFEST).is_file():
            names.append(f"{prefix}{MANIFEST}")
            continue
        for entry in os.scandir(folder / prefix):
            if entry.is_dir(follow_symlinks=False):
                pending.append(f"{prefix}{entry.name}/")
            else:
                names.append(f"{prefix}{entry.name}")
    return sorted(name for name in names if name != MANIFEST)


def serialize(manifest: Manifest) -> bytes:
    """Serializes a manifest canonically, with the SHA-256 of the same text without that line."""
    files = {name: vars(file) for name, file in manifest.files.items()}
    body: dict[str, Any] = {"version": manifest.version, "metadata": manifest.metadata, "files": files}
    body["sha256"] = hashlib.sha256(_canonical(body)).hexdigest()
    return _canonical(body)


def _canonical(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode("utf-8")


def _load(value: dict[str, Any]) -> Manifest:
    match value:
        case {"version": str(version), "metadata": dict(metadata), "files": dict(files)}:
            return Manifest(version=version, metadata=metadata, files={name: _file(v) for name, v in files.items()})
        case _:
            raise ValueError("it must have version, metadata and files")


def _file(value: Any) -> FileEntry:
    match value:
        case {"size": int(size), "sha256": str(digest)}:
            return FileEntry(size=size, sha256=digest)
        case _:
            raise ValueError(f"{value!r:.100} is not the size and SHA-256 of a file")


def _version() -> str:
    try:
        return package_version("clearhead")
    except PackageNotFoundError:  # run from source, not installed
        return "unknown"
