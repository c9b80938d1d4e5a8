"""Checkpoints: everything a run needs to resume bit for bit.

A checkpoint is a folder, on disk or in an object store, that is written atomically: tensors in the format of
torch.distributed.checkpoint (any number of processes can read what any other number wrote), the rest as JSON, and a
manifest of both. The index that PyTorch writes beside the tensors is a pickle; it is read with a restricted unpickler.

Training continues while a checkpoint is written: the tensors are copied, and a thread writes the copies. Each rank
hashes the files that it wrote, and when a run resumes each verifies a part of the bytes.
"""

import json
import warnings
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from heapq import heapreplace
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from clearhead.distributed.ranks import Distributed, reshard
from clearhead.files import FileEntry, IntegrityError, Manifest, read_json, read_manifest, verify
from clearhead.files.manifest import Folder, find_damage
from clearhead.train.checkpoint_store import STATE, checkpoint_reader, contents, open_store
from clearhead.train.host_copies import HostCopies


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of a run: everything in a checkpoint that is not a tensor."""

    step: int = 0
    seconds: float = 0.0  # of training time
    best: float | None = None  # the best value of the metric so far
    best_step: int | None = None
    since_best: int = 0  # evaluations since the best one
    evaluated: int = 0  # the step of the last evaluation
    between: bool = False  # saved because the run was stopped, not at a planned step
    log_bytes: int = 0  # size of log.jsonl; a resumed run truncates it to this size


class Checkpoints:
    """The checkpoints of one run in one folder: the newest ones and the best one.

    As a context it ends with the last checkpoint complete. `publish` is called by the main rank, in the thread that
    writes, before a checkpoint is complete: what the checkpoint refers to must be stored by then.
    """

    def __init__(
        self,
        folder: Folder,
        keep: int,
        distributed: Distributed | None = None,
        publish: Callable[[], object] = lambda: None,
    ) -> None:
        self.folder = folder
        self.keep = keep
        self._store = open_store(folder)
        self._publish = publish
        self.distributed = distributed or Distributed()
        self._writers = self.distributed.in_background()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._copies = HostCopies()
        self._working: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        with nullcontext() if kind is None else suppress(Exception):  # of two errors the first is reported
            self.wait()

    def reserve(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Allocate the memory for copies in a thread, so that the first `begin_save` does not wait for the system."""
        self.wait()
        self._working = self._thread.submit(self._copies.reserve, tensors_of(model, optimizer))

    def begin_save(self, progress: Progress, model: nn.Module, optimizer: torch.optim.Optimizer) -> Folder:
        """Copy all tensors, and write them as a checkpoint in a thread. Every rank must call this.

        An earlier checkpoint is waited for. `wait` returns when this one is complete.
        """
        self.wait()
        copies = self._copies.update(tensors_of(model, optimizer))
        self._working = self._thread.submit(self._write, progress, copies)
        return self.at(progress.step)

    def wait(self) -> None:
        """Wait for the thread; raises the error that the checkpoint which it wrote ended with."""
        if self._working is None:
            return
        try:
            self._working.result()
        finally:
            if self._working.done():  # else an interrupt: the thread is still writing
                self._working = None

    def save(self, progress: Progress, model: nn.Module, optimizer: torch.optim.Optimizer) -> Folder:
        """Write a checkpoint. Every rank must call this."""
        target = self.begin_save(progress, model, optimizer)
        self.wait()
        return target

    def newest(self) -> Folder | None:
        """Return the newest intact checkpoint, verified; damaged ones are skipped with a warning.

        Every rank must call this.
        """
        names = [folder.name for folder in self.all()] if self.distributed.is_main else []
        for name in reversed(json.loads(self.distributed.broadcast(json.dumps(names)))):
            try:
                self._verify(self.folder / name)
                return self.folder / name
            except IntegrityError as error:
                if self.distributed.is_main:
                    warnings.warn(f"{error}; using the previous checkpoint", stacklevel=2)
        return None

    def restore(self, folder: Folder, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
        """Verify a checkpoint and restore model and optimizer from it, bit for bit. Every rank must call this."""
        self._verify(folder)
        return self.read(folder, model, optimizer)

    def read(self, folder: Folder, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
        """Read a checkpoint that is verified, such as `newest()`. Every rank must call this."""
        init_optimizer_state(optimizer)
        read_tensors(folder, tensors_of(model, optimizer), self.distributed)
        return read_progress(folder)

    def at(self, step: int) -> Folder:
        """Return the folder of the checkpoint of a step, whether or not it exists."""
        return self.folder / f"step-{step:08d}"

    def all(self) -> list[Folder]:
        """The folders of all checkpoints, oldest first."""
        return self._store.all()

    def planned(self) -> list[Folder]:
        """Return the checkpoints at planned steps, which do not depend on where a run was interrupted."""
        return [folder for folder in self.all() if not _between(folder)]

    def _write(self, progress: Progress, tensors: dict[str, Tensor]) -> None:
        ranks = self._writers
        with self._new(self.at(progress.step).name) as folder:
            writer = self._store.writer(folder)
            with _unwrap_errors(f"no checkpoint can be written to {self.folder}"):
                save(
                    cast(dict[str, Any], tensors), storage_writer=writer, process_group=ranks.patient,
                    no_dist=ranks.size == 1,
                )  # fmt: skip
            hashed = self._hashes(folder, writer)
            if ranks.is_main:
                self._publish()
                self._store.commit(folder, json.dumps(asdict(progress), indent=1) + "\n", hashed)
        ranks.barrier()
        if ranks.is_main:
            self._prune(progress)

    def _hashes(self, folder: str, writer: FileSystemWriter) -> dict[str, FileEntry]:
        """Return the hashes of the files that all ranks have written."""
        files: dict[str, Any] = {}
        problem = ""
        try:
            for name, entry in self._store.written(folder, self._writers.rank, writer).items():
                files[name] = asdict(entry)
        except OSError as error:  # reported on every rank: none waits for another
            problem = f"rank {self._writers.rank} cannot read the part that it wrote: {error}"
        answers = [json.loads(answer) for answer in self._writers.gather(json.dumps([files, problem]))]
        if problems := [problem for _, problem in answers if problem]:
            raise ValueError(f"no checkpoint can be written to {self.folder}: {'; '.join(problems)}")
        return {name: FileEntry(**entry) for files, _ in answers for name, entry in files.items()}

    def _verify(self, folder: Folder) -> None:
        """Verify a checkpoint, each rank a part of its bytes; raise the same `IntegrityError` on every rank."""
        problems: dict[str, str] = {}
        try:
            manifest = read_manifest(folder)
            parts = _divide(manifest, self.distributed.size)
            own = parts[self.distributed.rank]
            if self.distributed.is_main:
                verify(folder, elsewhere=[name for part in parts[1:] for name in part])
            else:
                problems = find_damage(folder, manifest, own)
        except IntegrityError as error:
            problems = error.problems
        for answer in self.distributed.gather(json.dumps(problems)):
            problems |= json.loads(answer)
        if problems:
            raise IntegrityError(folder, problems)

    def _prune(self, progress: Progress) -> None:
        """Delete all but the newest, the best and the last `keep` planned ones; any later one is damaged."""
        newest = self.at(progress.step)
        planned = [folder for folder in self.planned() if folder.name <= newest.name]
        keep = {newest, self.at(progress.best_step or 0), *planned[-self.keep :]}
        for folder in self.all():
            if folder not in keep:
                self._store.remove(folder)
        self._store.remove_incomplete(newest)

    @contextmanager
    def _new(self, name: str) -> Generator[str]:
        """Create the new folder on the main rank and announce it to the others."""
        ranks = self._writers
        if not ranks.is_main:
            yield ranks.broadcast("")
            ranks.barrier()
            return
        with self._store.new(name) as folder:
            ranks.broadcast(folder)
            yield folder
            ranks.barrier()


def read_progress(folder: Folder) -> Progress:
    """Read the progress of a run from a checkpoint."""
    try:
        return Progress(**read_json(contents(folder), STATE))
    except TypeError as error:
        raise ValueError(f"{folder}/{STATE} is not the state of a run of this version: {error}") from None


def _divide(manifest: Manifest, count: int) -> list[list[str]]:
    """Divide the files of a checkpoint into parts of nearly equal size, largest files first."""
    parts: list[list[str]] = [[] for _ in range(count)]
    sizes = [(0, i) for i in range(count)]  # a heap: the smallest part first
    for name, file in sorted(manifest.files.items(), key=lambda item: (-item[1].size, item[0])):
        size, i = sizes[0]
        heapreplace(sizes, (size + file.size, i))
        parts[i].append(name)
    return parts


def _between(folder: Folder) -> bool:
    try:
        return bool(read_json(contents(folder), STATE).get("between"))
    except (OSError, ValueError):  # damaged: reported when it is used
        return False


def tensors_of(model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> dict[str, Tensor]:
    """Return every tensor of a run by name: the weights and the optimizer state."""
    reshard(model)
    tensors: dict[str, Tensor] = {}
    for name, param in model.named_parameters():
        tensors[f"model.{name}"] = param.detach()
        for kind, value in {} if optimizer is None else optimizer.state.get(param, {}).items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{name}.{kind}"] = value
    return tensors


def read_tensors(folder: Folder, into: dict[str, Tensor], distributed: Distributed | None = None) -> None:
    """Read tensors in place. Each rank reads its own parts, whatever number of ranks wrote them."""
    with _unwrap_errors(f"{folder} cannot be read"):
        alone = distributed is None or distributed.size == 1
        load(cast(dict[str, Any], into), storage_reader=checkpoint_reader(folder), no_dist=alone)


@torch.no_grad()
def average_checkpoints(model: nn.Module, checkpoints: Sequence[Folder]) -> None:
    """Fill a model with the mean of its weights in these checkpoints, summed in float64."""
    sums: dict[str, Tensor] = {}
    for folder in checkpoints:
        verify(folder)
        read_tensors(folder, tensors_of(model))
        for name, param in model.named_parameters():
            sums[name] = param.double() + sums[name] if name in sums else param.double()
    for name, param in model.named_parameters():
        param.copy_(sums[name] / len(checkpoints))


def init_optimizer_state(optimizer: torch.optim.Optimizer) -> None:
    """Create the state tensors of an optimizer with a step at learning rate 0."""
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
        for param in group["params"]:
            param.grad = torch.zeros_like(param)
    optimizer.step()
    optimizer.zero_grad()
    for group, lr in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = lr


@contextmanager
def _unwrap_errors(message: str) -> Generator[None]:
    """Raise the cause behind PyTorch's CheckpointException, which is a BaseException, with a message."""
    try:
        # A single process has no process group. `catch_warnings` would not do: two threads come here.
        warnings.filterwarnings("ignore", "torch.distributed is", module="torch.distributed.checkpoint")
        yield
    except CheckpointException as error:
        reasons = [_reason(cause) for cause, _ in error.failures.values()]
        for reason in reasons:
            if not isinstance(reason, Exception):
                raise reason from None
        raise ValueError(f"{message}: {'; '.join(dict.fromkeys(map(str, reasons)))}") from error


def _reason(error: BaseException) -> BaseException:
    """Return the system error or interrupt in the chain of an exception, such as a full disk; else the exception."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) or not isinstance(cause, Exception):
            return cause
        cause = cause.__cause__ or cause.__context__
    return error
