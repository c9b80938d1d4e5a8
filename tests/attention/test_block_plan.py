"""Plans of the block_sparse kernel: each pair that the mask allows is computed once, in memory linear in the length."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.attention import Causal, Global, Layout, Window
from clearhead.attention.kernels import block_plan
from clearhead.attention.kernels.block_plan import BlockCall
from clearhead.attention.masks import Mask
from clearhead.attention.tuning import use_tuning
from clearhead.efficient.block_mask import BlockMask

SIZE = 4  # of a block
HEADS = 3


def blocks(draw: Any, length: int) -> BlockMask:
    """A mask of random blocks, for each head."""
    count = max(1, -(-length // SIZE))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    heads = draw(st.sampled_from([1, HEADS]))
    return BlockMask(torch.rand(1, heads, count, count, generator=generator) < 0.4, SIZE)


@st.composite
def masked_lengths(draw: Any) -> tuple[int, Mask]:
    length, w = draw(st.integers(1, 60)), draw(st.integers(0, 9))
    own = blocks(draw, length)
    some = [Window(w, w), Causal() & (Window(w, 0) | Global(2)), Window(w, 1) | Global(3), own, Causal() & own]
    return length, draw(st.sampled_from(some))


def pairs(length: int, mask: Mask, heads: range) -> torch.Tensor:
    """How often the plan of some heads computes each pair of a query and a key, (h, T, T)."""
    layout = Layout.from_lengths([length])
    counts = torch.zeros(len(heads), length, -(-length // SIZE) * SIZE, dtype=torch.int64)
    for tile in BlockCall(layout, layout, mask).plan(0, heads).tiles:
        m, n = tile.keys.shape
        rows = torch.arange(tile.t0, tile.t1).view(m, 1, -1, 1)  # (m, 1, t, 1)
        columns = (tile.keys.unsqueeze(2) * SIZE + torch.arange(SIZE)).view(m, 1, 1, n * SIZE)
        shape = m, len(heads), rows.shape[2], n * SIZE
        allowed = torch.ones(shape, dtype=torch.bool) if tile.allowed is None else tile.allowed.expand(shape)
        places = torch.arange(len(heads)).view(1, -1, 1, 1), rows, columns
        counts.index_put_(tuple(x.expand(shape)[allowed] for x in places), torch.tensor(1), True)
        if tile.run is not None:
            assert torch.equal(tile.keys, tile.run + torch.arange(m).unsqueeze(1) + torch.arange(n))
    assert not counts[:, :, length:].any(), "no padding is read"
    return counts[:, :, :length]


@given(
    masked_lengths(), st.sampled_from([range(HEADS), range(1), range(1, 2)]),
    st.sampled_from([1, 3, 2**16]), st.sampled_from([2**4, 2**9]),
)  # fmt: skip
def test_each_allowed_pair_is_computed_once(masked, heads, strip, scores):
    length, mask = masked
    q, k = torch.arange(length).unsqueeze(1), torch.arange(length)
    each = [mask.of_head(0, head).allows(torch.tensor(0), q, k).expand(length, length) for head in heads]
    with pytest.MonkeyPatch.context() as patch, use_tuning(sparse_block=SIZE, sparse_tile_scores=scores):
        patch.setattr(block_plan, "STRIP", strip)
        assert torch.equal(pairs(length, mask, heads), torch.stack(each).long())


def test_a_mask_that_is_the_same_for_all_queries_is_kept_once():
    table = torch.eye(8, dtype=torch.bool)
    table[:, -1] = True  # each row reads two blocks; the last one, and padding
    layout = Layout.from_lengths([8 * SIZE])
    with use_tuning(sparse_block=SIZE):
        (tile,) = BlockCall(layout, layout, BlockMask(table.view(1, 1, 8, 8), SIZE)).plan(0, range(1)).tiles
    assert tile.allowed is not None and tile.allowed.shape == (8, 1, 1, 2 * SIZE)
    assert tile.empty is None


def test_the_plan_asks_the_mask_for_few_blocks_at_a_time():
    asked = []

    class Recorded(Mask):
        def allows(self, sequence, query, key):
            return (query - key).abs() <= 1

        def any_allowed(self, q_lo, q_hi, k_lo, k_hi):
            asked.append(q_lo.numel() * k_lo.numel())
            return (q_lo < k_hi + 1) & (k_lo < q_hi + 1)

    layout = Layout.from_lengths([4096 * SIZE])
    with use_tuning(sparse_block=SIZE):
        plan = BlockCall(layout, layout, Recorded()).plan(0, range(1))
        assert plan.num_pairs > 0 and max(asked) <= block_plan.STRIP
