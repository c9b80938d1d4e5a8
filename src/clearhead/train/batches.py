"""Batches of a run, by tokens or by examples, and its epochs in steps."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from clearhead.data import Batches, Integers
from clearhead.train.recipe import Training


def batches_of(lengths: Integers, settings: Training, seed: int = 0, *, shuffled: bool = True) -> Batches:
    """Examples of these lengths as a recipe batches them."""
    if settings.batch_examples is None:
        return Batches(lengths, settings.batch_tokens, seed, shuffled)
    return Batches(np.ones_like(lengths), settings.batch_examples, seed, shuffled)


def counted(settings: Training, batches: int) -> Training:
    """The same with its epochs, of so many batches each, in steps."""
    if settings.epochs is None:
        return settings
    return replace(settings, epochs=None, steps=max(1, ceil(settings.epochs * batches)))
