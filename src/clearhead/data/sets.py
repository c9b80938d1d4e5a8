"""Named data sets: brought from a folder or fetched, checked byte by byte on the way, kept at home, found by name.

A file is kept as its source has it. An archive (.zip) is unpacked, once its bytes have been found to be the right ones,
into a folder that has its name: `tatoeba:fra-eng.zip/fra.txt`.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import lzma
import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from http.client import HTTPException
from itertools import product
from pathlib import Path
from typing import IO
from urllib.error import HTTPError

from clearhead.data.catalogue import SETS, DataSet, RemoteFile
from clearhead.data.download import open_https
from clearhead.files import MANIFEST, Damaged, Manifest, inside, new_folder, read_manifest, write_manifest
from clearhead.text.corpus import unpacked

CHUNK = 1 << 18  # bytes
MAX_UNPACKED = 1 << 30  # bytes of all that is in one archive
MAX_MEMBERS = 10_000

_REFERENCE = re.compile(r"([a-z][a-z0-9_]+):(.+)", re.DOTALL)


def data_home() -> Path:
    """Where data sets are kept: $CLEARHEAD_DATA, or ~/.cache/clearhead/data."""
    home = os.environ.get("CLEARHEAD_DATA")
    return Path(home) if home else Path.home() / ".cache" / "clearhead" / "data"


def data_set(name: str) -> DataSet:
    """The data set of that name."""
    if name not in SETS:
        raise ValueError(f"there is no data set {name!r}: {_listed(SETS, name)}")
    return SETS[name]


def take(name: str, folder: str | Path) -> Path:
    """Copy a data set home from a folder at hand; gives where it is kept.

    Files are looked for in FOLDER/NAME and in FOLDER, also as FILE.gz and FILE.xz, which are unpacked. Every file that
    is missing or not the right one is named, and nothing is changed then.
    """
    wanted, folder = data_set(name), Path(folder)
    with ExitStack() as stack:

        def open_file(file: RemoteFile) -> IO[bytes] | None:
            for packed, base in product(("", ".gz", ".xz"), (folder / name, folder)):
                path = base / (file.name + packed)
                if path.is_file():
                    raw = stack.enter_context(path.open("rb"))
                    return unpacked(path, raw) if packed else raw
            return None

        try:
            return _keep(wanted, open_file)
        except _Wrong as error:
            raise ValueError(f"{folder} does not hold {name}: {error}; it comes from {wanted.source}") from None


def fetch(
    name: str,
    heard: Callable[[int], object] = lambda done: None,
    opener: Callable[[str], IO[bytes]] = open_https,
) -> Path:
    """Download a data set; gives where it is kept. `heard` is told how many bytes have come."""
    wanted = data_set(name)
    if any(file.url is None for file in wanted.files):
        raise ValueError(
            f"{name} cannot be fetched: no public address is known to hold these very bytes; {_how(wanted)}"
        )
    with ExitStack() as stack:
        try:
            return _keep(wanted, lambda file: stack.enter_context(opener(str(file.url))), heard)
        except _Wrong as error:
            raise ValueError(f"what was fetched is not {name}: {error}; {_bring(wanted)}") from None
        except (OSError, HTTPException) as error:
            if isinstance(error, HTTPError):
                error.close()  # it is an open answer too
            reason = error if isinstance(error, HTTPError) else getattr(error, "reason", error)
            raise ValueError(f"{name} cannot be fetched ({reason}); {_bring(wanted)}") from error


def locate(reference: str | Path, base: str | Path) -> Path:
    """The path that a recipe means: `multi30k:train.en.gz` is a file of a data set, all else is relative to `base`."""
    path = Path(base) / reference
    match = _REFERENCE.fullmatch(str(reference))
    if match is None or (match[1] not in SETS and path.exists()):
        return path
    wanted, name = data_set(match[1]), match[2]
    manifest = kept(wanted)
    if manifest is None:
        raise ValueError(f"{wanted.name} is not in {data_home()}: {_how(wanted)}")
    if name not in manifest.files:
        raise ValueError(f"{wanted.name} has no file {name!r}: {_listed(manifest.files, name)}")
    try:
        path = inside(data_home() / wanted.name, name)
    except ValueError as error:
        raise ValueError(f"{error}; {_how(wanted)}") from None
    if (size := path.stat().st_size) != manifest.files[name].size:
        raise ValueError(f"{path} has {size:,} bytes where {manifest.files[name].size:,} are due; {_how(wanted)}")
    return path


def kept(wanted: DataSet) -> Manifest | None:
    """The manifest of a data set at home; None if there is none, or one of other files than the catalogue's."""
    try:
        manifest = read_manifest(data_home() / wanted.name)
    except Damaged:
        return None
    return manifest if manifest.facts.get("files") == _digests(wanted) else None


