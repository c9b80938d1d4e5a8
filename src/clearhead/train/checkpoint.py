"""Checkpoints: everything a run needs to resume bit for bit.

A checkpoint is a folder that is written atomically: tensors in the format of torch.distributed.checkpoint (any number
of processes can read what any other number wrote), the rest as JSON, and a manifest of both. The index that PyTorch
writes beside the tensors is a pickle; it is read with a restricted unpickler.
"""

import json
import re
import shutil
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from clearhead.files import IntegrityError, new_folder, read_json, stale_temporaries, verify, write_manifest
from clearhead.train.distributed import Distributed, reshard
from clearhead.train.torch_private import CheckpointReader

STATE = "state.json"
NAME = re.compile(r"step-(\d{8})")


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
    """The checkpoints of one run in one folder: the newest ones and the best one."""

    def __init__(self, folder: Path, keep: int, distributed: Distributed | None = None) -> None:
        self.folder = folder
        self.keep = keep
        self.distributed = distributed or Distributed()

    def save(self, progress: Progress, model: nn.Module, optimizer: torch.optim.Optimizer) -> Path:
        """Write a checkpoint. Every rank must call this."""
        target = self.at(progress.step)
        with self._new(target) as folder:
            with _unwrap_errors(f"no checkpoint can be written to {folder.parent}"):
                writer = FileSystemWriter(folder, sync_files=False, overwrite=False)  # the whole folder is synced later
                save(tensors_of(model, optimizer), storage_writer=writer, no_dist=self.distributed.size == 1)
            if self.distributed.is_main:
                (folder / STATE).write_text(json.dumps(asdict(progress), indent=1) + "\n", encoding="utf-8")
                write_manifest(folder, {"kind": "checkpoint"})
        self.distributed.barrier()
        if self.distributed.is_main:
            self._prune(progress)
        return target

    def newest(self) -> Path | None:
        """Return the newest intact checkpoint, chosen by the main rank; damaged ones are skipped with a warning."""
        path = self.distributed.broadcast(str(self._newest() or "") if self.distributed.is_main else "")
        return Path(path) if path else None

    def restore(self, folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
        """Restore model and optimizer from a checkpoint, bit for bit; the main rank verifies it first."""
        if self.distributed.is_main:
            verify(folder)
        init_optimizer_state(optimizer)
        read_tensors(folder, tensors_of(model, optimizer), self.distributed)
        try:
            return Progress(**read_json(folder, STATE))
        except TypeError as error:
            raise ValueError(f"{folder / STATE} is not the state of a run of this version: {error}") from None

    def at(self, step: int) -> Path:
        """Return the folder of the checkpoint of a step, whether or not it exists."""
        return self.folder / f"step-{step:08d}"

    def all(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return sorted(p for p in self.folder.iterdir() if NAME.fullmatch(p.name))

    def planned(self) -> list[Path]:
        """Return the checkpoints at planned steps, which do not depend on where a run was interrupted."""
        return [folder for folder in self.all() if not _between(folder)]

    def _newest(self) -> Path | None:
        for folder in reversed(self.all()):
            try:
                verify(folder)
                return folder
            except IntegrityError as error:
                warnings.warn(f"{error}; using the previous checkpoint", stacklevel=4)
        return None

    def _prune(self, progress: Progress) -> None:
        """Delete all but the newest, the best and the last `keep` planned ones; any later one is damaged."""
        newest = self.at(progress.step)
        planned = [folder for folder in self.planned() if folder <= newest]
        keep = {newest, self.at(progress.best_step or 0), *planned[-self.keep :]}
        for folder in self.all():
            if folder not in keep:
                shutil.rmtree(folder)
        for folder in stale_temporaries(self.folder):
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _new(self, target: Path) -> Generator[Path]:
        """Create the new folder on the main rank and announce it to the others."""
        if not self.distributed.is_main:
            yield Path(self.distributed.broadcast(""))
            self.distributed.barrier()
            return
        with new_folder(target, overwrite=True) as folder:  # an existing one is damaged and was skipped
            self.distributed.broadcast(str(folder))
            yield folder
            self.distributed.barrier()


def _between(folder: Path) -> bool:
    try:
        return bool(read_json(folder, STATE).get("between"))
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


def read_tensors(folder: Path, into: dict[str, Tensor], distributed: Distributed | None = None) -> None:
    """Read tensors in place. Each rank reads its own parts, whatever number of ranks wrote them."""
    with _unwrap_errors(f"{folder} cannot be read"):
        alone = distributed is None or distributed.size == 1
        load(cast(dict[str, Any], into), storage_reader=CheckpointReader(folder), no_dist=alone)


@torch.no_grad()
def average_checkpoints(model: nn.Module, checkpoints: Sequence[Path]) -> None:
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that a single process saves without a process group
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
