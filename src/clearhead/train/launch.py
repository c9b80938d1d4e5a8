"""Launching: the processes of a run on one machine, started together, and again after a failure while it gets on."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

import torch
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from clearhead.train.checkpoint import Checkpoints

ATTEMPTS = 3  # that may fail one after the other without a new checkpoint
FINAL = (2, 3)  # exit codes of what no attempt will mend: a fault that was told, a loss that is not finite
GRACE = 120  # seconds to write a checkpoint in, when the run is asked to stop


def launch(command: Sequence[str], processes: int, folder: Path, say: Callable[[str], object]) -> int:
    """Run `python command` in so many processes that train in `folder`, by torchrun's agent: the exit code.

    A failure is followed by another attempt from the newest checkpoint. A run may fail as often as it likes, as long
    as it gets on in between; one that fails ATTEMPTS times without a new checkpoint has a fault that will not go away.
    """
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # what matters is said below
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, torch.get_num_threads() // processes)))
    failed, reached = 0, _newest(folder)
    while True:
        try:
            elastic_launch(_config(processes), sys.executable)(*command)
            return 0
        except SignalException as stop:
            return 128 + stop.sigval
        except ChildFailedError as error:
            failures = dict(sorted(error.failures.items()))
        if final := [failure.exitcode for failure in failures.values() if failure.exitcode in FINAL]:
            return final[0]
        came, reached = reached, _newest(folder)
        failed = failed + 1 if came == reached else 0
        told = ", ".join(f"rank {rank} {_end(failure)}" for rank, failure in failures.items())
        if failed == ATTEMPTS:
            say(f"{told}; {ATTEMPTS} attempts have failed without a new checkpoint, so this is given up")
            return 1
        say(f"{told}; going on from {reached or 'the beginning'}")


def _config(processes: int) -> LaunchConfig:
    return LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=0,
        shutdown_timeout=GRACE,
        logs_specs=DefaultLogsSpecs(log_dir=os.devnull),
    )


def _newest(folder: Path) -> str:
    found = Checkpoints(folder / "checkpoints", 1).all()
    return found[-1].name if found else ""


def _end(failure: ProcessFailure) -> str:
    code = failure.exitcode
    return f"was ended by {failure.signal_name()}" if code < 0 else f"ended with exit code {code}"
