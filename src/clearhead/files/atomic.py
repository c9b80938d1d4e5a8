"""Atomic writes of files and folders: after a crash, either the old content or the new is there."""

import ctypes
import os
import re
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_AT_FDCWD = -100  # "relative to the working directory", from <fcntl.h>
_RENAME_EXCHANGE = 2  # from <linux/fs.h>
_TEMPORARY = re.compile(r"\..+\.clearhead-[0-9a-f]{8}\.(new|old)")


def write_atomic(path: str | Path, data: bytes | str) -> None:
    """Writes a file atomically: a crash leaves the old content or the new. Text is encoded as UTF-8.

    A symbolic link at `path` is replaced, not followed.
    """
    path = Path(path)
    temporary = _temporary_path(path, "new")
    try:
        with temporary.open("xb") as file:
            file.write(data.encode("utf-8") if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def partial_path(path: Path) -> Path:
    """Returns the name of an output file while it is written piece by piece; it keeps this name if that is stopped."""
    return path.with_name(path.name + ".partial")


@contextmanager
def new_folder(target: str | Path, *, overwrite: bool = False) -> Generator[Path]:
    """Yields a temporary folder to fill; it becomes `target` when the block ends without an exception.

    Its content is synced to disk before the rename, and files get the permissions of the umask. If the block raises,
    or Ctrl-C ends it, the folder is removed and `target` is unchanged.

    A `target` that is not empty is refused, unless `overwrite`: then the two folders are exchanged in one atomic step
    (Linux's renameat2), and the old one, now under the temporary name, is removed. A killed process or a power cut
    leaves

    - before the exchange: the old folder at `target`, and the new one, maybe incomplete, under the temporary name;
    - after it: the complete new folder at `target`, and the rest of the old one under the temporary name.

    If the system cannot exchange folders, the old one is renamed to `.NAME.clearhead-XXXXXXXX.old` and the new one to
    `target`. A crash between these two leaves no `target`, but both folders complete next to it, `.old` and `.new`.
    `stale_temporaries` finds what a crash left.
    """
    target = Path(target).resolve()  # a link is followed: the folder it points to is replaced
    _check(target, overwrite)
    temporary = _temporary_path(target, "new")
    try:
        temporary.mkdir()
        yield temporary
        sync_tree(temporary)
        if overwrite and target.exists():
            _replace(temporary, target)
        else:
            os.rename(temporary, target)  # fails if the target was filled in the meantime
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync(target.parent)  # the new names are on disk before the old folder is removed
    shutil.rmtree(temporary, ignore_errors=True)


def publish_folder(source: Path, target: Path) -> None:
    """Renames a complete folder, whose content is synced already, to `target`, which must not exist."""
    _check(target, overwrite=False)
    os.rename(source, target)
    _sync(target.parent)


def stale_temporaries(parent: str | Path) -> list[Path]:
    """Lists the temporary files and folders in `parent`: left by killed processes, or still being written."""
    return sorted(p for p in Path(parent).iterdir() if _TEMPORARY.fullmatch(p.name))


def _check(target: Path, overwrite: bool) -> None:
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target} cannot be created: there is no folder {target.parent}; create it first")
    if target.exists() and not target.is_dir():
        raise FileExistsError(f"{target} is a file, but a folder is to be created there: give another name")
    if target.exists() and any(target.iterdir()) and not overwrite:
        raise FileExistsError(f"{target} is not empty: give another name, or allow it to be overwritten")


def _temporary_path(target: Path, kind: str) -> Path:
    return target.with_name(f".{target.name}.clearhead-{secrets.token_hex(4)}.{kind}")


def _replace(new: Path, target: Path) -> None:
    """Moves `new` to `target`; the old folder ends up where `new` was."""
    if _exchange(new, target):
        return
    old = _temporary_path(target, "old")
    try:
        os.rename(target, old)
        os.rename(new, target)
    except BaseException:
        if old.exists() and not target.exists():
            os.rename(old, target)
        raise
    os.rename(old, new)


def _exchange(a: Path, b: Path) -> bool:
    """Exchanges two folders atomically; returns False if the C library, kernel or file system cannot."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
    if renameat2 is None:
        return False
    return renameat2(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), _RENAME_EXCHANGE) == 0


def sync_tree(folder: Path, *, recursive: bool = True) -> None:
    """Syncs the files of a folder, and of those below it, to disk; files get the permissions of the umask."""
    readable = folder.stat().st_mode & 0o666
    for root, _, names in os.walk(folder, topdown=False) if recursive else [next(os.walk(folder))]:
        for path in (Path(root, name) for name in names):
            if path.is_symlink():
                continue
            mode = path.stat().st_mode
            if mode | readable != mode:
                path.chmod(mode | readable)  # safetensors creates files readable by the owner only
            _sync(path)
        _sync(Path(root))


def _sync(path: Path) -> None:
    if os.name != "posix":
        return  # Windows cannot sync folders or files opened for reading
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
