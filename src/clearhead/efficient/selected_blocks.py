"""Selected blocks: the mean of the keys of a block tells which blocks a query reads exactly."""

import torch
from torch import Tensor

from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.layout import Layout
from clearhead.attention.masks import Mask
from clearhead.attention.method import SparseMethod, at_least
from clearhead.efficient.block_mask import BlockMask


class SelectedBlocks(SparseMethod):
    """Queries read the `blocks` blocks of keys whose mean keys they score highest; their own and the first come first.

    After the selection of native sparse attention (Yuan et al. 2025, section 3.3.2), without its learned compression:
    a block of keys is summed up by its mean. The choice is made for each head and has no gradient. The queries of a
    block choose together, by their mean; causal queries choose one by one, as a later one must not tell an earlier.
    """

    kind = "selected_blocks"

    def __init__(self, *, blocks: int = 8, block: int = 64) -> None:
        super().__init__()
        at_least(1, blocks=blocks, block=block)
        self.blocks, self.block = blocks, block

    @torch.no_grad()
    def mask(self, inputs: AttentionInputs) -> Mask:
        if inputs.scale is None:
            raise ValueError("selected blocks need dot-product scores: the score of this attention is no dot product")
        causal, size = inputs.mask.band[1] == 0, self.block
        size_q = 1 if causal else size
        layout_q, layout_k = inputs.layout_q, inputs.layout_k
        n, m = max(1, -(-layout_q.end // size_q)), max(1, -(-layout_k.end // size))
        table = torch.zeros(layout_q.num_sequences, inputs.num_heads, n, m, dtype=torch.bool, device=inputs.q.device)
        j = torch.arange(m, device=inputs.q.device)
        own = torch.arange(n, device=inputs.q.device).unsqueeze(1) * size_q // size
        for sequence in range(layout_q.num_sequences):
            queries = _means(inputs.q, layout_q, sequence, size_q, n)  # (H, n, K)
            keys = _means(inputs.k, layout_k, sequence, size, m).repeat_interleave(inputs.repeats, 0)
            scores = queries @ keys.transpose(1, 2)  # (H, n, m)
            past = -(-(layout_k.host_starts[sequence] + layout_k.host_lengths[sequence]) // size)
            scores[:, :, past:] = float("-inf")
            if causal:
                scores.masked_fill_(j >= own, float("-inf"))  # the own block is not complete: its mean knows the future
            scores.masked_fill_(j == 0, torch.finfo(scores.dtype).max)
            scores.masked_fill_(j == own, float("inf"))
            values, chosen = scores.topk(min(self.blocks, m), dim=-1)
            table[sequence].scatter_(2, chosen, ~values.isneginf())
        return BlockMask(table, size, size_q)


def _means(x: Tensor, layout: Layout, sequence: int, size: int, count: int) -> Tensor:
    """The mean of the tokens (N, H, K) of each block of a sequence, (H, count, K)."""
    rows = layout.rows(sequence)
    block = layout.positions[rows] // size
    sums = x.new_zeros(count, *x.shape[1:]).index_add_(0, block, x[rows])
    sizes = x.new_zeros(count, dtype=torch.float32).index_add_(0, block, x.new_ones(len(block), dtype=torch.float32))
    return (sums / sizes.to(x.dtype).clamp(min=1).view(-1, 1, 1)).transpose(0, 1)
