"""One process of a run, whichever launcher started it."""

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.distributed import PeerLost, init_distributed
from clearhead.distributed.ranks import is_first_here, own_device
from clearhead.files.manifest import Folder
from clearhead.files.s3_path import is_s3
from clearhead.train.checkpoint import Progress
from clearhead.train.loop import NotFinite
from clearhead.train.recipe import Recipe
from clearhead.train.run import prepare, train
from clearhead.train.signals import Stopped
from clearhead.train.tracking import Tracker

Print = Callable[[str], object]


class RankFailed(Exception):
    """A process of a run has ended before its time, and has printed why."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"ended with exit code {exit_code}")
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[Any, ...]:  # a launcher on another machine receives it
        return RankFailed, (self.exit_code,)


@dataclass(frozen=True)
class RankConfig:
    """What a process needs to know of its run; the environment holds its rank."""

    recipe: Recipe
    base: Path  # of the paths in the recipe
    folder: Folder
    trackers: tuple[str, ...] = ()
    device: str = "auto"


def train_rank(config: RankConfig, print_error: Print) -> Progress:
    """Train as the rank that a launcher made this process, or alone; RankFailed if the run does not reach its end."""
    trackers = [load_tracker(name) for name in config.trackers]
    is_main = os.environ.get("RANK", "0") == "0"
    try:
        with init_distributed() as distributed:
            if is_main:  # writes the data that the other processes then read
                prepare(config.recipe, config.base, config.folder, print_error)
            distributed.barrier()
            if is_first_here() and is_s3(config.folder):  # other machines have local folders of their own
                prepare(config.recipe, config.base, config.folder)
            distributed.barrier()
            run = prepare(config.recipe, config.base, config.folder)
            return train(run, distributed, trackers, device=own_device(config.device))
    except Stopped as stop:
        if is_main:
            print_error(f"clearhead: {stop}; a checkpoint is saved, run the same command to resume")
        raise RankFailed(128 + stop.signal) from None
    except PeerLost as error:
        print_error(f"clearhead: {error}")
        raise RankFailed(1) from None
    except NotFinite as error:
        if is_main:
            print_error(f"clearhead: {error}")
        raise RankFailed(3) from None


def load_tracker(name: str) -> Tracker:
    """Import the function that `module:function` names, from the current folder too."""
    module, _, function = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        tracker = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"--track {name}: {error}; write it as module:function") from None
    if not callable(tracker):
        raise ValueError(f"--track {name} is not a function: it is {tracker!r:.100}")
    return tracker
