"""Products of decoding steps: the same for any number of rows, packed or not."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from clearhead.decode.fused_decoder import LARGE_WEIGHT, SMALL_ROWS, PackedLinear
from clearhead.decode.topk import FEW, topk


@pytest.mark.parametrize("size", [(48, 32), (LARGE_WEIGHT // 64 + 16, 64)], ids=["small", "large"])
@pytest.mark.parametrize("rows", [1, 2, 3, SMALL_ROWS, SMALL_ROWS + 1, 40])
def test_products_are_those_of_the_layers(size, rows):
    torch.manual_seed(0)
    first, second = (nn.Linear(size[1], size[0]).eval() for _ in range(2))
    x, add = torch.randn(rows, size[1]), torch.randn(rows, size[0])
    with torch.inference_mode():
        packed, both = PackedLinear(first, rows=16), PackedLinear(first, second, rows=16)
        for _ in range(2):  # packed at the first call
            torch.testing.assert_close(packed(x), first(x), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(packed(x, "relu"), F.relu(first(x)), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(packed(x, add=add.clone()), first(x) + add, atol=1e-5, rtol=1e-5)
        expected = torch.cat([first(x), second(x)], 1)
        torch.testing.assert_close(both(x), expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(both.once(x), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 5, FEW // 1000 + 1])
def test_one_best_token_is_the_most_likely(rows):
    torch.manual_seed(1)
    scores = torch.randn(rows, 1000) * 3
    banned = torch.tensor([3, 999])
    scores[:, 3] += 9  # banned tokens keep their probability
    expected = torch.log_softmax(scores, 1)
    expected[:, banned] = float("-inf")
    value, parent, word = topk(scores.clone(), torch.zeros(rows, 1), 1, banned=banned)
    assert word.squeeze(1).tolist() == expected.argmax(1).tolist() and not parent.any()
    torch.testing.assert_close(value, expected.max(1, keepdim=True).values, atol=1e-5, rtol=1e-5)
