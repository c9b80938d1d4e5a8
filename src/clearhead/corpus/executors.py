"""Executors: run the tasks of a stage in this process, in local workers, on Slurm or on Ray, with datatrove."""

import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from copy import deepcopy
from math import ceil
from pathlib import Path
from typing import Any, Literal

from clearhead.corpus.dedup import PrepareStage
from clearhead.corpus.ray_cluster import connect_ray
from clearhead.corpus.slurm import SlurmConfig, run_and_wait, slurm_executor
from clearhead.corpus.steps import SilenceDatatrove

Executor = Literal["local", "slurm", "ray"]

PRELOAD = ["clearhead.corpus.prepare_corpus"]  # imported once for the workers of all stages
POLL_INTERVAL_S = 0.2


def run_stage(
    stage: PrepareStage,
    logs: Path,
    *,
    on: Executor,
    workers: int,
    on_progress: Callable[[str, int, int], object],
    slurm: SlurmConfig | None = None,
) -> None:
    with _report_progress(stage, logs, on_progress):
        executor = _executor(stage, logs, on, workers, slurm or SlurmConfig())
        if on == "local" and executor.workers == 1:
            _run_in_process(executor)
        elif on == "slurm":
            run_and_wait(executor, lambda: _num_completed(logs) == stage.tasks)
        else:
            executor.run()
    if failed := stage.tasks - _num_completed(logs):
        raise ValueError(f"{failed} of {stage.tasks} tasks of stage {stage.name!r} failed: see {logs}/logs")


def dropped_of(steps: list[dict[str, Any]]) -> dict[str, int]:
    """Return the number of documents that the filters of a task dropped, by reason, from its statistics."""
    dropped: dict[str, int] = {}
    for step in steps:
        totals = {name: int(v["total"] if isinstance(v, dict) else v) for name, v in step["stats"].items()}
        stats = {name: count for name, count in totals.items() if name == "dropped" or name.startswith("dropped_")}
        with_reason = 0
        for name, count in stats.items():
            if name != "dropped":
                reason = name.removeprefix("dropped_")
                dropped[reason] = dropped.get(reason, 0) + count
                with_reason += count
        if rest := stats.get("dropped", 0) - with_reason:
            dropped[str(step["name"])] = dropped.get(str(step["name"]), 0) + rest
    return dropped


def _executor(stage: PrepareStage, logs: Path, on: Executor, workers: int, slurm: SlurmConfig) -> Any:
    arguments: dict[str, Any] = {
        "pipeline": [SilenceDatatrove(), *stage.steps()],
        "tasks": stage.tasks,
        "logging_dir": str(logs),
    }
    if on == "local":
        from datatrove.executor import LocalPipelineExecutor
        from multiprocess.forkserver import set_forkserver_preload

        set_forkserver_preload(PRELOAD)
        return LocalPipelineExecutor(**arguments, workers=min(workers, stage.tasks), start_method="forkserver")
    if on == "ray":
        from datatrove.executor import RayPipelineExecutor

        connect_ray()
        return RayPipelineExecutor(**arguments, workers=workers, mem_per_cpu_gb=_gigabytes(stage))
    return slurm_executor(arguments | {"mem_per_cpu_gb": _gigabytes(stage)}, stage.name, workers, slurm)


def _gigabytes(stage: PrepareStage) -> int:
    """The memory to ask a cluster for, for each task: 1 GB for Python and its libraries, and what is compared."""
    return 1 + ceil(stage.task_bytes / 10**9)


def _run_in_process(executor: Any) -> None:
    """Run the tasks one by one in this process, without the manager process that datatrove starts for its queue."""
    from datatrove.utils.stats import PipelineStats

    for rank in executor.get_incomplete_ranks():
        steps, data = deepcopy(executor.pipeline), None
        for step in steps:
            data = step(data, rank, executor.tasks)
        deque(data or (), maxlen=0)
        with executor.logging_dir.open(f"stats/{rank:05d}.json", "w") as file:
            PipelineStats(steps).save_to_disk(file)
        executor.mark_rank_as_completed(rank)


@contextmanager
def _report_progress(
    stage: PrepareStage, logs: Path, on_progress: Callable[[str, int, int], object]
) -> Generator[None]:
    """Call `on_progress` with the number of completed tasks, from their completion files."""
    end = threading.Event()

    def poll() -> None:
        while not end.wait(POLL_INTERVAL_S):
            on_progress(stage.name, _num_completed(logs), stage.tasks)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
        on_progress(stage.name, _num_completed(logs), stage.tasks)


def _num_completed(logs: Path) -> int:
    return sum(1 for _ in (logs / "completions").glob("*")) if (logs / "completions").is_dir() else 0
