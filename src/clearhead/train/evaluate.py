"""Evaluation: metrics of a model on examples that it is not trained on, computed batch by batch."""

import math
from contextlib import nullcontext

import torch
from torch import nn

from clearhead.data import Columns, Rows, TokenBudgetBatches, split_batch
from clearhead.distributed import Distributed
from clearhead.hub.folder import LoadedModel
from clearhead.models.precision import autocast
from clearhead.tasks import Task
from clearhead.tasks.task import MeasuresBatch, Trainable, WholeBatchLoss
from clearhead.train.loop import make_batches
from clearhead.train.recipe import TrainConfig


@torch.no_grad()
def evaluate(
    model: nn.Module, task: Trainable, columns: Columns, settings: TrainConfig, distributed: Distributed | None = None
) -> dict[str, float]:
    """Return the loss per token or example without label smoothing, its perplexity, and the batch metrics of the task.

    Ranks share the work; at most one batch is in memory.
    """
    model.eval()
    distributed, lengths = distributed or Distributed(), task.lengths(columns)
    whole = isinstance(task, WholeBatchLoss)  # then a batch is whole on one rank
    if whole:
        batches = make_batches(task, columns, settings)
    else:
        batches = TokenBudgetBatches(lengths, max(settings.batch_tokens, int(lengths.max(initial=0))), shuffled=False)
    total, targets, device = 0.0, 0, next(model.parameters()).device
    sums: dict[str, list[float]] = {}  # numerator and denominator of each metric
    for i in range(len(batches)):
        examples = batches.batch(0, i)
        targets += int(task.num_targets(columns, examples).sum())
        if whole:
            local = examples if i % distributed.batch_ranks == distributed.batch_rank else examples[:0]
        else:
            local = examples[split_batch(lengths[examples], distributed.batch_ranks)[distributed.batch_rank]]
        with autocast(settings.dtype, device):
            batch = task.collate(columns, local).to(device)
            loss, metrics = (
                task.loss_and_metrics(model, batch)
                if isinstance(task, MeasuresBatch)
                else (task.loss(model, batch), {})
            )
        total += float(loss)
        for name, (value, count) in metrics.items():
            pair = sums.setdefault(name, [0.0, 0.0])
            pair[0], pair[1] = pair[0] + value, pair[1] + count
    loss, *values = distributed.sum([total, *(value for pair in sums.values() for value in pair)])
    loss /= max(targets, 1)
    result = {"loss": loss} | ({"perplexity": math.exp(min(loss, 700.0))} if "perplexity" in task.spec.metrics else {})
    fractions = zip(sums, values[::2], values[1::2], strict=True)
    return result | {name: value / max(count, 1.0) for name, value, count in fractions}


def score(task: Task, loaded: LoadedModel, rows: Rows, settings: TrainConfig, beam: int = 1) -> dict[str, float]:
    """Return the metrics of a task's answers; labeling tasks compute them in the precision of training."""
    device = next(iter(loaded.model.parameters())).device
    with nullcontext() if task.spec.split_by is None else autocast(settings.dtype, device):
        return task.score(loaded, rows, beam)
