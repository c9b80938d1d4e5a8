"""Adapters for the private and undocumented parts of PyTorch that training uses.

A new release of PyTorch may change any of them without notice. Each is used through one function or class of this
file, and `tests/train/test_torch_private.py` names the one that changed.
"""

import io
import os
import pickle
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import _resolve_process_group
from torch.distributed import DistError, ProcessGroup
from torch.distributed import distributed_c10d as c10d
from torch.distributed.checkpoint.filesystem import FileSystemBase, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.rendezvous import rendezvous

from clearhead.files import FileEntry, read_bytes, safe_join
from clearhead.files.manifest import Folder
from clearhead.files.s3_path import S3Path
from clearhead.files.s3_streams import S3Reader, S3Writer

INDEX_FILE = ".metadata"  # the pickled index that torch.distributed.checkpoint writes beside the tensors
MAX_INDEX_BYTES = 1 << 28
INDEX_CLASSES = {  # all that such an index is made of
    "torch.distributed.checkpoint.metadata": {
        "Metadata", "TensorStorageMetadata", "ChunkStorageMetadata", "TensorProperties", "MetadataIndex",
        "StorageMeta", "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo", "_StoragePrefix"},
    "torch": {"Size"},
    "torch.serialization": {"_get_layout"},
    "collections": {"OrderedDict"},
    "pathlib": {"PosixPath", "Path"},
}  # fmt: skip


class _IndexUnpickler(pickle.Unpickler):
    """Unpickles the index of a checkpoint: plain values, dtypes and the classes in INDEX_CLASSES, nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        module = "pathlib" if module == "pathlib._local" else module  # where Python 3.13 keeps its classes
        if name in INDEX_CLASSES.get(module, ()):
            return super().find_class(module, name)
        if module == "torch" and isinstance(dtype := getattr(torch, name, None), torch.dtype):
            return dtype
        raise ValueError(f"the index of the checkpoint names {module}.{name}, which does not belong in it")


class CheckpointReader(FileSystemReader):
    """The reader of torch.distributed.checkpoint, with a restricted unpickler and paths confined to the folder."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(str(folder))
        self.folder = folder
        if isinstance(folder, S3Path):
            self.fs = S3FileSystem()
            self.path = str(folder)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        data = read_bytes(self.folder, INDEX_FILE, max_bytes=MAX_INDEX_BYTES)
        try:
            metadata = _IndexUnpickler(io.BytesIO(data)).load()
        except ValueError:
            raise
        except Exception as error:  # malformed pickles raise many types of exception
            raise ValueError(f"the index of the checkpoint is malformed ({error!r:.200})") from None
        if not isinstance(metadata, Metadata) or not isinstance(metadata.storage_data, dict):
            raise ValueError("the index of the checkpoint does not contain checkpoint metadata")
        for stored in cast(dict[Any, Any], metadata.storage_data).values():
            safe_join(self.folder, stored.relative_path)
        metadata.storage_meta = StorageMeta(load_id=self.load_id)
        return metadata


class S3FileSystem(FileSystemBase):
    """Objects of a store as the files of torch.distributed.checkpoint; it names them by strings."""

    def __init__(self) -> None:
        self.written: dict[str, FileEntry] = {}  # by their names, hashed while they were written

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Generator[io.IOBase]:
        target = S3Path.parse(str(path))
        if mode == "rb":
            with S3Reader(target) as reader:
                yield reader
            return
        writer = S3Writer(target)
        try:
            yield writer
        except BaseException:
            writer.abort()
            raise
        writer.close()
        self.written[target.name] = FileEntry(size=writer.size, sha256=writer.sha256)

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> str:
        return f"{path}/{suffix}"

    def init_path(self, path: str | os.PathLike[str]) -> str:
        return str(path)

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        pass  # a store has no folders

    def exists(self, path: str | os.PathLike[str]) -> bool:
        return S3Path.parse(str(path)).exists()

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        old, new = S3Path.parse(str(path)), S3Path.parse(str(new_path))
        old.copy_to(new)
        old.unlink()
        self.written[new.name] = self.written.pop(old.name)

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        S3Path.parse(str(path)).unlink()

    def ls(self, path: str | os.PathLike[str]) -> list[str]:
        return [f"{path}/{name}" for name in S3Path.parse(str(path)).files()]

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return isinstance(checkpoint_id, str)


class S3CheckpointWriter(FileSystemWriter):
    """The writer of torch.distributed.checkpoint, to an object store."""

    def __init__(self, folder: S3Path) -> None:
        super().__init__(str(folder), sync_files=False, overwrite=False)
        self.fs = self.objects = S3FileSystem()
        self.path = str(folder)


def multiply_(tensors: Sequence[Tensor], factor: float) -> None:
    torch._foreach_mul_(tensors, factor)  # type: ignore[attr-defined]


def storage_key(tensor: Tensor) -> int:
    """Return a number that tensors share which share their memory, also on the meta device, where it has no address."""
    return tensor.untyped_storage()._cdata  # type: ignore[attr-defined]


def mutates_argument(operation: Any) -> bool:
    """Return whether an operator, as `__torch_dispatch__` gets it, writes to one of its arguments."""
    return operation._schema.is_mutable


def group_size(args: Sequence[Any]) -> int:
    """Return the number of ranks of a collective, as `__torch_dispatch__` gets its arguments, the group among them."""
    for value in reversed(args):
        if isinstance(value, str):
            return _resolve_process_group(cast(Any, value)).size()
        if isinstance(value, torch.ScriptObject):
            with suppress(RuntimeError):  # it is the reduction
                return ProcessGroup.unbox(value).size()
    raise ValueError("this is no collective: its arguments hold no process group")


def rendezvous_from_env(timeout: timedelta) -> tuple[Any, int, int]:
    """Return the store, the rank and the world size that a launcher announces in the environment.

    A launcher may have connected the processes already, as Ray Train does: then it is their store.
    """
    if dist.is_initialized():
        return c10d._get_default_store(), dist.get_rank(), dist.get_world_size()
    return next(rendezvous("env://", timeout=timeout))


def is_peer_failure(error: RuntimeError) -> bool:
    """Return whether a collective failed because another process is gone; gloo has no exception type of its own."""
    return isinstance(error, DistError) or "gloo" in str(error)


@dataclass(frozen=True)
class WorkerFailure:
    """The end of one process of a launch."""

    exit_code: int  # negative: ended by a signal
    signal_name: str


@dataclass(frozen=True)
class LaunchResult:
    """The result of one launch: a signal to the launcher, the failures by rank, or neither."""

    signal: int | None
    failures: dict[int, WorkerFailure]


def elastic_run(command: Sequence[str], executable: str, processes: int, shutdown_timeout_s: int) -> LaunchResult:
    """Run a command in several processes on this machine with the agent of torchrun, without restarts."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=0,
        shutdown_timeout=shutdown_timeout_s,
        logs_specs=DefaultLogsSpecs(log_dir=os.devnull),
    )
    try:
        elastic_launch(config, executable)(*command)
    except SignalException as stop:
        return LaunchResult(int(stop.sigval), {})
    except ChildFailedError as error:
        failures = sorted(error.failures.items())
        return LaunchResult(None, {rank: WorkerFailure(f.exitcode, f.signal_name()) for rank, f in failures})
    return LaunchResult(None, {})
