"""How long training stops for a checkpoint: written in the background beside written at once.

    python benchmarks/checkpoint.py [--width 2048] [--folder PATH]

`stall_ms` is the time of `begin_save`, which copies the tensors; `synchronous_ms` that of `save`, which returns when
the checkpoint is complete, with its hashes, on the disk. `stall` is their ratio. To resume, every byte is hashed once
(`verify_ms`) and loaded (`load_ms`). Medians of several rounds, one process. The last line is a JSON object.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import nn

from benchmark import Benchmark
from clearhead.train.checkpoint import Checkpoints, Progress, init_optimizer_state, tensors_of
from clearhead.train.optimizer import make_optimizer
from clearhead.train.recipe import OptimizerConfig

LAYERS = 8
ROUNDS = 7


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - start)


def measure(bench: Benchmark, width: int, folder: Path) -> dict[str, float]:
    """Return the times of saving and reading the state of AdamW and a few square matrices of this width."""
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(LAYERS)))
    optimizer = make_optimizer(model, OptimizerConfig())
    init_optimizer_state(optimizer)
    stalls: list[float] = []
    synchronous: list[float] = []
    with Checkpoints(folder, 1) as checkpoints:
        checkpoints.reserve(model, optimizer)
        checkpoints.save(Progress(step=1), model, optimizer)
        for i in range(1, ROUNDS + 1):
            first, second = Progress(step=2 * i), Progress(step=2 * i + 1)
            stalls.append(milliseconds(partial(checkpoints.begin_save, first, model, optimizer)))
            checkpoints.wait()
            synchronous.append(milliseconds(partial(checkpoints.save, second, model, optimizer)))
        verify = milliseconds(checkpoints.newest)
        newest = checkpoints.all()[-1]
        load = milliseconds(lambda: checkpoints.read(newest, model, optimizer))
    bench.add_rounds("a checkpoint", {"in the background": stalls, "at once": synchronous}, unit="ms")
    stall, full = statistics.median(stalls), statistics.median(synchronous)
    size = sum(t.nbytes for t in tensors_of(model, optimizer).values())
    times = {"stall_ms": stall, "synchronous_ms": full, "verify_ms": verify, "load_ms": load}
    return {"megabytes": round(size / 1e6)} | {k: round(v, 1) for k, v in times.items()} | {"stall": stall / full}


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--width", type=int, default=2048, help="of the matrices")
    bench.parser.add_argument("--folder", type=Path, help="on the disk to measure. Default: a temporary one.")
    given = bench.parse()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        result = measure(bench, given.width, Path(folder))
    bench.reads("matrices of random numbers")
    bench.runs_in({"model and optimizer": "float32"})
    bench.finish({"threads": torch.get_num_threads(), **result})


if __name__ == "__main__":
    main()
