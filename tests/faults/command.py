"""`clearhead train` in processes that start at once: forks of one that has everything imported."""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
import yaml

from clearhead.train.tracking import TIMES, read_log
from clearhead.train.verify_resume import PRELOAD


def write(base: Path, values: dict[str, Any]) -> None:
    (base / "r.yaml").write_text(yaml.safe_dump(values))


def start(base: Path, folder: Path, limit: int | None = None) -> BaseProcess:
    """`clearhead train r.yaml --out FOLDER`, in `base`; no file may grow beyond `limit` bytes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [*PRELOAD, "clearhead.cli", "clearhead.distributed.sharding", "tests.faults.command"]
    )
    process = context.Process(target=_command, args=(str(base), str(folder), limit))
    process.start()
    return process


def told(base: Path) -> str:
    """What the last process said on stderr."""
    return (base / "stderr").read_text()


def _command(base: str, folder: str, limit: int | None) -> None:
    from clearhead.cli import app

    os.chdir(base)
    torch.set_num_threads(1)
    for stream, name in ((sys.stdout, "stdout"), (sys.stderr, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream.fileno())
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    app(["train", "r.yaml", "--out", folder])


def timeless(folder: Path) -> list[dict[str, Any]]:
    """The log of a run without what differs between two of them."""
    return [{k: v for k, v in record.items() if k not in TIMES} for record in read_log(folder / "log.jsonl")]


def equal(run: Path, other: Path) -> bool:
    """The same log, and the same model to the byte."""
    models = [(folder / "model" / "model.safetensors").read_bytes() for folder in (run, other)]
    return timeless(run) == timeless(other) and models[0] == models[1]
