"""Processes that are killed while they upload a checkpoint: `python -m tests.train.kill_upload ADDRESS KILLS`.

Each of them is a fork of this process, which has no threads; so is each that reads what is in the store afterwards.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable

import torch
from torch import nn

from clearhead.files import s3_path, s3_streams
from clearhead.files.s3_path import S3Path
from clearhead.train.checkpoint import Checkpoints, Progress, init_optimizer_state, tensors_of
from clearhead.train.optimizer import make_optimizer
from clearhead.train.recipe import OptimizerConfig

PART_BYTES = 1 << 16  # so that a checkpoint has many
WIDTH = 112


def state(value: float) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model and its optimizer, with this value everywhere."""
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH))
    optimizer = make_optimizer(model, OptimizerConfig())
    init_optimizer_state(optimizer)
    with torch.no_grad():
        for tensor in tensors_of(model, optimizer).values():
            tensor.fill_(value)
    return model, optimizer


def write(folder: S3Path, step: int) -> None:
    checkpoints = Checkpoints(folder, 1)
    checkpoints.newest()
    checkpoints.save(Progress(step=step), *state(step))


def read(folder: S3Path) -> int:
    """The step of the newest checkpoint, 0 if there is none; raises if anything is damaged or mixed."""
    warnings.simplefilter("error")
    checkpoints = Checkpoints(folder, 1)
    newest = checkpoints.newest()
    if newest is None:
        return 0
    model, optimizer = state(-1.0)
    step = checkpoints.read(newest, model, optimizer).step
    for name, tensor in tensors_of(model, optimizer).items():
        if not torch.equal(tensor, torch.full_like(tensor, step)):
            raise AssertionError(f"{name} is not that of step {step}")
    return step


def forked(work: Callable[[], int | None], seconds: float | None = None) -> tuple[bool, int]:
    """Run something in a fork, and kill it after some seconds; return whether it was killed, and its result."""
    readable, writable = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.write(writable, str(work() or 0).encode())
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writable)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)
    with os.fdopen(readable, "rb") as result:
        text = result.read()
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        return True, 0
    if os.WEXITSTATUS(status):
        raise AssertionError("the process failed")
    return False, int(text)


def main(address: str, kills: int) -> None:
    s3_streams.PART_BYTES = PART_BYTES
    torch.set_num_threads(1)
    folder, chance = S3Path.parse(address), random.Random(kills)
    client = s3_path._client(s3_path.ATTEMPTS, os.getpid())  # takes a second; without a connection so far
    s3_path._client = lambda attempts, process: client
    write(folder, 1)  # imports what torch and boto3 import on first use, once and not in every fork
    read(folder)
    client.close()  # a connection must not be shared with forks
    start = time.monotonic()
    forked(lambda: write(folder, 2))
    duration, done, before = time.monotonic() - start, 2, 0
    killed = new = 0
    while killed < kills:
        print(f"{killed} killed, {before} before the commit, {new} after", file=sys.stderr, flush=True)
        hit, _ = forked(lambda step=done + 1: write(folder, step), chance.uniform(0.1, 1.1) * duration)
        _, step = forked(lambda: read(folder))
        if step not in (done, done + 1) or (not hit and step == done):
            raise AssertionError(f"the newest is {step}, after {done}")
        killed += hit
        new += hit and step > done
        before += hit and step == done
        done = step
    forked(lambda: write(folder, done + 1))
    files = folder.files()
    attempts = {name.rpartition("/")[0] for name in files}
    uploads = list(folder.unfinished_uploads())
    print(json.dumps({"killed": killed, "old": before, "new": new, "left": sorted(attempts), "uploads": uploads}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
