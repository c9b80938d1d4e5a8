"""Batches: every example once an epoch, whoever asks and in whatever order; and parts that cover a batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data import DistinctBatches, TokenBudgetBatches, split_batch
from clearhead.data.batches import shuffle

LENGTHS = st.lists(st.integers(0, 30), min_size=1, max_size=60).filter(lambda lengths: max(lengths) > 0)


def made(lengths: list[int], room: int, seed: int = 0, shuffled: bool = True) -> TokenBudgetBatches:
    return TokenBudgetBatches(np.array(lengths), max(lengths) + room, seed, shuffled)


@settings(max_examples=40)
@given(LENGTHS, st.integers(0, 100), st.integers(0, 2**40), st.integers(0, 1000), st.booleans())
def test_every_example_once_an_epoch(lengths, room, seed, epoch, shuffled):
    batches = made(lengths, room, seed, shuffled)
    found = np.concatenate([batches.batch(epoch, i) for i in range(len(batches))])
    assert sorted(found) == list(range(len(lengths)))
    if not shuffled:
        assert found.tolist() == list(range(len(lengths)))


@settings(max_examples=40)
@given(LENGTHS, st.integers(0, 100), st.integers(0, 1000), st.integers(0, 1000))
def test_batches_are_about_the_budget_and_never_empty(lengths, room, seed, epoch):
    batches = made(lengths, room, seed)
    sizes = [int(batches.lengths[batches.batch(epoch, i)].sum()) for i in range(len(batches))]
    most = batches.budget + max(lengths)
    assert all(0 < size < most for size in sizes[:-1])
    assert 0 < sizes[-1] <= max(most, 1.5 * batches.budget)
    assert all(len(batches.batch(epoch, i)) for i in range(len(batches)))


@settings(max_examples=8)  # a shuffle takes 30 ms however short it is
@given(LENGTHS, st.integers(0, 100), st.data())
def test_a_batch_is_a_pure_function_of_seed_epoch_and_number(lengths, room, data):
    """Asked in any order, of one object or of fresh ones, the answer is the same."""
    one = made(lengths, room, seed=5)
    places = [(epoch, i) for epoch in range(2) for i in range(min(len(one), 4))]
    want = {place: one.batch(*place).tolist() for place in places}
    for place in data.draw(st.permutations(places)):
        assert one.batch(*place).tolist() == want[place]
        assert made(lengths, room, seed=5).batch(*place).tolist() == want[place]


def test_an_example_as_large_as_a_batch_leaves_none_empty():
    """3 tokens in batches of 2 are 1.5 batches: one, where the longer example comes last, else there is an empty one."""
    for lengths in ([1, 2], [2, 1]):
        batches = TokenBudgetBatches(np.array(lengths), 2, shuffled=False)
        assert [batches.batch(0, i).tolist() for i in range(len(batches))] == [[0, 1]]


def test_the_rest_joins_the_last_batch_where_it_is_small():
    assert len(TokenBudgetBatches(np.ones(24, dtype=np.int64), 10)) == 2
    assert len(TokenBudgetBatches(np.ones(26, dtype=np.int64), 10)) == 3
    assert len(TokenBudgetBatches(np.ones(3, dtype=np.int64), 10)) == 1


def test_seeds_and_epochs_have_orders_of_their_own():
    orders = {tuple(shuffle(50, seed, epoch)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25
    assert shuffle(1, 3, 4).tolist() == [0]


def test_the_shuffle_moves_everything_about():
    """In a random order of n things the mean way of one is n / 3, give or take n / sqrt(11 n)."""
    ways = np.abs(shuffle(5000, 1, 1) - np.arange(5000))
    assert abs(ways.mean() - 5000 / 3) < 5 * 5000 / (11 * 5000) ** 0.5


def test_the_place_of_a_step():
    batches = TokenBudgetBatches(np.ones(30, dtype=np.int64), 10)
    assert [batches.place(step) for step in (0, 2, 3, 7)] == [(0, 0), (0, 2), (1, 0), (2, 1)]


@pytest.mark.parametrize(
    ("lengths", "budget", "says"),
    [
        ([], 10, "there are no examples"),
        ([3, 11], 10, "an example has 11 tokens, and a batch holds 10: raise batch_tokens, or lower max_len"),
        ([3], 0, "a batch of 0 tokens"),
    ],
)
def test_what_cannot_be(lengths, budget, says):
    with pytest.raises(ValueError, match=says):
        TokenBudgetBatches(np.array(lengths, dtype=np.int64), budget)


@pytest.mark.parametrize("i", [-1, 3])
def test_a_batch_that_is_not_there(i):
    with pytest.raises(ValueError, match=f"there is no batch {i}: an epoch has 3"):
        TokenBudgetBatches(np.ones(30, dtype=np.int64), 10).batch(0, i)


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 50))
def test_parts_cover_a_batch_in_order_and_are_balanced(lengths, parts):
    slices = split_batch(lengths, parts)
    assert len(slices) == parts
    covered = [i for part in slices for i in range(len(lengths))[part]]
    assert covered == list(range(len(lengths)))
    fair = sum(lengths) / parts
    for part in slices:
        assert abs(sum(lengths[part]) - fair) <= max(lengths, default=0)


@given(
    texts=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=3), min_size=1, max_size=60),
    size=st.integers(1, 9),
    seed=st.integers(0, 3),
)
@settings(max_examples=40)
def test_distinct_batches_have_no_text_twice_and_every_example_that_fits(texts, size, seed):
    keys = np.asarray([key for example in texts for key in example], dtype=np.int64)
    counts = np.asarray([len(example) for example in texts], dtype=np.int64)
    batches = DistinctBatches(keys, counts, size, seed)
    found = [batches.batch(1, i) for i in range(len(batches))]
    again = DistinctBatches(keys, counts, size, seed)
    assert all(np.array_equal(batch, again.batch(1, i)) for i, batch in reversed(list(enumerate(found))))
    for batch in found:
        seen = [key for example in batch.tolist() for key in set(texts[example])]
        assert len(seen) == len(set(seen))
    placed = [example for batch in found for example in batch.tolist()]
    assert len(placed) == len(set(placed))
    for example in set(range(len(texts))) - set(placed):  # every batch has one of its texts
        assert all(any(set(texts[other]) & set(texts[example]) for other in batch.tolist()) for batch in found)


def test_distinct_batches_change_with_the_epoch():
    keys = np.arange(40, dtype=np.int64)
    batches = DistinctBatches(keys, np.full(20, 2), 4, 0)
    assert not np.array_equal(batches.batch(0, 0), batches.batch(1, 0))
    assert sorted(np.concatenate([batches.batch(0, i) for i in range(len(batches))]).tolist()) == list(range(20))
