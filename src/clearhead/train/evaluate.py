"""Evaluation: metrics of a model on examples it does not train on, streamed batch by batch."""

from __future__ import annotations

import math

import torch
from torch import nn

from clearhead.data import Batches, Columns, divide
from clearhead.tasks import Task
from clearhead.train.precision import precision
from clearhead.train.ranks import Ranks
from clearhead.train.recipe import Training


@torch.no_grad()
def evaluate(
    model: nn.Module, task: Task, columns: Columns, settings: Training, ranks: Ranks | None = None
) -> dict[str, float]:
    """The loss per token or example, without smoothing, and of words its perplexity; ranks share the work.

    No more than a part of one batch is ever held.
    """
    model.eval()
    ranks, lengths = ranks or Ranks(), task.lengths(columns)
    batches = Batches(lengths, max(settings.batch_tokens, int(lengths.max(initial=0))), shuffled=False)
    total, device = 0.0, next(model.parameters()).device
    for i in range(len(batches)):
        examples = batches.batch(0, i)
        mine = examples[divide(lengths[examples], ranks.size)[ranks.rank]]
        with precision(settings.dtype, device):
            total += float(task.loss(model, task.collate(columns, mine).to(device)))
    loss = ranks.sum([total])[0] / int(task.counts(columns).sum())
    return {"loss": loss} | ({"perplexity": math.exp(min(loss, 700.0))} if "perplexity" in task.metrics else {})