def files_here(wanted: DataSet) -> dict[str, bool]:
    """Which files of a data set are at home, in full length; an archive is, if all that was in it is."""
    manifest, folder = kept(wanted), data_home() / wanted.name
    if manifest is None:
        return dict.fromkeys(_digests(wanted), False)
    whole = {name: _size(folder / name) == file.size for name, file in manifest.files.items()}
    return {
        name: all(ok for other, ok in whole.items() if other == name or other.startswith(name + "/"))
        for name in _digests(wanted)
    }


class _Wrong(ValueError):
    """Files that are missing, or not what they must be."""


def _keep(
    wanted: DataSet,
    open_file: Callable[[RemoteFile], IO[bytes] | None],
    heard: Callable[[int], object] = lambda done: None,
) -> Path:
    """Put every file where data sets are kept, all or none."""
    target = data_home() / wanted.name
    if target.is_dir() and any(target.iterdir()) and not (target / MANIFEST).exists():
        raise ValueError(f"{target} holds files that clearhead did not put there: move them, or set CLEARHEAD_DATA")
    target.parent.mkdir(parents=True, exist_ok=True)
    missing: list[str] = []
    others: list[str] = []
    before = 0
    with new_folder(target, overwrite=True) as folder:
        for file in wanted.files:
            path = folder / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            source = open_file(file)
            if source is None:
                missing.append(file.name)
            elif why := _copy(source, path, file, lambda n, b=before: heard(b + n)):
                others.append(f"{file.name} {why}")
            elif path.suffix == ".zip":
                _unpack(path)
            before += file.size
        if missing or others:
            lacking = [f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"] if missing else []
            raise _Wrong("; ".join(lacking + others))
        write_manifest(
            folder,
            {"set": wanted.name, "source": wanted.source, "licence": wanted.licence, "files": _digests(wanted)},
        )
    return target


def _copy(source: IO[bytes], path: Path, file: RemoteFile, heard: Callable[[int], object]) -> str | None:
    """Copy a stream to a file, no further than it may go; what is wrong with it, if anything is."""
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("wb") as target:
            while chunk := source.read(CHUNK):
                size += len(chunk)
                if size > file.size:
                    return f"has more than the {file.size:,} bytes that are due"
                digest.update(chunk)
                target.write(chunk)
                heard(size)
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        return f"cannot be unpacked ({error})"
    if size < file.size:
        return f"has {size:,} bytes where {file.size:,} are due"
    return None if digest.hexdigest() == file.sha256 else "is another file: its SHA-256 does not fit"


def _unpack(path: Path) -> None:
    """Put a folder with what is in an archive in its place."""
    archive = path.rename(path.with_name(f".{path.name}"))
    path.mkdir()
    with zipfile.ZipFile(archive) as packed:
        members = [member for member in packed.infolist() if not member.is_dir()]
        if len(members) > MAX_MEMBERS or sum(member.file_size for member in members) > MAX_UNPACKED:
            raise ValueError(f"{path.name} is refused: it would unpack to more than a data set may have")
        for member in members:
            parts = member.filename.split("/")
            if "\\" in member.filename or any(part in ("", ".", "..") for part in parts):
                raise ValueError(f"{path.name} is refused: {member.filename!r:.200} is no plain name of a file in it")
            target = path.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with packed.open(member) as source, target.open("xb") as file:
                shutil.copyfileobj(source, file)
    archive.unlink()


def _digests(wanted: DataSet) -> dict[str, str]:
    return {file.name: file.sha256 for file in wanted.files}


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1


def _how(wanted: DataSet) -> str:
    if any(file.url is None for file in wanted.files):
        return _bring(wanted)
    return f"fetch it: clearhead data {wanted.name} --fetch; or {_bring(wanted)}"


def _bring(wanted: DataSet) -> str:
    return f"bring a copy: clearhead data {wanted.name} --from FOLDER"


def _listed(names: Iterable[str], near: str) -> str:
    every = sorted(names)
    close = difflib.get_close_matches(near, every, n=1)
    shown = ", ".join(every[:30]) + (f" and {len(every) - 30} more" if len(every) > 30 else "")
    return f"there are {shown}" + (f"; did you mean {close[0]}?" if close else "")
