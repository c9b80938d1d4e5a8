import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.attention import Causal, DenseMask, Full, Global, Mask, Prefix, Window
from clearhead.attention.masks import deserialize, serialize
from tests.properties.cases import masks


def grid(mask: Mask, T: int, S: int, sequence: int = 0) -> torch.Tensor:
    where = torch.tensor([[sequence]])
    return mask.allows(where, torch.arange(T).view(-1, 1), torch.arange(S).view(1, -1)).expand(T, S)


def test_each_rule():
    q, k = torch.arange(6).view(-1, 1), torch.arange(6).view(1, -1)
    assert grid(Full(), 6, 6).all()
    assert torch.equal(grid(Causal(), 6, 6), k <= q)
    assert torch.equal(grid(Window(2, 1), 6, 6), (k >= q - 2) & (k <= q + 1))
    assert torch.equal(grid(Global(2), 6, 6), (q < 2) | (k < 2))
    assert torch.equal(grid(Prefix(torch.tensor([9, 3])), 6, 6, 1), (k < 3) | (k <= q))
    assert torch.equal(grid(Global(torch.tensor([0, 1])), 6, 6, 1), (q < 1) | (k < 1))
    assert torch.equal(grid(DenseMask((k == q)[None]), 6, 6), k == q)


@given(masks(2, 12), masks(2, 12))
def test_and_or_combine(a, b):
    for sequence in (0, 1):
        assert torch.equal(grid(a & b, 14, 14, sequence), grid(a, 14, 14, sequence) & grid(b, 14, 14, sequence))
        assert torch.equal(grid(a | b, 14, 14, sequence), grid(a, 14, 14, sequence) | grid(b, 14, 14, sequence))


@given(masks(2, 12), st.tuples(*[st.integers(0, 13)] * 4))
def test_what_it_says_of_rectangles_is_true(mask, corners):
    q_lo, k_lo = corners[0], corners[2]
    q_hi, k_hi = min(14, q_lo + 1 + corners[1]), min(14, k_lo + 1 + corners[3])
    seen = torch.stack([grid(mask, 14, 14, s)[q_lo:q_hi, k_lo:k_hi] for s in (0, 1)])
    if mask.all_allowed(q_lo, q_hi, k_lo, k_hi):
        assert seen.all()
    if not mask.any_allowed(q_lo, q_hi, k_lo, k_hi):
        assert not seen.any()
    left, right = mask.band
    for s in (0, 1):
        q, k = torch.nonzero(grid(mask, 14, 14, s), as_tuple=True)
        assert left is None or (q - k <= left).all()
        assert right is None or (k - q <= right).all()


def test_rectangles_many_at_once():
    lo = torch.arange(0, 64, 16)
    touched = Window(8, 0).any_allowed(lo[:, None], lo[:, None] + 16, lo[None], lo[None] + 16)
    assert touched.tolist() == [[i == j or i == j + 1 for j in range(4)] for i in range(4)]
    assert Causal().all_allowed(16, 32, 0, 16)
    assert not Causal().all_allowed(16, 32, 0, 32)


@given(masks(2, 12))
def test_words_carry_a_mask_across(mask):
    again = deserialize(*serialize(mask))
    for sequence in (0, 1):
        assert torch.equal(grid(mask, 14, 14, sequence), grid(again, 14, 14, sequence))


def test_a_mask_of_ones_own():
    class Even(Mask):
        def allows(self, sequence, query, key):
            return (query - key) % 2 == 0

    assert grid(Even() & Causal(), 4, 4).tolist() == [[(i - j) % 2 == 0 and j <= i for j in range(4)] for i in range(4)]
    with pytest.raises(ValueError, match="Even is a custom mask"):
        serialize(Even())


def test_negative_windows_are_refused():
    with pytest.raises(ValueError, match=r"Window\(-1, 2\)"):
        Window(-1, 2)
