"""The mesh of a recipe: which numbers of processes it is for."""

from __future__ import annotations

import pytest

from clearhead.distributed import Distributed, ParallelConfig, arrange
from clearhead.train import make_recipe
from tests.train import tiny


def test_the_processes_that_are_left_shard_the_model():
    assert ParallelConfig().sizes(8) == (1, 8, 1)
    assert ParallelConfig(data=2, tensor=2).sizes(8) == (2, 2, 2)
    assert ParallelConfig(data=2, shard=1).sizes(2) == (2, 1, 1)
    assert ParallelConfig(data=2, tensor=2).processes == 4 and ParallelConfig(shard=3).processes == 3


def test_neighbors_compute_the_same_part_of_a_batch():
    ranks = [arrange(Distributed(rank, 8), ParallelConfig(data=2, tensor=2)) for rank in range(8)]
    assert [r.batch_rank for r in ranks] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert {r.batch_ranks for r in ranks} == {4} and {r.copies for r in ranks} == {2}


@pytest.mark.parametrize(
    ("config", "processes", "message"),
    [
        (ParallelConfig(shard=2, tensor=2), 2, r"needs 4 processes, but the run has 2: start 4, .*--processes 4"),
        (ParallelConfig(tensor=2), 3, r"has 3 processes, which is no multiple of 2"),
        (ParallelConfig(data=2), 1, r"has 1 processes, which is no multiple of 2"),
    ],
)
def test_other_numbers_are_refused(config, processes, message):
    with pytest.raises(ValueError, match=message):
        config.sizes(processes)


def test_recipes_are_checked():
    with pytest.raises(ValueError, match=r"parallel: parallel.tensor is 0: it must be at least 1"):
        make_recipe({**tiny.values(), "parallel": {"tensor": 0}})
    with pytest.raises(ValueError, match=r"parallel.tensors: .*tensor"):
        make_recipe({**tiny.values(), "parallel": {"tensors": 2}})
