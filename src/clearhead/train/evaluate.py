"""Evaluation: metrics of a model on examples it does not train on, streamed batch by batch."""

from __future__ import annotations

import math

import torch
from torch import nn

from clearhead.data import Batches, Columns
from clearhead.tasks import Task
from clearhead.train.precision import precision
from clearhead.train.recipe import Training


@torch.no_grad()
def evaluate(model: nn.Module, task: Task, columns: Columns, settings: Training) -> dict[str, float]:
    """The loss per token without smoothing, its perplexity, and whatever else the task measures.

    No more than one batch of scores is ever held.
    """
    model.eval()
    batches = Batches(task.lengths(columns), settings.batch_tokens, shuffled=False)
    total, count = 0.0, int(task.counts(columns).sum())
    for i in range(len(batches)):
        with precision(settings.dtype):
            total += float(task.loss(model, task.collate(columns, batches.batch(0, i))))
    return {"loss": total / count, "perplexity": math.exp(min(total / count, 700.0))}
