"""Several processes on this machine that work together, as ranks of one run: forks of one that has torch imported."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage]

from clearhead.distributed import init_distributed

SECONDS = 600  # for everything that ranks do in one test, on a machine that has other work
PRELOAD = ["clearhead.distributed.sharding", "torch._dynamo", "torch.distributed.tensor", "tensorboard"]


def together(size: int, work: Callable[..., Any], *args: Any) -> list[Any]:
    """What `work(ranks, *args)` gives on each of `size` ranks."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    store = TCPStore("localhost", 0, is_master=True, timeout=timedelta(seconds=SECONDS))
    ends, processes = [], []
    for rank in range(size):
        end, other = context.Pipe(duplex=False)
        processes.append(context.Process(target=_rank, args=(rank, size, store.port, other, work, args), daemon=True))
        processes[-1].start()
        other.close()
        ends.append(end)
    try:
        answers = [end.recv() if end.poll(SECONDS) else (False, "no answer") for end in ends]
    finally:
        for process in processes:
            process.kill()
            process.join()
    faults = [f"rank {rank}: {told}" for rank, (well, told) in enumerate(answers) if not well]
    assert not faults, "\n".join(faults)
    return [told for _, told in answers]


def _rank(rank: int, size: int, port: int, end: Connection, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in names.items()})
    os.environ.update({"MASTER_ADDR": "localhost", "TORCHELASTIC_USE_AGENT_STORE": "True"})
    torch.set_num_threads(1)
    try:
        with init_distributed() as ranks:
            told = work(ranks, *args)
        end.send((True, told))
    except BaseException:
        end.send((False, traceback.format_exc()))
