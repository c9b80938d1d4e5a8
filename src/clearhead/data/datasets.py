"""Named data sets: imported from a folder or downloaded, verified by SHA-256, cached, and located by name.

Files are stored as their source publishes them. A zip archive is unpacked after verification into a folder with its
name: `tatoeba:fra-eng.zip/fra.txt`.
"""

import difflib
import gzip
import hashlib
import lzma
import os
import re
import shutil
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from http.client import HTTPException, HTTPMessage
from itertools import product
from pathlib import Path
from typing import IO, cast
from urllib.error import HTTPError

from clearhead.data.catalog import DATASETS, Dataset, RemoteFile
from clearhead.files import MANIFEST, IntegrityError, Manifest, new_folder, read_manifest, safe_join, write_manifest
from clearhead.files.cache import cache_home
from clearhead.text.corpus import decompressed

CHUNK_BYTES = 1 << 18
READ_TIMEOUT_S = 30.0
MAX_UNPACKED_BYTES = 1 << 30  # of one archive
MAX_MEMBERS = 10_000

_REFERENCE = re.compile(r"([a-z][a-z0-9_]+):(.+)", re.DOTALL)


class _HttpsOnly(urllib.request.HTTPRedirectHandler):
    """Refuses redirects to any scheme but https."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        try:
            _check_https(newurl)
        except ValueError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


OPENER = urllib.request.build_opener(_HttpsOnly)


def open_https(url: str) -> IO[bytes]:
    """Open an https URL as a byte stream; the certificate is verified."""
    _check_https(url)
    return cast(IO[bytes], OPENER.open(url, timeout=READ_TIMEOUT_S))


def _check_https(url: str) -> None:
    if not url.startswith("https://"):
        raise ValueError(f"{url} is refused: only https URLs are downloaded")


def data_home() -> Path:
    """Return the data folder: $CLEARHEAD_DATA, or `data` in the cache (~/.cache/clearhead)."""
    home = os.environ.get("CLEARHEAD_DATA")
    return Path(home) if home else cache_home() / "data"


def find_dataset(name: str) -> Dataset:
    """Return the data set with this name."""
    if name not in DATASETS:
        raise ValueError(f"there is no data set {name!r}: {_choices(DATASETS, name)}")
    return DATASETS[name]


def import_files(name: str, folder: str | Path) -> Path:
    """Copy a data set from a local folder into the data folder; returns its path.

    Files are looked up in FOLDER/NAME and in FOLDER, also as FILE.gz and FILE.xz, which are decompressed. If any file
    is missing or differs, the error names all of them and nothing is changed.
    """
    wanted, folder = find_dataset(name), Path(folder)
    with ExitStack() as stack:

        def open_file(file: RemoteFile) -> IO[bytes] | None:
            for suffix, base in product(("", ".gz", ".xz"), (folder / name, folder)):
                path = base / (file.name + suffix)
                if path.is_file():
                    raw = stack.enter_context(path.open("rb"))
                    return decompressed(path, raw) if suffix else raw
            return None

        try:
            return _store(wanted, open_file)
        except _WrongFiles as error:
            raise ValueError(f"{folder} does not hold {name}: {error}; the source is {wanted.source}") from None


def fetch(
    name: str, on_progress: Callable[[int], object] = lambda done: None, opener: Callable[[str], IO[bytes]] = open_https
) -> Path:
    """Download a data set; returns its path. `on_progress` receives the number of bytes downloaded so far."""
    wanted = find_dataset(name)
    if any(file.url is None for file in wanted.files):
        raise ValueError(
            f"{name} cannot be downloaded: no public address with exactly these files is known; {_get_hint(wanted)}"
        )
    with ExitStack() as stack:
        try:
            return _store(wanted, lambda file: stack.enter_context(opener(str(file.url))), on_progress)
        except _WrongFiles as error:
            raise ValueError(f"the download of {name} is not as expected: {error}; {_import_hint(wanted)}") from None
        except (OSError, HTTPException) as error:
            if isinstance(error, HTTPError):
                error.close()  # it is an open response too
            reason = error if isinstance(error, HTTPError) else getattr(error, "reason", error)
            raise ValueError(f"{name} cannot be downloaded ({reason}); {_import_hint(wanted)}") from error


def locate(reference: str | Path, base: str | Path) -> Path:
    """Resolve a recipe path: `multi30k:train.en.gz` is a file of a data set, other paths are relative to `base`."""
    path = Path(base) / reference
    match = _REFERENCE.fullmatch(str(reference))
    if match is None or (match[1] not in DATASETS and path.exists()):
        return path
    wanted, name = find_dataset(match[1]), match[2]
    manifest = dataset_folder(wanted)
    if manifest is None:
        raise ValueError(f"{wanted.name} is not in {data_home()}: {_get_hint(wanted)}")
    if name not in manifest.files:
        raise ValueError(f"{wanted.name} has no file {name!r}: {_choices(manifest.files, name)}")
    try:
        path = safe_join(data_home() / wanted.name, name)
    except ValueError as error:
        raise ValueError(f"{error}; {_get_hint(wanted)}") from None
    if (size := path.stat().st_size) != manifest.files[name].size:
        raise ValueError(f"{path} has {size:,} bytes, expected {manifest.files[name].size:,}; {_get_hint(wanted)}")
    return path


def dataset_folder(wanted: Dataset) -> Manifest | None:
    """Return the manifest of a stored data set; None if it is not stored or its files differ from the catalog's."""
    try:
        manifest = read_manifest(data_home() / wanted.name)
    except IntegrityError:
        return None
    return manifest if manifest.metadata.get("files") == _digests(wanted) else None


