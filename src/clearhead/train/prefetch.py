"""The batches of a step, read in a thread while the model computes the step before."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from clearhead.data import Columns, Integers, split_batch
from clearhead.distributed import Distributed
from clearhead.tasks.task import Batch, Trainable, WholeBatchLoss
from clearhead.train.recipe import TrainConfig

REQUEST_AHEAD = 4  # steps, where data takes a while to come


@dataclass(frozen=True, eq=False)
class StepParts:
    """The examples of a step, in parts: one for each rank and accumulated gradient."""

    examples: Integers  # of all ranks
    slices: list[slice]  # the examples of each part
    own: range  # the parts of this rank

    @staticmethod
    def of(
        task: Trainable,
        columns: Columns,
        examples: Integers,
        settings: TrainConfig,
        distributed: Distributed | None = None,
    ) -> StepParts:
        """Divide examples among the ranks; where the parts are no multiple of them, the last ones are empty."""
        distributed = distributed or Distributed()
        per_rank = settings.parts_per_rank(distributed.batch_ranks)
        places = distributed.batch_ranks * per_rank
        slices = split_batch(task.lengths(columns, examples), settings.dropout_parts or places)
        slices += [slice(len(examples), len(examples))] * (places - len(slices))
        first = distributed.batch_rank * per_rank
        return StepParts(examples, slices, range(first, first + per_rank))

    @property
    def own_examples(self) -> Integers:
        """The examples of this rank."""
        return np.concatenate([self.examples[self.slices[part]] for part in self.own])


@dataclass(frozen=True, eq=False)
class StepBatches:
    """What one rank reads in a step."""

    parts: StepParts
    batches: dict[int, Batch]  # of this rank, by the numbers of their parts
    targets: int  # of all ranks; the loss is divided by them
    whole: Batch | None = None  # all examples at once, for a loss that compares them with each other

    def pin(self) -> Self:
        """Return the batches in page-locked memory, which a GPU reads while it computes."""
        batches = {part: batch.pin() for part, batch in self.batches.items()}
        return replace(self, batches=batches, whole=None if self.whole is None else self.whole.pin())


def read_batches(task: Trainable, columns: Columns, parts: StepParts, number: int) -> StepBatches:
    """Read the batches of step `number`.

    No torch seed is read or changed: those are for dropout, and the model may be computing at the same time.
    """
    examples = parts.examples
    return StepBatches(
        parts,
        {part: task.collate(columns, examples[parts.slices[part]], number + 1) for part in parts.own},
        int(task.num_targets(columns, examples).sum()),
        task.collate(columns, examples) if isinstance(task, WholeBatchLoss) else None,
    )


class Prefetcher:
    """Reads the steps before `last` in order, the next one in a thread. As a context it ends with the thread.

    `request` begins to get what a step will read, a few steps before it is read.
    """

    def __init__(
        self, read: Callable[[int], StepBatches], last: int, request: Callable[[int], None] | None = None
    ) -> None:
        self._read, self._last, self._request = read, last, request
        self._requested: int | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
        self._next: tuple[int, Future[StepBatches]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def take(self, number: int) -> StepBatches:
        """Return the batches of a step, and begin to read those of the next one."""
        at, found = self._next or (number, self._thread.submit(self._work, number))
        assert at == number, f"step {number} was asked for, {at} was read"
        batches = found.result()
        following = number + 1
        self._next = (following, self._thread.submit(self._work, following)) if following < self._last else None
        return batches

    def _work(self, number: int) -> StepBatches:
        if self._request is not None:
            first = number if self._requested is None else self._requested
            self._requested = min(number + REQUEST_AHEAD + 1, self._last)
            for ahead in range(first, self._requested):
                self._request(ahead)
        return self._read(number)
