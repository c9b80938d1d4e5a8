"""A run is the same run in any number of processes, and goes on in any other."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import clearhead
from clearhead.train import Checkpoints, fit, make_recipe, prepare, train
from clearhead.train.checkpoint import tensors_of
from clearhead.train.optimise import make_optimiser
from clearhead.train.ranks import Ranks, whole
from clearhead.train.tracking import read_log
from tests.distributed.tiny import tiny
from tests.distributed.together import together

SIZES = (1, 2, 4)
PAIRS = [(a, b) for a in SIZES for b in SIZES]
ORDINARY = {(2, 1), (1, 2)}
NEAR = 1e-6  # relative; worst seen over 50 steps: 2.3e-7 of a loss, 3.4e-7 of a norm


def digests(tensors: dict[str, torch.Tensor]) -> dict[str, str]:
    return {name: hashlib.sha256(whole(t).numpy().tobytes()).hexdigest() for name, t in tensors.items()}


def work(ranks: Ranks, values: dict[str, Any], base: Path, folder: Path) -> list[dict[str, str]]:
    """Train to the end; the tensors before the first step, and after the last."""
    job = prepare(make_recipe(values), base, folder).job(ranks, shown=False)
    optimiser = make_optimiser(job.model, job.settings.optimiser)
    checkpoints = Checkpoints(folder / "checkpoints", 1, ranks)
    before: dict[str, str] = {}
    if newest := checkpoints.newest():
        checkpoints.restore(newest, job.model, optimiser)
        before = digests(tensors_of(job.model, optimiser))
    fit(job, ranks)
    last = checkpoints.newest()
    assert last is not None
    checkpoints.restore(last, job.model, optimiser)
    return [before, digests(tensors_of(job.model, optimiser))]


def begin(values: dict[str, Any], base: Path, name: str) -> Path:
    """A folder of a run with its data made, as the first rank leaves it."""
    folder = base / name
    prepare(make_recipe(values), base, folder)
    return folder


def records(folder: Path) -> list[dict[str, Any]]:
    return read_log(folder / "log.jsonl")


def check_equal(log: list[dict[str, Any]], other: list[dict[str, Any]], near: float = NEAR) -> None:
    """The same examples in the same order, and losses, norms and evaluations that are near."""
    assert [r["step"] for r in log] == [r["step"] for r in other]
    assert [r.get("examples") for r in log] == [r.get("examples") for r in other]
    for name in ("loss", "norm", "valid_loss"):
        a, b = ([r[name] for r in records if name in r] for records in (log, other))
        np.testing.assert_allclose(a, b, rtol=near, atol=0, err_msg=name)


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("equal")


@pytest.fixture(scope="module")
def single(base) -> list[dict[str, Any]]:
    """The log of 50 steps in one process, never interrupted."""
    folder = begin(tiny(base), base, "single")
    together(1, work, tiny(base), base, folder)
    return records(folder)


@pytest.fixture(scope="module")
def saved(base):
    """Half a run in so many processes, made once: its folder, and the tensors it had at the end."""
    made: dict[int, tuple[Path, dict[str, str]]] = {}

    def get(size: int) -> tuple[Path, dict[str, str]]:
        if size not in made:
            folder = begin(tiny(base, steps=25), base, f"half-{size}")
            ends = [after for _, after in together(size, work, tiny(base, steps=25), base, folder)]
            assert all(end == ends[0] for end in ends)
            made[size] = folder, ends[0]
        return made[size]

    return get


@pytest.mark.parametrize(
    ("size", "then"), [pytest.param(*p, marks=[] if p in ORDINARY else [pytest.mark.slow]) for p in PAIRS]
)
def test_a_run_goes_on_in_another_number_of_processes(size, then, base, single, saved):
    half, tensors = saved(size)
    folder = shutil.copytree(half, base / f"from-{size}-to-{then}")
    begin(tiny(base), base, folder.name)
    for before, _ in together(then, work, tiny(base), base, folder):
        assert before == tensors  # to the bit
    check_equal(single, records(folder))