def files_here(wanted: Dataset) -> dict[str, bool]:
    """Return which files of a data set are stored with their full size; for an archive, all of its members."""
    manifest, folder = dataset_folder(wanted), data_home() / wanted.name
    if manifest is None:
        return dict.fromkeys(_digests(wanted), False)
    complete = {name: _size(folder / name) == file.size for name, file in manifest.files.items()}
    return {
        name: all(ok for other, ok in complete.items() if other == name or other.startswith(name + "/"))
        for name in _digests(wanted)
    }


class _WrongFiles(ValueError):
    """Files that are missing or differ from the catalog."""


def _store(
    wanted: Dataset,
    open_file: Callable[[RemoteFile], IO[bytes] | None],
    on_progress: Callable[[int], object] = lambda done: None,
) -> Path:
    """Write all files of a data set to the data folder, atomically."""
    target = data_home() / wanted.name
    if target.is_dir() and any(target.iterdir()) and not (target / MANIFEST).exists():
        raise ValueError(
            f"{target} holds files that clearhead did not put there: move them, or set CLEARHEAD_DATA to another folder"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    missing: list[str] = []
    wrong: list[str] = []
    before = 0
    with new_folder(target, overwrite=True) as folder:
        for file in wanted.files:
            path = folder / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            source = open_file(file)
            if source is None:
                missing.append(file.name)
            elif reason := _copy(source, path, file, lambda n, b=before: on_progress(b + n)):
                wrong.append(f"{file.name} {reason}")
            elif path.suffix == ".zip":
                _unpack(path)
            before += file.size
        if missing or wrong:
            absent = [f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"] if missing else []
            raise _WrongFiles("; ".join(absent + wrong))
        origin = {"set": wanted.name, "source": wanted.source, "license": wanted.license}
        write_manifest(folder, {**origin, "files": _digests(wanted)})
    return target


def _copy(source: IO[bytes], path: Path, file: RemoteFile, on_progress: Callable[[int], object]) -> str | None:
    """Copy a stream to a file, up to the expected size; returns the reason if it is not the right file."""
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("wb") as target:
            while chunk := source.read(CHUNK_BYTES):
                size += len(chunk)
                if size > file.size:
                    return f"has more than the expected {file.size:,} bytes"
                digest.update(chunk)
                target.write(chunk)
                on_progress(size)
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        return f"cannot be decompressed ({error})"
    if size < file.size:
        return f"has {size:,} bytes, expected {file.size:,}"
    return None if digest.hexdigest() == file.sha256 else "is a different file: its SHA-256 does not match"


def _unpack(path: Path) -> None:
    """Replace an archive by a folder with its members."""
    archive = path.rename(path.with_name(f".{path.name}"))
    path.mkdir()
    with zipfile.ZipFile(archive) as zipped:
        members = [member for member in zipped.infolist() if not member.is_dir()]
        if len(members) > MAX_MEMBERS or sum(member.file_size for member in members) > MAX_UNPACKED_BYTES:
            raise ValueError(
                f"{path.name} is refused: it unpacks to more than {MAX_MEMBERS:,} files or {MAX_UNPACKED_BYTES:,} bytes"
            )
        for member in members:
            parts = member.filename.split("/")
            if "\\" in member.filename or any(part in ("", ".", "..") for part in parts):
                raise ValueError(f"{path.name} is refused: {member.filename!r:.200} is not a plain relative path")
            target = path.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with zipped.open(member) as source, target.open("xb") as file:
                shutil.copyfileobj(source, file)
    archive.unlink()


def _digests(wanted: Dataset) -> dict[str, str]:
    return {file.name: file.sha256 for file in wanted.files}


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1


def _get_hint(wanted: Dataset) -> str:
    if any(file.url is None for file in wanted.files):
        return _import_hint(wanted)
    return f"download it: clearhead data {wanted.name} --fetch; or {_import_hint(wanted)}"


def _import_hint(wanted: Dataset) -> str:
    return f"import a copy: clearhead data {wanted.name} --from FOLDER"


def _choices(names: Iterable[str], near: str) -> str:
    choices = sorted(names)
    close = difflib.get_close_matches(near, choices, n=1)
    shown = ", ".join(choices[:30]) + (f" and {len(choices) - 30} more" if len(choices) > 30 else "")
    return f"there are {shown}" + (f"; did you mean {close[0]}?" if close else "")
