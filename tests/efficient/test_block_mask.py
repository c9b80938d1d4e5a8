import pytest
import torch

from clearhead.attention import Causal, Layout, attend
from clearhead.efficient.block_mask import BlockMask


def random_mask(sequences: int = 1, heads: int = 1, query_size: int | None = None) -> BlockMask:
    generator = torch.Generator().manual_seed(0)
    rows = 5 if query_size is None else 20 // query_size
    return BlockMask(torch.rand(sequences, heads, rows, 5, generator=generator) < 0.4, 4, query_size)


@pytest.mark.parametrize("query_size", [None, 1, 2])
def test_rectangles_are_counted_by_blocks(query_size: int | None) -> None:
    """What the mask says of a rectangle agrees with what it says of each pair, wherever it starts and ends."""
    mask = random_mask(query_size=query_size)
    every = mask.allows(torch.tensor(0), torch.arange(20).unsqueeze(1), torch.arange(20))
    generator = torch.Generator().manual_seed(1)
    for _ in range(200):
        (q0, q1), (k0, k1) = (sorted(torch.randperm(21, generator=generator)[:2].tolist()) for _ in range(2))
        part = every[q0:q1, k0:k1]
        assert not bool(mask.all_allowed(q0, q1, k0, k1)) or bool(part.all())
        assert bool(mask.any_allowed(q0, q1, k0, k1)) or not bool(part.any())
    edges = torch.arange(0, 21, 4)
    spans = edges[:-1, None], edges[1:, None], edges[None, :-1], edges[None, 1:]
    by_block = every.view(5, 4, 5, 4).transpose(1, 2)
    assert torch.equal(mask.any_allowed(*spans), by_block.any(-1).any(-1))
    assert torch.equal(mask.all_allowed(*spans), by_block.all(-1).all(-1))


def test_positions_past_the_table_are_not_allowed() -> None:
    mask = BlockMask(torch.ones(1, 1, 2, 2, dtype=torch.bool), 4)
    assert mask.allows(torch.tensor(0), torch.tensor([0, 7, 8]), torch.tensor([7, 8, 0])).tolist() == [
        True,
        False,
        False,
    ]
    assert not mask.any_allowed(8, 12, 0, 4)
    assert not mask.all_allowed(0, 12, 0, 4)


def test_heads_and_sequences_have_their_own_tables() -> None:
    mask = random_mask(2, 3)
    assert mask.per_head and (mask & Causal()).per_head and (mask | Causal()).per_head
    for sequence in range(2):
        for head in range(3):
            own = mask.of_head(sequence, head)
            assert isinstance(own, BlockMask)
            assert torch.equal(own.table[0, 0], mask.table[sequence, head])
    with pytest.raises(ValueError, match="of_head"):
        mask.allows(torch.tensor(0), torch.tensor(0), torch.tensor(0))


def test_kernels_that_cannot_tell_heads_apart_refuse() -> None:
    layout = Layout.from_lengths([20, 13])
    q, k, v = (torch.randn(33, 3, 8, generator=torch.Generator().manual_seed(i)) for i in range(3))
    mask = random_mask(2, 3)
    with pytest.raises(ValueError, match="heads of this mask differ"):
        attend(q, k, v, layout, layout, mask=mask, kernel="sdpa")
    expected = attend(q, k, v, layout, layout, mask=mask, kernel="reference")
    torch.testing.assert_close(attend(q, k, v, layout, layout, mask=mask), expected)
    together = [attend(q[:, h : h + 1], k[:, h : h + 1], v[:, h : h + 1], layout, layout,
                       mask=BlockMask(mask.table[:, h : h + 1], 4), kernel="reference") for h in range(3)]  # fmt: skip
    torch.testing.assert_close(torch.cat(together, 1), expected)


@pytest.mark.parametrize("table", [torch.ones(2, 2, dtype=torch.bool), torch.ones(1, 1, 2, 2)])
def test_a_wrong_table_is_explained(table: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="the table is boolean"):
        BlockMask(table, 4)
