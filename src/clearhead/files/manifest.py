"""`clearhead.json`, the manifest of a folder: what every file must be, so that damage is found and named.

The hashes carry no key: they find damage, not forgery. Someone who can change a file can write a new manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from clearhead.files.atomic import write_atomic
from clearhead.files.safe import MAX_DEPTH, Missing, inside, parse_json, read_bytes, read_json, sha256

MANIFEST = "clearhead.json"
MARKER = {"clearhead": {"manifest": MANIFEST}}  # goes into config.json, so that a lost manifest is missed
MAX_MANIFEST = 2 << 20  # bytes
TWO_THREADS = 16 << 20  # bytes to hash from which a second thread is worth its start
READ = {".json", ".safetensors", ".txt", ".model", ".jinja"}  # the endings that somebody opens unasked


T = TypeVar("T")


class Damaged(ValueError):
    """A folder is not what its manifest says; `problems` has the reason for each file, the message for the first 20."""

    def __init__(self, folder: Path, problems: dict[str, str]) -> None:
        super().__init__(folder, problems)
        self.folder, self.problems = folder, problems

    def __str__(self) -> str:
        listed = [f"{name!r:.200} {why}" for name, why in sorted(self.problems.items())]
        more = [f"{len(listed) - 20:,} more"] if len(listed) > 20 else []
        return f"{self.folder} is damaged: {'; '.join(listed[:20] + more)}. Get it anew from where it came from"


@dataclass(frozen=True, kw_only=True)
class File:
    """What a file must be."""

    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a folder must hold, the facts its writer gave, and the version of clearhead that wrote it."""

    version: str
    facts: dict[str, Any]
    files: dict[str, File]


def write_manifest(folder: str | Path, facts: Mapping[str, Any]) -> Manifest:
    """Write the manifest of everything that is in `folder` now, with `facts`, which must be JSON."""
    folder = Path(folder)
    names = _names(folder)
    size = sum(inside(folder, name).stat().st_size for name in names)
    files = _each(lambda name: _measure(folder / name), names, size)
    plain = json.loads(json.dumps(dict(facts), allow_nan=False))  # keys that are numbers become text now, not when read
    manifest = Manifest(version=_version(), facts=plain, files=files)
    data = _dump(manifest)
    if len(data) > MAX_MANIFEST:
        raise ValueError(
            f"the manifest of {folder} would have {len(data):,} bytes, over {MAX_MANIFEST:,}: give fewer facts"
        )
    write_atomic(folder / MANIFEST, data)
    return manifest


def read_manifest(folder: str | Path) -> Manifest:
    """The manifest of `folder`, itself unharmed; the files it lists are not looked at."""
    folder = Path(folder)
    try:
        data = read_bytes(folder, MANIFEST, max_bytes=MAX_MANIFEST)
        manifest = _load(parse_json(data, MANIFEST))
        whole = _dump(manifest) == data
    except Missing:
        raise Damaged(folder, {MANIFEST: "is missing"}) from None
    except ValueError as error:
        raise Damaged(folder, {MANIFEST: f"cannot be read ({error})"}) from None
    if not whole:
        raise Damaged(folder, {MANIFEST: "was changed: its SHA-256 of itself does not fit"})
    return manifest


def verify(folder: str | Path) -> Manifest:
    """The manifest of `folder`, after every file was read and found to be what it says; else `Damaged`.

    A file that is not listed is damage too if its ending is one of `READ`, because some program would open it
    unasked; others (a README, what git keeps, anything in a folder whose name begins with a dot) may be added.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    there = set(_names(folder))
    problems = dict.fromkeys(manifest.files.keys() - there, "is missing")
    listed = {name: file for name, file in manifest.files.items() if name in there}
    found = _each(lambda name: _problem(folder, name, listed[name]), listed, sum(file.size for file in listed.values()))
    problems |= {name: why for name, why in found.items() if why}
    for name in there - manifest.files.keys():
        hidden = any(part.startswith(".") for part in name.split("/")[:-1])
        if Path(name).suffix.lower() in READ and not hidden:
            problems[name] = "is not listed in the manifest"
    if problems:
        raise Damaged(folder, problems)
    return manifest


def admit(folder: str | Path) -> Manifest | None:
    """The verified manifest of a model folder, or None for a folder that never had one.

    A manifest that is there counts even if `config.json` no longer says so, and one that `config.json` speaks of
    must be there: no single change takes a folder out of the check.
    """
    if os.path.lexists(Path(folder) / MANIFEST) or belongs(read_json(folder, "config.json")):
        return verify(folder)
    return None


def belongs(config: Mapping[str, Any]) -> bool:
    """Whether a `config.json` says that a manifest belongs to its folder."""
    return "clearhead" in config


def _each(work: Callable[[str], T], names: Iterable[str], size: int) -> dict[str, T]:
    """What `work` gives for each name; two threads share it where there is much to hash, and the GIL is released."""
    if size < TWO_THREADS:
        return {name: work(name) for name in names}
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(work, names), strict=True))


def _measure(path: Path) -> File:
    return File(size=path.stat().st_size, sha256=sha256(path))


def _problem(folder: Path, name: str, file: File) -> str | None:
    try:
        path = inside(folder, name)
    except ValueError as error:
        return f"cannot be read ({error})"
    if (size := path.stat().st_size) != file.size:
        return f"has {size:,} bytes where {file.size:,} are due"
    return None if sha256(path) == file.sha256 else "was changed: its SHA-256 is another"


def _names(folder: Path) -> list[str]:
    """Every file below `folder` but the manifest, by its relative name; links to folders are not followed."""
    names: list[str] = []
    todo = [""]
    while todo:
        below = todo.pop()
        if below.count("/") > MAX_DEPTH:
            raise ValueError(f"{folder} has folders in folders beyond {MAX_DEPTH} levels")
        for entry in os.scandir(folder / below):
            if entry.is_dir(follow_symlinks=False):
                todo.append(f"{below}{entry.name}/")
            else:
                names.append(f"{below}{entry.name}")
    return sorted(name for name in names if name != MANIFEST)


def _dump(manifest: Manifest) -> bytes:
    """The one text of a manifest, with the SHA-256 of the same text without that line."""
    files = {name: vars(file) for name, file in manifest.files.items()}
    body: dict[str, Any] = {"version": manifest.version, "facts": manifest.facts, "files": files}
    body["sha256"] = hashlib.sha256(_canonical(body)).hexdigest()
    return _canonical(body)


def _canonical(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode("utf-8")


def _load(value: dict[str, Any]) -> Manifest:
    match value:
        case {"version": str(version), "facts": dict(facts), "files": dict(files)}:
            return Manifest(version=version, facts=facts, files={name: _file(v) for name, v in files.items()})
        case _:
            raise ValueError("it must have version, facts and files")


def _file(value: Any) -> File:
    match value:
        case {"size": int(size), "sha256": str(digest)}:
            return File(size=size, sha256=digest)
        case _:
            raise ValueError(f"{value!r:.100} is not the size and SHA-256 of a file")


def _version() -> str:
    try:
        return metadata.version("clearhead")
    except metadata.PackageNotFoundError:  # run from its source, not installed
        return "unknown"
