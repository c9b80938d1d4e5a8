"""Processes of a run on a Ray cluster: Ray Train starts and connects them, and each trains as under torchrun."""

import importlib.util
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from clearhead.corpus.ray_cluster import connect_ray
from clearhead.distributed.torch_private import LaunchResult, WorkerFailure
from clearhead.models.precision import choose_device
from clearhead.train.rank import RankConfig, RankFailed, train_rank

COLLECTIVE_TIMEOUT_S = 600
RAY_SETTINGS = {
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # paths of trackers are relative to the folder the command was given in
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "600",  # a cluster may have to replace a machine first
}


def ray_processes(config: RankConfig, processes: int) -> Callable[[], LaunchResult]:
    """Return a function that runs the processes of a run once, each on a CPU or GPU that it reserves on the cluster.

    The cluster is the one at RAY_ADDRESS; without it, one on this machine. All its machines must see the folders of the
    run under the same paths.
    """
    if importlib.util.find_spec("ray") is None:
        raise ValueError("--on ray needs ray: pip install 'clearhead[cluster]'")
    os.environ |= RAY_SETTINGS
    base, folder = config.base.absolute(), config.folder
    folder = folder.absolute() if isinstance(folder, Path) else folder
    config = replace(config, base=base, folder=folder)
    storage = folder if isinstance(folder, Path) else base  # of what Ray itself writes

    def attempt() -> LaunchResult:
        connect_ray(show_output=True)
        import ray
        from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError, WorkerGroupError
        from ray.train.torch import TorchConfig, TorchTrainer

        gpu = choose_device(config.device).type == "cuda"
        trainer = TorchTrainer(
            _train,
            train_loop_config={"config": config, "path": [os.getcwd(), *sys.path]},
            scaling_config=ScalingConfig(num_workers=processes, use_gpu=gpu),
            run_config=RunConfig(name="ray", storage_path=str(storage), failure_config=FailureConfig(max_failures=0)),
            torch_config=TorchConfig(timeout_s=COLLECTIVE_TIMEOUT_S),
        )
        with ThreadPoolExecutor(1) as thread:  # in the main thread, Ray ends the command at Ctrl-C with exit code 0
            running: Future[Any] = thread.submit(trainer.fit)
            try:
                running.result()
            except KeyboardInterrupt:
                return LaunchResult(int(signal.SIGINT), {})
            except WorkerGroupError as error:
                return LaunchResult(None, {rank: _failure(e) for rank, e in error.worker_failures.items()})
            except TrainingFailedError as error:
                return LaunchResult(None, {0: WorkerFailure(1, str(error))})
            finally:
                ray.shutdown()  # ends the processes that are left, for which the thread waits
        return LaunchResult(None, {})

    return attempt


def _train(settings: dict[str, Any]) -> None:
    """Train as one rank, in a process of the cluster."""
    sys.path[:] = list(dict.fromkeys([*sys.path, *settings["path"]]))
    try:
        train_rank(settings["config"], _print_error)
    except (ValueError, OSError) as error:
        _print_error(f"clearhead: {error}")
        raise RankFailed(2) from None


def _print_error(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _failure(error: Exception) -> WorkerFailure:
    """Return how a process ended: by its own error, which Ray wraps, or with its machine."""
    cause = getattr(error, "_base_exc", error)
    return WorkerFailure(cause.exit_code if isinstance(cause, RankFailed) else -1, type(cause).__name__)
