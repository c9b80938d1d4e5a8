"""The training loop beside a plain one: from the same weights, `step` makes the updates of a torch.nn model."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from clearhead.distributed import Distributed
from clearhead.train.loop import make_batches, step
from clearhead.train.optimizer import make_optimizer
from clearhead.train.prefetch import StepParts, read_batches
from clearhead.train.recipe import read_recipe
from clearhead.train.run import prepare
from clearhead.train.signals import SignalGuard

Image = pytest.importorskip("PIL.Image")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def vision(monkeypatch):
    """The benchmark that holds the same architecture, written with torch.nn alone."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("vision")


@torch.no_grad()
def copy_weights(plain: Any, model: nn.Module) -> None:
    """Copy the weights of the plain model into ours."""
    names = {
        "encoder.embedding.positions": plain.positions,
        "encoder.embedding.project.convolutions.0.weight": plain.stem[0].weight,
        "encoder.embedding.project.convolutions.1.weight": plain.stem[3].weight,
        "encoder.norm.weight": plain.norm.weight, "encoder.norm.bias": plain.norm.bias,
        "head.attention.weight": plain.query.weight,
        "head.output.weight": plain.output.weight, "head.output.bias": plain.output.bias,
    }  # fmt: skip
    for i, block in enumerate(plain.blocks):
        for kind in ("weight", "bias"):
            parts = dict(zip(("query", "key", "value"), getattr(block.qkv, kind).chunk(3), strict=True))
            names |= {f"encoder.blocks.{i}.attention.{name}.{kind}": part for name, part in parts.items()}
            others = {
                "attention.output": block.out, "feedforward.up": block.up, "feedforward.down": block.down,
                "attention_norm": block.norm1, "feedforward_norm": block.norm2,
            }  # fmt: skip
            names |= {f"encoder.blocks.{i}.{name}.{kind}": getattr(m, kind) for name, m in others.items()}
    own = dict(model.named_parameters())
    assert own.keys() == names.keys()
    for name, values in names.items():
        own[name].copy_(values)


def test_steps_equal_those_of_a_plain_loop(vision, tmp_path):
    draw = np.random.default_rng(0)
    for i in range(60):
        path = tmp_path / "images" / str(i % 10) / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 256, (32, 32, 3), dtype="u1")).save(path)
    part = f"{{file: {tmp_path}/images, image: ., label: folder}}"
    changes = [f"data.train={part}", "data.test=null", "data.augment={}", "data.validation_rows=10"]
    changes += ["train.batch_examples=16", "train.schedule={kind: constant, warmup: 0}", "train.dtype=float32"]
    run = prepare(read_recipe(vision.RECIPE, changes), tmp_path, tmp_path / "run")
    job, settings = run.job(Distributed(), shown=False), run.settings
    torch.manual_seed(0)
    plain = vision.PlainCct()
    copy_weights(plain, job.model)
    optimizer, batches = make_optimizer(job.model, settings.optimizer), make_batches(job.task, job.columns, settings, 1)
    parameters, groups = list(plain.parameters()), []
    for is_matrix, decay in ((True, settings.optimizer.weight_decay), (False, 0.0)):
        groups.append({"params": [p for p in parameters if (p.dim() > 1) == is_matrix], "weight_decay": decay})
    theirs = torch.optim.AdamW(groups, lr=settings.optimizer.lr)
    with SignalGuard() as stop:
        for number in range(6):
            examples = batches.batch(*batches.place(number))
            batch = job.task.collate(job.columns, examples, number + 1)
            inputs = read_batches(
                job.task, job.columns, StepParts.of(job.task, job.columns, examples, job.settings), number
            )
            loss, norm, _ = step(job, optimizer, inputs, number, Distributed(), stop)
            expected = nn.functional.cross_entropy(plain(batch.ids), batch.labels, label_smoothing=0.1)
            theirs.zero_grad()
            expected.backward()
            expected_norm = nn.utils.clip_grad_norm_(parameters, 1.0)
            theirs.step()
            assert loss == pytest.approx(expected.item(), abs=5e-6)  # the largest measured difference: 1.5e-6
            assert norm == pytest.approx(expected_norm.item(), rel=2e-5)  # 7e-6
