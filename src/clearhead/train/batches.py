"""Batches of a run, by tokens or by examples, and its epochs in steps."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from clearhead.data import Batches, Columns, Evenly
from clearhead.data.shards import size_of
from clearhead.tasks import Task
from clearhead.train.recipe import Training


def batches_of(task: Task, columns: Columns, settings: Training, seed: int = 0) -> Batches | Evenly:
    """Examples as a recipe batches them; blocks of shards, which are alike in size, by their number."""
    if settings.batch_examples is not None:
        return Evenly(_count(columns), settings.batch_examples, seed)
    if (most := size_of(columns)) is not None:
        return Evenly(_count(columns), max(1, settings.batch_tokens // most), seed)
    return Batches(task.lengths(columns), settings.batch_tokens, seed)


def _count(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def counted(settings: Training, batches: int) -> Training:
    """The same with its epochs, of so many batches each, in steps."""
    if settings.epochs is None:
        return settings
    return replace(settings, epochs=None, steps=max(1, ceil(settings.epochs * batches)))
