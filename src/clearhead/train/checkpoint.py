"""Checkpoints: all that a run needs to go on as if it had never stopped.

A checkpoint is a folder that is there whole or not at all: tensors by torch's distributed checkpoints (so that any
number of processes reads what any other wrote), the rest as JSON, and a manifest of both. The index that torch writes
beside the tensors is a pickle; it is opened by a reader that knows the few classes which belong in it, and no others.
"""

from __future__ import annotations

import io
import json
import pickle
import re
import shutil
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from clearhead.files import Damaged, inside, leftovers, new_folder, read_bytes, read_json, verify, write_manifest
from clearhead.train.ranks import Ranks, settle

STATE = "state.json"
NAME = re.compile(r"step-(\d{8})")
MAX_INDEX = 1 << 28  # bytes


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run has come, beside its tensors."""

    step: int = 0
    seconds: float = 0.0  # spent training
    best: float | None = None  # the best value of the metric so far
    best_step: int | None = None
    since_best: int = 0  # evaluations since then
    evaluated: int = 0  # the last step after which there was one
    between: bool = False  # saved because the run was stopped, not because it was time
    log_bytes: int = 0  # of log.jsonl: what is after them was written by a process that did not get to save


class Checkpoints:
    """The checkpoints of one run, in one folder: the newest few, and the best."""

    def __init__(self, folder: Path, keep: int, ranks: Ranks | None = None) -> None:
        self.folder = folder
        self.keep = keep
        self.ranks = ranks or Ranks()

    def save(self, progress: Progress, model: nn.Module, optimiser: torch.optim.Optimizer) -> Path:
        """Write a checkpoint; every rank calls this."""
        target = self.at(progress.step)
        with self._new(target) as folder:
            _write_tensors(tensors_of(model, optimiser), folder, self.ranks)
            if self.ranks.first:
                (folder / STATE).write_text(json.dumps(asdict(progress), indent=1) + "\n", encoding="utf-8")
                write_manifest(folder, {"kind": "checkpoint"})
        self.ranks.wait()
        if self.ranks.first:
            self._prune(progress)
        return target

    def newest(self) -> Path | None:
        """The newest checkpoint that is whole; a damaged one is told and passed over. The first rank looks for all."""
        found = self.ranks.told(str(self._newest() or "") if self.ranks.first else "")
        return Path(found) if found else None

    def restore(self, folder: Path, model: nn.Module, optimiser: torch.optim.Optimizer) -> Progress:
        """Fill model and optimiser from a checkpoint, bit for bit; the first rank checks that it is whole."""
        if self.ranks.first:
            verify(folder)
        fill_optimiser(optimiser)
        read_tensors(folder, tensors_of(model, optimiser), self.ranks)
        try:
            return Progress(**read_json(folder, STATE))
        except TypeError as error:
            raise ValueError(f"{folder / STATE} is not the state of such a run: {error}") from None

    def at(self, step: int) -> Path:
        """Where the checkpoint of a step is, or would be."""
        return self.folder / f"step-{step:08d}"

    def all(self) -> list[Path]:
        """The checkpoints there are, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(p for p in self.folder.iterdir() if NAME.fullmatch(p.name))

    def planned(self) -> list[Path]:
        """Those that every run of this recipe has, stopped on the way or not."""
        return [folder for folder in self.all() if not _between(folder)]

    def _newest(self) -> Path | None:
        for folder in reversed(self.all()):
            try:
                verify(folder)
                return folder
            except Damaged as error:
                warnings.warn(f"{error}; the checkpoint before it is used", stacklevel=4)
        return None

    def _prune(self, progress: Progress) -> None:
        """Keep the newest, the best and the last few; later ones were damaged, and are passed by now."""
        newest = self.at(progress.step)
        planned = [folder for folder in self.planned() if folder <= newest]
        kept = {newest, self.at(progress.best_step or 0), *planned[-self.keep :]}
        for folder in self.all():
            if folder not in kept:
                shutil.rmtree(folder)
        for folder in leftovers(self.folder):
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _new(self, target: Path) -> Generator[Path]:
        """The new folder, made by the first rank and known to all."""
        if not self.ranks.first:
            yield Path(self.ranks.told(""))
            self.ranks.wait()
            return
        with new_folder(target, overwrite=True) as folder:  # what was there was damaged, and passed over
            self.ranks.told(str(folder))
            yield folder
            self.ranks.wait()


def _between(folder: Path) -> bool:
    try:
        return bool(read_json(folder, STATE).get("between"))
    except (OSError, ValueError):  # damaged; whoever needs it will say so
        return False


