"""Folders in an object store: written from a local folder, the manifest last, and copied to a local cache."""

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from clearhead.files.atomic import new_folder
from clearhead.files.cache import cache_home
from clearhead.files.manifest import MANIFEST, Folder
from clearhead.files.s3_path import CommitConflict, MissingObject, S3Path, StoredObject
from clearhead.files.s3_streams import S3Reader, S3Writer
from clearhead.files.safe import safe_join

COPY_BYTES = 8 << 20
PARALLEL_FILES = 4


@contextmanager
def new_folder_at(target: str | Folder, *, overwrite: bool = False) -> Generator[Path]:
    """Yield a temporary folder to fill, which becomes `target`, on disk or in a store, if the block does not raise."""
    if not isinstance(target, S3Path):
        with new_folder(target, overwrite=overwrite) as folder:
            yield folder
        return
    _refuse_existing(target, overwrite)
    with tempfile.TemporaryDirectory(prefix="clearhead-") as folder:
        yield Path(folder)
        upload_folder(Path(folder), target, overwrite=overwrite)


def upload_folder(source: Path, target: S3Path, *, overwrite: bool = False) -> None:
    """Copy a folder to a store. Its manifest is put last, on the condition that no other process wrote one meanwhile.

    Without a manifest the folder is incomplete. While files of an existing folder are replaced, it does not match
    its manifest, and readers refuse it.
    """
    before = _refuse_existing(target, overwrite)
    names = sorted(p.relative_to(source).as_posix() for p in source.rglob("*") if p.is_file())
    with ThreadPoolExecutor(PARALLEL_FILES) as pool:
        list(pool.map(lambda name: upload_file(source / name, target / name), (n for n in names if n != MANIFEST)))
    if MANIFEST in names:
        old = before.get(MANIFEST)
        try:
            (target / MANIFEST).commit_bytes((source / MANIFEST).read_bytes(), None if old is None else old.etag)
        except CommitConflict:
            raise CommitConflict(f"another process wrote {target} in the meantime: write to another address") from None
    target.remove(before.keys() - set(names))


def upload_file(source: Path, target: S3Path) -> None:
    """Copy a file to a store."""
    writer = S3Writer(target)
    try:
        with source.open("rb") as file:
            shutil.copyfileobj(file, writer, COPY_BYTES)
    except BaseException:
        writer.abort()
        raise
    writer.close()


def download_file(source: S3Path, target: Path, stored: StoredObject | None = None) -> None:
    """Copy an object to a new file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with S3Reader(source, stored) as reader, target.open("xb") as file:
        shutil.copyfileobj(reader, file, COPY_BYTES)


def cached_copy(
    source: S3Path, kind: str, wanted: Callable[[str], bool], check: Callable[[Path], object] = lambda folder: None
) -> Path:
    """Return a local copy of the wanted files of a folder; a copy of the same content is used again.

    `check` raises if the copy is damaged; it is then not kept.
    """
    files = {name: stored for name, stored in source.files().items() if wanted(name)}
    if not files:
        raise MissingObject(f"there are no files of a {kind} at {source}: check the address")
    for name in files:
        safe_join(source, name)  # plain names alone
    target = cache_home() / f"{kind}s" / f"{source.name}-{_content_key(files)}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with new_folder(target) as folder:
            with ThreadPoolExecutor(PARALLEL_FILES) as pool:
                list(pool.map(lambda item: download_file(source / item[0], folder / item[0], item[1]), files.items()))
            check(folder)
    except OSError:
        if not target.is_dir():  # else another process was faster
            raise
    return target


def _content_key(files: Mapping[str, StoredObject]) -> str:
    lines = (f"{name}\0{stored.size}\0{stored.etag}\n" for name, stored in sorted(files.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:32]


def _refuse_existing(target: S3Path, overwrite: bool) -> dict[str, StoredObject]:
    target.check_access()
    before = target.files()
    if before and not overwrite:
        raise FileExistsError(f"{target} is not empty: give another address, or allow it to be overwritten")
    return before
