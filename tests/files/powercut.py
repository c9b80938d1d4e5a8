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
        self.disk = Disk({}, root.stat().st_ino)
        self.states: list[Disk] = []
        self._look(root)
        for node in self.disk.nodes.values():  # what was there before is safe
            if isinstance(node, File):
                node.synced = node.written
            else:
                node.synced, node.changes = node.names, []

    def _look(self, path: Path) -> None:
        """Bring what is written and named up to what is there now."""
        names: Names = {}
        for entry in os.scandir(path):
            names[entry.name] = entry.inode()
            if entry.is_dir():
                self._look(Path(entry.path))
            else:
                file = self.disk.nodes.setdefault(entry.inode(), File())
                assert isinstance(file, File)
                file.written = Path(entry.path).read_bytes()
        folder = self.disk.nodes.setdefault(path.stat().st_ino, Folder())
        assert isinstance(folder, Folder)
        if names != folder.names:
            folder.changes.append(names)

    def note(self) -> None:
        self._look(self.root)
        self.states.append(copy.deepcopy(self.disk))

    def synced(self, fd: int) -> None:
        node = self.disk.nodes.get(os.fstat(fd).st_ino)
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
