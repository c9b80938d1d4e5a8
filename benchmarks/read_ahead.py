"""Training from shards in an object store with added latency, beside the same shards on disk.

    python benchmarks/read_ahead.py [--latency-ms 20] [--steps 12] [--rounds 2] [--width 256]

Starts moto's S3 server and a proxy that delays each request, both processes of their own, uploads made shards, and
trains the same language model from both, in turns. `ratio` is the median speed from the store over that from disk,
where the server takes its time from the same cores; `cpu_ratio` is the same of the processor time of the training
process, with its threads that read, which does not depend on other work; `waiting` is the share of the steps in which
training waits for batches. The last line is a JSON object.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from tests.train.shards import made_shards

from benchmark import Benchmark
from clearhead.files.s3_folder import upload_folder
from clearhead.files.s3_path import S3Path, connect
from clearhead.train import make_recipe, prepare, train
from clearhead.train.prefetch import Prefetcher, StepBatches

SKIPPED = 2  # steps at the start
BLOCK = 256


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def delayed_store(latency: float) -> Iterator[None]:
    """An S3 server behind a proxy, at the endpoint of the environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = str(Path(__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    with (
        running([sys.executable, "-m", "moto.server", "-p", str(port)]),
        running([sys.executable, "-m", "tests.latency_proxy", str(latency), str(port)]) as proxy,
    ):
        assert proxy.stdout is not None
        os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{int(proxy.stdout.readline())}"
        os.environ |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1"}
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield


@dataclass
class Waiting:
    """Seconds in which training waits for batches."""

    seconds: float = 0.0

    def watch(self) -> None:
        take, waiting = Prefetcher.take, self

        def timed(self: Prefetcher, number: int) -> StepBatches:
            start = time.perf_counter()
            try:
                return take(self, number)
            finally:
                waiting.seconds += time.perf_counter() - start

        Prefetcher.take = timed


Times = tuple[float, float, float]
"""Of a step: seconds, processor time, and seconds of waiting for batches."""


def step_times(base: Path, name: str, shards: str, steps: int, width: int, waiting: Waiting) -> list[Times]:
    """Train, and return the times of each step."""
    times: list[Times] = []

    def track(step: int, numbers: Mapping[str, float]) -> None:
        if "loss" in numbers:
            times.append((time.perf_counter(), time.process_time(), waiting.seconds))

    values: dict[str, Any] = {
        "task": "language_model",
        "data": {"train": {"shards": shards}, "validation_rows": 2, "max_len": BLOCK},
        "model": {"width": width, "num_heads": 4, "num_layers": 4, "ffn_dim": 4 * width, "dropout": 0.0},
        "train": {
            "steps": steps, "batch_tokens": 8 * BLOCK, "dtype": "float32", "evaluate_every": steps, "save_every": steps,
        },
    }  # fmt: skip
    train(prepare(make_recipe(values), base, base / name), trackers=[track], shown=False)
    pairs = zip(times[SKIPPED:-1], times[SKIPPED + 1 :], strict=True)
    return [(b[0] - a[0], b[1] - a[1], b[2] - a[2]) for a, b in pairs]


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    parser = bench.parser
    parser.add_argument("--latency-ms", type=float, default=20, help="added to each request")
    parser.add_argument("--steps", type=int, default=12, help="of each run")
    parser.add_argument("--rounds", type=int, default=2, help="runs from each place")
    parser.add_argument("--width", type=int, default=256, help="of the model")
    given = bench.parse()
    bench.reads("random token ids in shards made for the benchmark")
    bench.runs_in({"both": "float32"})
    with tempfile.TemporaryDirectory() as folder, delayed_store(given.latency_ms / 1000):
        base = Path(folder)
        os.environ["CLEARHEAD_CACHE"] = str(base / "cache")
        bucket = S3Path("bucket")
        connect().create_bucket(Bucket=bucket.bucket)
        blocks = given.steps * 8
        upload_folder(made_shards(base / "shards", "gpt2", documents=blocks * 8, block=BLOCK), bucket / "shards")
        disk: list[Times] = []
        store: list[Times] = []
        waiting = Waiting()
        waiting.watch()
        for i in range(given.rounds):
            disk += step_times(base, f"disk-{i}", "shards", given.steps, given.width, waiting)
            store += step_times(base, f"store-{i}", str(bucket / "shards"), given.steps, given.width, waiting)
    (here, here_cpu, _), (there, there_cpu, _) = ([statistics.median(t) for t in zip(*part)] for part in (disk, store))
    result = {"latency_ms": given.latency_ms, "disk_s": round(here, 4), "store_s": round(there, 4)}
    result |= {"ratio": round(here / there, 3), "cpu_ratio": round(here_cpu / there_cpu, 3)}
    result |= {"waiting": round(sum(t[2] for t in store) / sum(t[0] for t in store), 4)}
    result |= {"steps": len(store), "threads": torch.get_num_threads()}
    bench.add_rounds("steps", {"disk": [t[0] for t in disk], "store": [t[0] for t in store]})
    bench.finish(result)


if __name__ == "__main__":
    main()
