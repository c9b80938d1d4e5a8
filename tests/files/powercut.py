"""A model of what a disk keeps when the power goes, and a recorder of what is done to a folder.

The model is the pessimistic one that POSIX allows: a file has the bytes of its last fsync, or any part of those written
since; a folder has the names of its last fsync, plus a beginning of the changes made since. Nothing is ordered
between one file or folder and another.
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.files import atomic

Tree = dict[str, "bytes | Tree"]
Names = dict[str, int]


@dataclass
class File:
    synced: bytes = b""
    written: bytes = b""


@dataclass
class Folder:
    synced: Names = field(default_factory=dict)
    changes: list[Names] = field(default_factory=list)  # the names after each change since

    @property
    def names(self) -> Names:
        return self.changes[-1] if self.changes else self.synced


@dataclass
class Disk:
    """Files and folders by inode; `root` is the folder that is looked at after the crash."""

    nodes: dict[int, File | Folder]
    root: int

    def crash(self, draw: random.Random) -> Tree:
        """One of the states that a power cut may leave now."""
        return self._tree(self.root, draw)

    def _tree(self, node: int, draw: random.Random) -> Tree:
        folder = self.nodes[node]
        assert isinstance(folder, Folder)
        tree: Tree = {}
        for name, child in draw.choice([folder.synced, *folder.changes]).items():
            entry = self.nodes[child]
            tree[name] = self._tree(child, draw) if isinstance(entry, Folder) else _torn(entry, draw)
        return tree


def _torn(file: File, draw: random.Random) -> bytes:
    if file.synced == file.written:
        return file.synced
    some = file.written[: draw.randrange(len(file.written) + 1)]
    return draw.choice([file.synced, b"", some, bytes(len(file.written)), file.written])


class Recorder:
    """Sees every change of names and every fsync below a folder, and keeps the disk after each."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._ids: dict[int, int] = {}  # of inodes that have a name now; one that is free may be another's tomorrow
        self._next = 0
        self.disk = Disk({}, self._id(root.stat().st_ino, Folder))
        self.states: list[Disk] = []
        self._look_anew()
        for node in self.disk.nodes.values():  # what was there before is safe
            if isinstance(node, File):
                node.synced = node.written
            else:
                node.synced, node.changes = node.names, []

    def _id(self, inode: int, kind: type) -> int:
        """Which file or folder an inode is; a new one where it was free, or of another kind."""
        found = self._ids.get(inode)
        if found is None or not isinstance(self.disk.nodes.get(found, kind()), kind):
            found, self._next = self._next, self._next + 1
            self._ids[inode] = found
        return found

    def _look_anew(self) -> None:
        """Bring what is written and named up to what is there now, and forget the inodes that are free."""
        seen = {self.root.stat().st_ino}
        self._look(self.root, self.disk.root, seen)
        self._ids = {inode: id for inode, id in self._ids.items() if inode in seen}

    def _look(self, path: Path, id: int, seen: set[int]) -> None:
        names: Names = {}
        for entry in os.scandir(path):
            seen.add(entry.inode())
            if entry.is_dir():
                inner = names[entry.name] = self._id(entry.inode(), Folder)
                self._look(Path(entry.path), inner, seen)
            else:
                inner = names[entry.name] = self._id(entry.inode(), File)
                file = self.disk.nodes.setdefault(inner, File())
                assert isinstance(file, File)
                file.written = Path(entry.path).read_bytes()
        folder = self.disk.nodes.setdefault(id, Folder())
        assert isinstance(folder, Folder)
        if names != folder.names:
            folder.changes.append(names)

    def note(self) -> None:
        self._look_anew()
        self.states.append(copy.deepcopy(self.disk))

    def synced(self, fd: int) -> None:
        node = self.disk.nodes.get(self._ids.get(os.fstat(fd).st_ino, -1))
        if isinstance(node, File):
            node.synced = node.written
        elif node is not None:
            node.synced, node.changes = node.names, []
        self.states.append(copy.deepcopy(self.disk))


@contextmanager
def recorded(root: Path, monkeypatch: Any) -> Iterator[Recorder]:
    """Record what happens below `root`: before and after every call that changes it or makes it durable."""
    recorder = Recorder(root)

    def watch(call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            recorder.note()
            result = call(*args, **kwargs)
            if call is fsync:
                recorder.synced(args[0])
            recorder.note()
            return result

        return watched

    fsync = os.fsync
    with monkeypatch.context() as patch:
        for name in ("fsync", "rename", "replace", "mkdir", "rmdir", "unlink"):
            patch.setattr(os, name, watch(getattr(os, name)))
        patch.setattr(atomic, "_exchange", watch(atomic._exchange))
        yield recorder
    recorder.note()
