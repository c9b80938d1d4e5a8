"""Launching the processes of a run on one machine, and restarting them after a failure while the run makes progress."""

import logging
import os
import sys
from collections.abc import Callable, Sequence

import torch

from clearhead.distributed.torch_private import LaunchResult, WorkerFailure, elastic_run
from clearhead.files.manifest import Folder
from clearhead.train.checkpoint import Checkpoints

ATTEMPTS = 3  # that may fail in a row without a new checkpoint
FINAL_EXIT_CODES = (2, 3)  # a reported error, a loss that is not finite: another attempt would fail too
SHUTDOWN_TIMEOUT_S = 120  # to write a checkpoint in after a signal


def local_processes(command: Sequence[str], processes: int) -> Callable[[], LaunchResult]:
    """Return a function that runs `python command` once, in several processes on this machine."""
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # `launch` reports failures
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, torch.get_num_threads() // processes)))
    return lambda: elastic_run(command, sys.executable, processes, SHUTDOWN_TIMEOUT_S)


def launch(attempt: Callable[[], LaunchResult], folder: Folder, log: Callable[[str], object]) -> int:
    """Run the processes that train in `folder` to the end, and return the exit code.

    After a failure another attempt starts from the newest checkpoint. The number of failures is not limited as long
    as there is progress; after ATTEMPTS failures in a row without a new checkpoint the launch ends.
    """
    failed, newest = 0, _newest(folder)
    while True:
        result = attempt()
        if result.signal is not None:
            return 128 + result.signal
        if not result.failures:
            return 0
        if final := [f.exit_code for f in result.failures.values() if f.exit_code in FINAL_EXIT_CODES]:
            return final[0]
        previous, newest = newest, _newest(folder)
        failed = failed + 1 if previous == newest else 0
        message = ", ".join(f"rank {rank} {_describe(failure)}" for rank, failure in result.failures.items())
        if failed == ATTEMPTS:
            log(f"{message}; giving up after {ATTEMPTS} attempts without a new checkpoint")
            return 1
        log(f"{message}; resuming from {newest or 'the beginning'}")


def _newest(folder: Folder) -> str:
    checkpoints = Checkpoints(folder / "checkpoints", 1).all()
    return checkpoints[-1].name if checkpoints else ""


def _describe(failure: WorkerFailure) -> str:
    code = failure.exit_code
    return f"was ended by {failure.signal_name}" if code < 0 else f"ended with exit code {code}"
