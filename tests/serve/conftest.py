"""A real server in its own process, with a model for each task."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.serve.models import make_models


@dataclass
class Running:
    """A server started by `clearhead serve`."""

    process: subprocess.Popen[str]
    address: str
    log: Path

    def client(self, **options) -> httpx.Client:
        return httpx.Client(base_url=self.address, timeout=60, **options)

    def stop(self) -> int:
        """Sends SIGTERM, as a service manager does; returns the exit code."""
        with self.process:
            self.process.send_signal(signal.SIGTERM)
            return self.process.wait(60)


def start(log: Path, *arguments: str, **variables: str) -> Running:
    """Starts `clearhead serve` with these arguments, on a free port."""
    with log.open("w") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "clearhead.cli", "serve", *arguments, "--port", "0", "--json"],
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, log.read_text()
    return Running(process, json.loads(line)["address"], log)


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> dict[str, Path]:
    return make_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def server(folders, tmp_path_factory) -> Iterator[Running]:
    """All models, in float32."""
    running = start(
        tmp_path_factory.mktemp("server") / "log", *(f"{n}={p}" for n, p in folders.items()), "--dtype", "float32"
    )
    yield running
    assert running.stop() == -signal.SIGTERM


@pytest.fixture
def client(server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client
