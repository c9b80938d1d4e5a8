"""The next step's batches are read while a step computes, in order, and end with the run."""

import threading
import time
from contextlib import suppress

import numpy as np
import pytest
import torch

from clearhead.distributed import Distributed
from clearhead.tasks.task import Batch
from clearhead.train.prefetch import REQUEST_AHEAD, Prefetcher, StepBatches, StepParts, read_batches
from clearhead.train.recipe import TrainConfig


def batches_of(number: int) -> StepBatches:
    return StepBatches(StepParts(np.array([number]), [], range(0)), {}, 1)


def test_the_next_step_is_read_while_this_one_computes():
    began, names = [threading.Event() for _ in range(3)], []

    def read(number: int) -> StepBatches:
        names.append(threading.current_thread().name)
        began[number].set()
        return batches_of(number)

    with Prefetcher(read, 3) as prefetcher:
        for number in range(3):
            assert prefetcher.take(number).parts.examples == [number]
            assert number == 2 or began[number + 1].wait(5), "the next step is not read"
    assert len(names) == 3 and all(name.startswith("prefetch") for name in names)


def test_no_step_is_read_after_the_last():
    read = []
    with Prefetcher(lambda number: read.append(number) or batches_of(number), 6) as prefetcher:
        for number in (4, 5):
            prefetcher.take(number)
    assert read == [4, 5]


def test_an_error_of_reading_is_raised_where_its_step_is_taken():
    def read(number: int) -> StepBatches:
        if number == 1:
            raise OSError("the disk is gone")
        return batches_of(number)

    with Prefetcher(read, 3) as prefetcher:
        prefetcher.take(0)
        with pytest.raises(OSError, match="the disk is gone"):
            prefetcher.take(1)


def test_no_thread_remains_after_an_error():
    def read(number: int) -> StepBatches:
        time.sleep(0.05 * number)
        return batches_of(number)

    before = threading.active_count()
    with suppress(KeyboardInterrupt), Prefetcher(read, 9) as prefetcher:
        prefetcher.take(0)
        raise KeyboardInterrupt
    assert threading.active_count() == before


def random_state() -> tuple[bytes, bytes]:
    return torch.get_rng_state().numpy().tobytes(), repr(np.random.get_state()).encode()  # noqa: NPY002


def test_reading_leaves_the_global_random_numbers_alone(begin):
    """Dropout draws from them while the thread reads."""
    job = begin().job(Distributed(), shown=False)
    before = random_state()
    read_batches(job.task, job.columns, StepParts.of(job.task, job.columns, np.arange(8), job.settings), 3)
    assert random_state() == before


@pytest.mark.parametrize(
    ("ranks", "settings"),
    [
        (1, {"gradient_accumulation": 4}), (2, {"gradient_accumulation": 2}), (4, {}), (1, {"dropout_parts": 4}),
        (3, {"dropout_parts": 4}), (4, {"dropout_parts": 4}),
    ],
)  # fmt: skip
def test_ranks_read_together_what_one_process_reads(begin, ranks, settings):
    job, examples = begin().job(Distributed(), shown=False), np.arange(9)
    of_one = TrainConfig(steps=1, gradient_accumulation=4)
    alone = read_batches(job.task, job.columns, StepParts.of(job.task, job.columns, examples, of_one), 3)
    of_rank = TrainConfig(steps=1, **settings)
    found: dict[int, Batch] = {}
    for rank in range(ranks):
        parts = StepParts.of(job.task, job.columns, examples, of_rank, Distributed(rank, ranks))
        read = read_batches(job.task, job.columns, parts, 3)
        assert (read.targets, parts.slices[:4]) == (alone.targets, alone.parts.slices)
        assert parts.own_examples.tolist() == [e for part in parts.own for e in examples[parts.slices[part]]]
        assert not found.keys() & read.batches.keys()
        found |= read.batches
    assert {number for number, batch in found.items() if len(batch.ids)} == alone.batches.keys()
    for number in alone.batches:
        batch = found[number]
        assert torch.equal(batch.ids, alone.batches[number].ids)
        assert torch.equal(batch.labels, alone.batches[number].labels)


def test_each_step_is_requested_once_and_before_it_is_read():
    events: list[tuple[str, int]] = []

    def read(number: int) -> StepBatches:
        events.append(("read", number))
        return batches_of(number)

    with Prefetcher(read, 9, lambda number: events.append(("request", number))) as prefetcher:
        for number in range(3, 9):
            prefetcher.take(number)
    assert [number for kind, number in events if kind == "request"] == list(range(3, 9))
    for number in range(3, 9):
        requested = events.index(("request", number))
        assert requested < events.index(("read", max(3, number - REQUEST_AHEAD)))
