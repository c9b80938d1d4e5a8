"""The batches of a step, read in a thread while the model computes the step before."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Self

from clearhead.data import Columns, Integers, split_batch
from clearhead.distributed import Distributed
from clearhead.tasks.task import Batch, Trainable, WholeBatchLoss


@dataclass(frozen=True, eq=False)
class StepBatches:
    """What one rank reads in a step. A step is computed in parts: one for each rank and accumulated gradient."""

    examples: Integers  # of all ranks
    targets: int  # of all ranks; the loss is divided by them
    parts: dict[int, Batch]  # of this rank, by their number among the parts of all ranks
    slices: list[slice]  # the examples of each part
    whole: Batch | None = None  # all examples at once, for a loss that compares them with each other

    def pin(self) -> Self:
        """Return the batches in page-locked memory, which a GPU reads while it computes."""
        parts = {number: batch.pin() for number, batch in self.parts.items()}
        return replace(self, parts=parts, whole=self.whole and self.whole.pin())


def read_batches(
    task: Trainable,
    columns: Columns,
    examples: Integers,
    number: int,
    accumulation: int = 1,
    distributed: Distributed | None = None,
) -> StepBatches:
    """Read the batches of step `number` on this rank, which computes `accumulation` parts one after another.

    No torch seed is read or changed: those are for dropout, and the model may be computing at the same time.
    """
    distributed = distributed or Distributed()
    slices = split_batch(task.lengths(columns, examples), distributed.batch_ranks * accumulation)
    first = distributed.batch_rank * accumulation
    own = range(first, first + accumulation)
    return StepBatches(
        examples,
        int(task.num_targets(columns, examples).sum()),
        {part: task.collate(columns, examples[slices[part]], number + 1) for part in own},
        slices,
        task.collate(columns, examples) if isinstance(task, WholeBatchLoss) else None,
    )


class Prefetcher:
    """Reads the steps before `last` in order, the next one in a thread. As a context it ends with the thread."""

    def __init__(self, read: Callable[[int], StepBatches], last: int) -> None:
        self._read, self._last = read, last
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
        self._next: tuple[int, Future[StepBatches]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def take(self, number: int) -> StepBatches:
        """Return the batches of a step, and begin to read those of the next one."""
        at, found = self._next or (number, self._thread.submit(self._read, number))
        assert at == number, f"step {number} was asked for, {at} was read"
        batches = found.result()
        following = number + 1
        self._next = (following, self._thread.submit(self._read, following)) if following < self._last else None
        return batches
