"""Slurm: the tasks of a stage as one array job, and waiting until it has ended."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

MAX_ARRAY = 1000  # jobs of an array: the default limit of Slurm is 1,001; a job runs several tasks where there are more
POLL_INTERVAL_S = 2.0
FILE_DELAY_S = 30.0  # until files of a compute node are seen here, on a shared file system


@dataclass(frozen=True)
class SlurmConfig:
    """Where Slurm runs the tasks, and for how long."""

    partition: str | None = None  # None: the default partition of the cluster
    time: str = "24:00:00"  # limit of a job

    def __post_init__(self) -> None:
        for name in ("partition", "time"):
            value = getattr(self, name)
            if value is not None and (not value or any(c.isspace() for c in value)):
                raise ValueError(f"{name} is {value!r}: write it as sbatch takes it, without spaces")


def slurm_executor(arguments: dict[str, Any], name: str, workers: int, config: SlurmConfig) -> Any:
    """Return datatrove's executor for a stage, as one array job."""
    from datatrove.executor import SlurmPipelineExecutor

    return SlurmPipelineExecutor(
        **arguments,
        workers=workers,
        time=config.time,
        partition=config.partition or _default_partition(),
        job_name=f"prepare-{name}",
        qos="",
        tasks_per_job=ceil(arguments["tasks"] / MAX_ARRAY),
        env_command=f'export PATH="{Path(sys.executable).parent}:$PATH"',
        sbatch_args={"kill-on-invalid-dep": "yes"},  # the job that merges statistics, after a failure
    )


def run_and_wait(executor: Any, is_complete: Callable[[], bool]) -> None:
    """Submit the job of a stage and wait until all its tasks are complete, or the job has ended; Ctrl-C cancels it."""
    _slurm("sbatch", "--version")
    try:
        job = _submit(executor)
        if job == -1:  # nothing was left to do
            return
        while not is_complete() and _is_queued(job):
            time.sleep(POLL_INTERVAL_S)
        deadline = time.monotonic() + FILE_DELAY_S
        while not is_complete() and time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL_S)
    except BaseException:
        if executor.job_id not in (None, -1):
            _slurm("scancel", str(executor.job_id))
        raise


def _submit(executor: Any) -> str | int:
    """Submit a job and return its id; -1: nothing is left to do. After Ctrl-C, the id of the job is still read."""
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(executor.run).result()
    except subprocess.CalledProcessError as error:
        raise ValueError(
            f"Slurm refused the job (sbatch ended with {error.returncode}): see its message above"
        ) from None
    return executor.job_id


def _is_queued(job: str | int) -> bool:
    """Return whether any task of a job is waiting or running; a controller that does not answer is asked again."""
    found = subprocess.run(["squeue", "--noheader", "--jobs", str(job)], capture_output=True, text=True)
    if found.returncode:
        return "Invalid job id" not in found.stderr
    return bool(found.stdout.strip())


def _default_partition() -> str:
    names = _slurm("sinfo", "--noheader", "--format", "%P").split()
    default = [name.rstrip("*") for name in names if name.endswith("*")]
    if not default:
        raise ValueError(f"this cluster has no default partition: choose --partition {', '.join(names) or 'NAME'}")
    return default[0]


def _slurm(command: str, *arguments: str) -> str:
    if shutil.which(command) is None:
        raise ValueError(f"there is no {command} here: run --on slurm on a machine of the cluster that can submit jobs")
    found = subprocess.run([command, *arguments], capture_output=True, text=True)
    if found.returncode:
        raise ValueError(f"{command} failed: {found.stderr.strip() or found.returncode}")
    return found.stdout
