"""Evaluation: metrics of a model on examples it does not train on, streamed batch by batch."""

from __future__ import annotations

import math

import torch
from torch import nn

from clearhead.data import Batches, Columns, divide
from clearhead.tasks import Task
from clearhead.tasks.task import Measured
from clearhead.train.precision import precision
from clearhead.train.ranks import Ranks
from clearhead.train.recipe import Training


@torch.no_grad()
def evaluate(
    model: nn.Module, task: Task, columns: Columns, settings: Training, ranks: Ranks | None = None
) -> dict[str, float]:
    """The loss per token or example, without smoothing, of words its perplexity, and what else a task measures with it.

    Ranks share the work; no more than a part of one batch is ever held.
    """
    model.eval()
    ranks, lengths = ranks or Ranks(), task.lengths(columns)
    batches = Batches(lengths, max(settings.batch_tokens, int(lengths.max(initial=0))), shuffled=False)
    total, device = 0.0, next(model.parameters()).device
    sums: dict[str, list[float]] = {}
    for i in range(len(batches)):
        examples = batches.batch(0, i)
        mine = examples[divide(lengths[examples], ranks.size)[ranks.rank]]
        with precision(settings.dtype, device):
            batch = task.collate(columns, mine).to(device)
            loss, more = task.measured(model, batch) if isinstance(task, Measured) else (task.loss(model, batch), {})
        total += float(loss)
        for name, (part, of) in more.items():
            held = sums.setdefault(name, [0.0, 0.0])
            held[0], held[1] = held[0] + part, held[1] + of
    loss, *parts = ranks.sum([total, *(value for held in sums.values() for value in held)])
    loss /= int(task.counts(columns).sum())
    metrics = {"loss": loss} | ({"perplexity": math.exp(min(loss, 700.0))} if "perplexity" in task.metrics else {})
    return metrics | {name: part / max(of, 1.0) for name, part, of in zip(sums, parts[::2], parts[1::2], strict=True)}
