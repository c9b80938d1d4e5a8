"""The overhead of Ray Serve: one client, small requests, to one process and to Ray in HAProxy mode, interleaved."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmark import Benchmark

EACH = 40  # requests per round, alternating between the two, so that other load affects both equally


@contextmanager
def starting(models: Mapping[str, Path], *more: str) -> Iterator[Callable[[], str]]:
    """Start `clearhead serve` with these models; yield a function that waits for it and returns its address."""
    words = [f"{name}={folder}" for name, folder in models.items()]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "clearhead.cli", "serve", *words, "--port", "0", "--json", "--quiet",
             "--dtype", "float32", "--batch-wait-ms", "0", *more],
            stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip

        def address() -> str:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                log.seek(0)
                raise RuntimeError(log.read().decode())
            return json.loads(line)["address"]

        try:
            yield address
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def timed(client: httpx.Client, body: dict[str, str], count: int) -> list[float]:
    """Return the milliseconds of each request."""
    found: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        answer = client.post("/embed", json=body)
        found.append(1000 * (time.perf_counter() - began))
        assert answer.status_code == 200, answer.text
    return found


@contextmanager
def both(models: Mapping[str, Path]) -> Iterator[Callable[[int], dict[str, float]]]:
    """Start both servers; yield a function that waits for them and measures both in rounds."""
    with (
        starting(models, "--on", "ray", "--cores-per-replica", "1") as far,
        starting(models, "--threads", "1") as near,
    ):
        yield lambda turns: overhead(near(), far(), next(iter(models)), turns)


def overhead(near: str, far: str, model: str, turns: int) -> dict[str, float]:
    """Return the median latencies of POST /embed of one short text at two addresses, and their difference."""
    body = {"text": "the old man", "model": model}
    here: list[float] = []
    there: list[float] = []
    with httpx.Client(base_url=near, timeout=30) as one, httpx.Client(base_url=far, timeout=30) as other:
        timed(one, body, EACH)
        timed(other, body, EACH)
        for _ in range(turns):
            here += timed(one, body, EACH)
            there += timed(other, body, EACH)
    plain, ray = statistics.median(here), statistics.median(there)
    return {
        "plain_ms": round(plain, 2),
        "ray_ms": round(ray, 2),
        "ray_overhead_ms": round(ray - plain, 2),
        "plain_fastest_ms": round(min(here), 2),
        "ray_fastest_ms": round(min(there), 2),
    }


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parse()
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.serve.models import make_models

    with (
        tempfile.TemporaryDirectory() as folder,
        both({"classify": make_models(Path(folder))["classify"]}) as measure,
    ):
        found = measure(12)
    print(f"one process {found['plain_ms']} ms, Ray Serve behind HAProxy {found['ray_ms']} ms")
    bench.reads("three words, and a small classifier with random weights")
    bench.runs_in({"both": "float32"})
    bench.finish(found, peers=("ray",))


if __name__ == "__main__":
    main()
