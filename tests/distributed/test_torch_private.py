"""The private parts of PyTorch behind `distributed/torch_private.py`: each test names the part that a new release changed."""

from __future__ import annotations

import inspect
import io
import pathlib
import tempfile
import warnings
from dataclasses import fields
from datetime import timedelta
from importlib import import_module

import pytest
import torch
from torch.distributed import _functional_collectives as functional
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.state_dict_saver import save
from torch.utils._python_dispatch import TorchDispatchMode

from clearhead.distributed import torch_private

TORCH_INDEX_CLASSES = [
    (module, name)
    for module, names in torch_private.INDEX_CLASSES.items()
    if module.startswith("torch")
    for name in sorted(names)
]


@pytest.mark.parametrize(("module", "name"), TORCH_INDEX_CLASSES)
def test_the_classes_of_a_checkpoint_index_exist(module, name):
    assert hasattr(import_module(module), name), (
        f"{module}.{name} is gone: checkpoint indexes that name it are unreadable"
    )


def test_the_index_of_a_checkpoint(tmp_path):
    """The file name, the classes and the attributes of the index are those that CheckpointReader expects."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that a single process saves without a process group
        save({"a": torch.arange(6.0).view(2, 3)}, storage_writer=FileSystemWriter(tmp_path), no_dist=True)
    assert (tmp_path / torch_private.INDEX_FILE).is_file(), "torch.distributed.checkpoint renamed its index file"
    metadata = torch_private.CheckpointReader(tmp_path).read_metadata()
    assert {f.name for f in fields(Metadata)} >= {"storage_data", "storage_meta"}, "Metadata changed its fields"
    stored = list(metadata.storage_data.values())
    assert all(hasattr(entry, "relative_path") for entry in stored), "_StorageInfo.relative_path is gone"


def test_the_reader_that_is_subclassed(tmp_path):
    reader = FileSystemReader(tmp_path)
    assert hasattr(reader, "path") and hasattr(reader, "load_id"), "FileSystemReader.path or .load_id is gone"
    assert "load_id" in {f.name for f in fields(StorageMeta)}, "StorageMeta.load_id is gone"
    assert callable(getattr(FileSystemReader, "read_metadata", None)), "FileSystemReader.read_metadata is gone"


def test_tensors_are_multiplied_in_place():
    assert hasattr(torch, "_foreach_mul_"), "torch._foreach_mul_ is gone"
    tensors = [torch.tensor([2.0, 4.0]), torch.tensor([[8.0]])]
    torch_private.multiply_(tensors, 0.5)
    assert tensors[0].tolist() == [1.0, 2.0] and tensors[1].tolist() == [[4.0]], "torch._foreach_mul_ changed"


def test_the_rendezvous_from_the_environment(monkeypatch):
    """A single rank that announces itself as torchrun does."""
    from torch.distributed.elastic.utils.distributed import get_free_port

    given = {"MASTER_ADDR": "localhost", "MASTER_PORT": get_free_port(), "RANK": 0, "WORLD_SIZE": 1}
    for name, value in given.items():
        monkeypatch.setenv(name, str(value))
    store, rank, size = torch_private.rendezvous_from_env(timedelta(seconds=20))
    assert (rank, size) == (0, 1), "torch.distributed.rendezvous changed what it yields"
    for method in ("clone", "set_timeout", "set", "get", "check"):
        assert callable(getattr(store, method, None)), f"Store.{method} is gone: heartbeats need it"


def test_the_launcher_accepts_its_settings():
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure
    from torch.distributed.launcher.api import LaunchConfig

    used = {
        "min_nodes", "max_nodes", "nproc_per_node", "run_id", "rdzv_backend", "rdzv_endpoint", "local_addr",
        "max_restarts", "shutdown_timeout", "logs_specs",
    }  # fmt: skip
    assert used <= {f.name for f in fields(LaunchConfig)}, "LaunchConfig lost a field"
    assert "log_dir" in inspect.signature(DefaultLogsSpecs).parameters, "DefaultLogsSpecs lost log_dir"
    assert "sigval" in inspect.signature(SignalException).parameters, "SignalException lost sigval"
    assert callable(getattr(ProcessFailure, "signal_name", None)), "ProcessFailure.signal_name is gone"
    assert "exitcode" in {f.name for f in fields(ProcessFailure)}, "ProcessFailure.exitcode is gone"


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (RuntimeError("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer"), True),
        (torch.distributed.DistError("a rank is gone"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_a_lost_peer_is_recognized(error, lost):
    assert torch_private.is_peer_failure(error) is lost


def test_an_index_written_by_python_313_opens_in_any_version():
    """There, the classes of pathlib are pickled under the name of a private module."""
    unpickle = torch_private._IndexUnpickler
    assert unpickle(io.BytesIO(b"cpathlib._local\nPosixPath\n.")).load() is pathlib.PosixPath
    with pytest.raises(ValueError, match="does not belong"):
        unpickle(io.BytesIO(b"cpathlib._local\nos\n.")).load()


def test_the_size_of_the_group_of_a_collective():
    """Both ways in which collectives name their group: as an object of C++, and by its name."""
    seen: dict[str, int] = {}

    class Collectives(TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            name = operation.name()
            if name in ("c10d::allreduce_", "_c10d_functional::all_reduce"):
                seen[name] = torch_private.group_size(args)
            return operation(*args, **(kwargs or {}))

    with tempfile.TemporaryDirectory() as folder:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        try:
            world = torch.distributed.group.WORLD
            assert world is not None
            with Collectives():
                torch.distributed.all_reduce(torch.ones(2))
                functional.wait_tensor(functional.all_reduce(torch.ones(2), "sum", world))
        finally:
            torch.distributed.destroy_process_group()
    assert seen == {"c10d::allreduce_": 1, "_c10d_functional::all_reduce": 1}
    with pytest.raises(ValueError, match="no process group"):
        torch_private.group_size((torch.ones(1), 3))
