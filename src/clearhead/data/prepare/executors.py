"""Executors: who runs the tasks of a stage: this process, others of this machine, Slurm, or Ray, by datatrove's own."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

from clearhead.data.prepare.doubles import Stage
from clearhead.data.prepare.steps import Hush

On = Literal["local", "slurm", "ray"]

PRELOAD = ["clearhead.data.prepare.pipeline"]  # read once, for the workers of all stages
WAIT = 0.2  # seconds between two looks at what is done


def run_stage(stage: Stage, logs: Path, *, on: On, workers: int, heard: Callable[[str, int, int], object]) -> None:
    """Run the tasks of a stage that are not done yet."""
    with _watched(stage, logs, heard):
        executor = _executor(stage, logs, on, workers)
        if on == "local" and executor.workers == 1:
            _here(executor)
        else:
            executor.run()
    if _done(logs) < stage.tasks:
        raise ValueError(
            f"{stage.tasks - _done(logs)} of {stage.tasks} tasks of {stage.name!r} failed: see {logs}/logs"
        )


def dropped_of(steps: list[dict[str, Any]]) -> dict[str, int]:
    """Why the filters of a task dropped documents, from its statistics."""
    found: dict[str, int] = {}
    for step in steps:
        every = {name: int(v["total"] if isinstance(v, dict) else v) for name, v in step["stats"].items()}
        stats = {name: count for name, count in every.items() if name == "dropped" or name.startswith("dropped_")}
        told = 0
        for name, count in stats.items():
            if name != "dropped":
                found[name.removeprefix("dropped_")] = found.get(name.removeprefix("dropped_"), 0) + count
                told += count
        if rest := stats.get("dropped", 0) - told:
            found[str(step["name"])] = found.get(str(step["name"]), 0) + rest
    return found


def _executor(stage: Stage, logs: Path, on: On, workers: int) -> Any:
    given: dict[str, Any] = {"pipeline": [Hush(), *stage.steps()], "tasks": stage.tasks, "logging_dir": str(logs)}
    if on == "local":
        from datatrove.executor import LocalPipelineExecutor
        from multiprocess.forkserver import set_forkserver_preload

        set_forkserver_preload(PRELOAD)
        return LocalPipelineExecutor(**given, workers=min(workers, stage.tasks), start_method="forkserver")
    if on == "ray":
        from datatrove.executor import RayPipelineExecutor

        _reach_ray()
        return RayPipelineExecutor(**given, workers=workers, mem_per_cpu_gb=1)
    from datatrove.executor import SlurmPipelineExecutor

    return SlurmPipelineExecutor(
        **given, workers=workers, time="24:00:00", partition="cpu", job_name=f"prepare-{stage.name}"
    )


def _here(executor: Any) -> None:
    """One task after another in this process, and no other process begun for a queue that nobody needs."""
    from datatrove.utils.stats import PipelineStats

    for rank in executor.get_incomplete_ranks():
        steps, data = deepcopy(executor.pipeline), None
        for step in steps:
            data = step(data, rank, executor.tasks)
        deque(data or (), maxlen=0)
        with executor.logging_dir.open(f"stats/{rank:05d}.json", "w") as file:
            PipelineStats(steps).save_to_disk(file)
        executor.mark_rank_as_completed(rank)


def _reach_ray() -> None:
    """Join the cluster that RAY_ADDRESS names; without one, begin a Ray of this machine alone, on loopback."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # on any system: this machine alone, on loopback
    import ray

    if ray.is_initialized():
        return
    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if address:
        ray.init(address=address, **quiet)
    else:
        ray.init(include_dashboard=False, **quiet)


@contextmanager
def _watched(stage: Stage, logs: Path, heard: Callable[[str, int, int], object]) -> Generator[None]:
    """Tell how many tasks are done, from the marks they leave."""
    end = threading.Event()

    def look() -> None:
        while not end.wait(WAIT):
            heard(stage.name, _done(logs), stage.tasks)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
        heard(stage.name, _done(logs), stage.tasks)


def _done(logs: Path) -> int:
    return sum(1 for _ in (logs / "completions").glob("*")) if (logs / "completions").is_dir() else 0
