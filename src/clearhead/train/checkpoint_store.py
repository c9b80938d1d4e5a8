"""Where the checkpoints of a run are: in a folder, or in an object store. Both show complete checkpoints only.

On disk a checkpoint is a folder that is renamed when it is complete. A store cannot rename. There the files are objects
under a name that no other attempt has, `step-00000010/.ATTEMPT/`, and `step-00000010/clearhead.json`, the manifest, is
put when they are complete, on the condition that it is not there yet, or still the one that was found damaged.
"""

import hashlib
import re
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from torch.distributed.checkpoint.filesystem import FileSystemWriter

from clearhead.distributed.torch_private import CheckpointReader, S3CheckpointWriter
from clearhead.files import MANIFEST, FileEntry, new_folder, read_manifest, safe_join, stale_temporaries, write_manifest
from clearhead.files.manifest import Folder, file_entry, make_manifest
from clearhead.files.s3_path import CommitConflict, S3Path

STATE = "state.json"
NAME = re.compile(r"step-(\d{8})")
METADATA = {"kind": "checkpoint"}


class CheckpointStore(Protocol):
    """The checkpoints of one run."""

    def all(self) -> list[Any]:
        """Return the complete checkpoints, the oldest first."""
        ...

    def new(self, name: str) -> Any:
        """Return a context with the folder to fill. If it raises, the checkpoint does not exist."""
        ...

    def writer(self, folder: str) -> FileSystemWriter:
        """Return what writes the tensors of one rank to a folder of `new`."""
        ...

    def written(self, folder: str, rank: int, writer: FileSystemWriter) -> dict[str, FileEntry]:
        """Return the files that this rank has written, with their hashes."""
        ...

    def commit(self, folder: str, state: str, files: dict[str, FileEntry]) -> None:
        """Add the state and the manifest."""
        ...

    def remove(self, checkpoint: Any) -> None: ...

    def remove_incomplete(self, newest: Any) -> None:
        """Delete what killed processes left of checkpoints up to the newest one."""
        ...


class FolderStore:
    """Checkpoints in a folder on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def all(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        return sorted(p for p in self._folder.iterdir() if NAME.fullmatch(p.name))

    @contextmanager
    def new(self, name: str) -> Generator[str]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with new_folder(self._folder / name, overwrite=True) as folder:  # an existing one is damaged and was skipped
            yield str(folder)

    def writer(self, folder: str) -> FileSystemWriter:
        return FileSystemWriter(Path(folder), overwrite=False)

    def written(self, folder: str, rank: int, writer: FileSystemWriter) -> dict[str, FileEntry]:
        return {path.name: file_entry(path) for path in Path(folder).glob(f"__{rank}_*")}

    def commit(self, folder: str, state: str, files: dict[str, FileEntry]) -> None:
        (Path(folder) / STATE).write_text(state, encoding="utf-8")
        write_manifest(folder, METADATA, hashed=files)

    def remove(self, checkpoint: Path) -> None:
        shutil.rmtree(checkpoint)

    def remove_incomplete(self, newest: Path) -> None:
        for folder in stale_temporaries(self._folder):
            shutil.rmtree(folder, ignore_errors=True)


class ObjectStore:
    """Checkpoints in an object store.

    What was there when the run started is known, as is what it wrote itself. Anything else is by another process that
    trains the same run: it is never replaced or deleted, and where both want to write the same checkpoint, the second
    gets an error.
    """

    def __init__(self, folder: S3Path) -> None:
        self._folder = folder
        self._known: dict[str, str] | None = None  # entity tags of manifests, by the name of the checkpoint

    def all(self) -> list[S3Path]:
        manifests = self._manifests()
        self._known = manifests if self._known is None else self._known
        return [self._folder / name for name in sorted(manifests)]

    @contextmanager
    def new(self, name: str) -> Generator[str]:
        if self._known is None:
            self._known = self._manifests()
        attempt = self._folder / name / f".{secrets.token_hex(4)}"
        try:
            yield str(attempt)
        except CommitConflict:
            raise
        except BaseException:
            with suppress(ValueError):  # the next checkpoint deletes it
                self._delete(attempt)
            raise

    def writer(self, folder: str) -> FileSystemWriter:
        return S3CheckpointWriter(S3Path.parse(folder))

    def written(self, folder: str, rank: int, writer: FileSystemWriter) -> dict[str, FileEntry]:
        assert isinstance(writer, S3CheckpointWriter)
        return writer.objects.written

    def commit(self, folder: str, state: str, files: dict[str, FileEntry]) -> None:
        attempt = S3Path.parse(folder)
        target, data = attempt.parent, state.encode()
        (attempt / STATE).write_bytes(data)
        files = {**files, STATE: FileEntry(size=len(data), sha256=hashlib.sha256(data).hexdigest())}
        listed = {f"{attempt.name}/{name}": file for name, file in files.items()}
        _, manifest = make_manifest(target, {**METADATA, "attempt": attempt.name}, listed)
        known = self._known or {}
        try:
            etag = (target / MANIFEST).commit_bytes(manifest, known.get(target.name))
        except CommitConflict:
            with suppress(ValueError):  # the next checkpoint deletes it
                self._delete(attempt)
            raise CommitConflict(
                f"{target} was written by another process since this run started: two runs write to {self._folder}. "
                "End one of them, and start the other again: it resumes from the newest checkpoint"
            ) from None
        self._known = {**known, target.name: etag}

    def remove(self, checkpoint: S3Path) -> None:
        known, name = self._known or {}, checkpoint.name
        if name not in known or self._manifests().get(name) != known[name]:
            return
        (checkpoint / MANIFEST).unlink()  # first: what remains is incomplete, not damaged
        self._delete(checkpoint)
        self._known = {other: etag for other, etag in known.items() if other != name}

    def remove_incomplete(self, newest: S3Path) -> None:
        for name, upload in self._folder.unfinished_uploads():
            if name.partition("/")[0] <= newest.name:
                self._folder.abort_upload(name, upload)
        attempts: dict[str, set[str]] = {}
        files = self._folder.files()
        for name in files:
            step, _, rest = name.partition("/")
            if NAME.fullmatch(step) and step <= newest.name and rest != MANIFEST:
                attempts.setdefault(step, set()).add(rest.partition("/")[0])
        for step, found in attempts.items():
            complete = f"{step}/{MANIFEST}" in files
            if complete and len(found) == 1:
                continue
            valid = {contents(self._folder / step).name} if complete else set[str]()
            for attempt in found - valid:
                self._delete(self._folder / step / attempt)

    def _manifests(self) -> dict[str, str]:
        names = ((name.partition("/"), stored) for name, stored in self._folder.files().items())
        return {step: stored.etag for (step, _, rest), stored in names if rest == MANIFEST and NAME.fullmatch(step)}

    @staticmethod
    def _delete(folder: S3Path) -> None:
        folder.remove(folder.files())


def open_store(folder: Folder) -> CheckpointStore:
    return ObjectStore(folder) if isinstance(folder, S3Path) else FolderStore(folder)


def contents(checkpoint: Folder) -> Folder:
    """Return the folder with the tensors and the state of a checkpoint; in a store, that of the attempt that counts."""
    if isinstance(checkpoint, Path):
        return checkpoint
    return safe_join(checkpoint, str(read_manifest(checkpoint).metadata.get("attempt")))


def checkpoint_reader(checkpoint: Folder) -> CheckpointReader:
    """Return what reads the tensors of a checkpoint."""
    return CheckpointReader(contents(checkpoint))