def tensors_of(model: nn.Module, optimiser: torch.optim.Optimizer | None = None) -> dict[str, Tensor]:
    """Every tensor of a run by name: the weights, and what the optimiser keeps for each."""
    settle(model)
    tensors: dict[str, Tensor] = {}
    for name, param in model.named_parameters():
        tensors[f"model.{name}"] = param.detach()
        for kind, value in {} if optimiser is None else optimiser.state.get(param, {}).items():
            if isinstance(value, Tensor):
                tensors[f"optimiser.{name}.{kind}"] = value
    return tensors


def read_tensors(folder: Path, into: dict[str, Tensor], ranks: Ranks | None = None) -> None:
    """Read these tensors, in place; whoever wrote them, each rank gets the parts that it asks for."""
    with _told(f"{folder} cannot be read"):
        load(cast(dict[str, Any], into), storage_reader=_Reader(folder), no_dist=ranks is None or ranks.size == 1)


def _write_tensors(tensors: Mapping[str, Tensor], folder: Path, ranks: Ranks) -> None:
    with _told(f"no checkpoint can be written to {folder.parent}"):
        writer = FileSystemWriter(folder, sync_files=False, overwrite=False)  # the folder is synced as a whole
        save(dict(tensors), storage_writer=writer, no_dist=ranks.size == 1)


def fill_optimiser(optimiser: torch.optim.Optimizer) -> None:
    """Let an optimiser make its tensors, by a step that changes nothing."""
    rates = [group["lr"] for group in optimiser.param_groups]
    for group in optimiser.param_groups:
        group["lr"] = 0.0
        for param in group["params"]:
            param.grad = torch.zeros_like(param)
    optimiser.step()
    optimiser.zero_grad()
    for group, lr in zip(optimiser.param_groups, rates, strict=True):
        group["lr"] = lr


@contextmanager
def _told(what: str) -> Generator[None]:
    """Torch's own exception, which no `except Exception` sees, as an error that says what failed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's word that a single process writes alone
            yield
    except CheckpointException as error:
        reasons = [_reason(cause) for cause, _ in error.failures.values()]
        for reason in reasons:
            if not isinstance(reason, Exception):
                raise reason from None
        raise ValueError(f"{what}: {'; '.join(dict.fromkeys(map(str, reasons)))}") from error


def _reason(error: BaseException) -> BaseException:
    """What is behind one of torch's errors: one of the system's, such as a full disk, or a Ctrl-C; else that one."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError) or not isinstance(found, Exception):
            return found
        found = found.__cause__ or found.__context__
    return error


ALLOWED = {
    "torch.distributed.checkpoint.metadata": {
        "Metadata", "TensorStorageMetadata", "ChunkStorageMetadata", "TensorProperties", "MetadataIndex",
        "StorageMeta", "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo", "_StoragePrefix"},
    "torch": {"Size"},
    "torch.serialization": {"_get_layout"},
    "collections": {"OrderedDict"},
    "pathlib": {"PosixPath", "Path"},
    "torch.storage": set[str](),
}  # fmt: skip


class _Unpickler(pickle.Unpickler):
    """Opens the index of a checkpoint: plain values, and the few classes such an index is made of."""

    def find_class(self, module: str, name: str) -> Any:
        if name in ALLOWED.get(module, ()):
            return super().find_class(module, name)
        if module == "torch" and isinstance(kind := getattr(torch, name, None), torch.dtype):
            return kind
        raise ValueError(f"the index of the checkpoint names {module}.{name}, which does not belong in it")


class _Reader(FileSystemReader):
    """Torch's reader of a folder, with the pickle opened by `_Unpickler` and no way out of the folder."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """The index of the tensors."""
        folder = Path(self.path)
        data = read_bytes(folder, ".metadata", max_bytes=MAX_INDEX)
        try:
            metadata = _Unpickler(io.BytesIO(data)).load()
        except ValueError:
            raise
        except Exception as error:  # a pickle that is none fails in many ways
            raise ValueError(f"the index of the checkpoint is broken ({error!r:.200})") from None
        if not isinstance(metadata, Metadata) or not isinstance(metadata.storage_data, dict):
            raise ValueError("the index of the checkpoint holds something else")
        for stored in cast(dict[Any, Any], metadata.storage_data).values():
            inside(folder, stored.relative_path)
        metadata.storage_meta = StorageMeta(load_id=self.load_id)
        return metadata
