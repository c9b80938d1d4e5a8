"""Files and folders that are there whole or not at all, whatever interrupts the writing."""

from __future__ import annotations

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
_LEFTOVER = re.compile(r"\..+\.clearhead-[0-9a-f]{8}\.(new|old)")


def write_atomic(path: str | Path, data: bytes | str) -> None:
    """Write a file so that a crash leaves the old content or the new, never a piece. Text is written as UTF-8.

    A symbolic link at `path` is replaced, not followed.
    """
    path = Path(path)
    temporary = _beside(path, "new")
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


@contextmanager
def new_folder(target: str | Path, *, overwrite: bool = False) -> Generator[Path]:
    """A temporary folder to fill, which becomes `target` when the block ends well.

    Everything in it is synced to disk first, then it is renamed; files get the permissions that the umask gives,
    whatever wrote them. If the block raises, or Ctrl-C ends it, the folder is removed and `target` is as it was.

    A `target` that holds something is refused, unless `overwrite`: then the two folders change places in one
    atomic step (Linux's renameat2), and the old one, now under the temporary name, is removed. A killed process
    or a power cut leaves

    - before the exchange: the old folder at `target`, and the new one, perhaps unfinished, under the temporary name;
    - after it: the new folder, whole, at `target`, and what is left of the old one under the temporary name.

    Where the system cannot exchange, the old folder is renamed to `.NAME.clearhead-XXXXXXXX.old` and the new one to
    `target`. A crash between these two leaves no `target`, and both folders whole beside it: `.old` and `.new`.
    `leftovers` finds what a crash left.
    """
    target = Path(target).resolve()  # through a link: the folder it points to is the one replaced
    _check(target, overwrite)
    temporary = _beside(target, "new")
    try:
        temporary.mkdir()
        yield temporary
        _sync_tree(temporary)
        if overwrite and target.exists():
            _replace(temporary, target)
        else:
            os.rename(temporary, target)  # refuses a target that came to hold something in the meantime
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync(target.parent)  # the new names are on disk before the old folder goes
    shutil.rmtree(temporary, ignore_errors=True)


def leftovers(parent: str | Path) -> list[Path]:
    """The temporary files and folders in `parent`: left by killed processes, or still being written."""
    return sorted(p for p in Path(parent).iterdir() if _LEFTOVER.fullmatch(p.name))


def _check(target: Path, overwrite: bool) -> None:
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target} cannot be made: there is no folder {target.parent}; make it first")
    if target.exists() and not target.is_dir():
        raise FileExistsError(f"{target} is a file, and a folder is to be made there: give another name")
    if target.exists() and any(target.iterdir()) and not overwrite:
        raise FileExistsError(f"{target} holds files already: give another name, or allow it to be overwritten")


def _beside(target: Path, kind: str) -> Path:
    return target.with_name(f".{target.name}.clearhead-{secrets.token_hex(4)}.{kind}")


def _replace(new: Path, target: Path) -> None:
    """Put `new` in the place of `target`; the old folder ends up where `new` was."""
    if _exchange(new, target):
        return
    old = _beside(target, "old")
    try:
        os.rename(target, old)
        os.rename(new, target)
    except BaseException:
        if old.exists() and not target.exists():
            os.rename(old, target)
        raise
    os.rename(old, new)


def _exchange(a: Path, b: Path) -> bool:
    """Let two folders change places in one step; False where the C library, kernel or file system cannot."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
    if renameat2 is None:
        return False
    return renameat2(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), _RENAME_EXCHANGE) == 0


def _sync_tree(folder: Path) -> None:
    readable = folder.stat().st_mode & 0o666
    for root, _, names in os.walk(folder, topdown=False):
        for path in (Path(root, name) for name in names):
            if path.is_symlink():
                continue
            mode = path.stat().st_mode
            if mode | readable != mode:
                path.chmod(mode | readable)  # safetensors makes its files for their owner only
            _sync(path)
        _sync(Path(root))


def _sync(path: Path) -> None:
    if os.name != "posix":
        return  # Windows syncs neither folders nor files opened to be read
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
