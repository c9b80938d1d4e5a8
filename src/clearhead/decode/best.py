"""Best: the highest scores of a vocabulary, found without sorting it."""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 64  # words whose maximum is looked at before they are


def best(scores: Tensor, base: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` highest of base[b, w] + scores[b w, v] for each sequence b: their values, w and v, (B, count) each.

    Scores (R, V) have a row for each hypothesis (B W), or one for all hypotheses of a sequence (B). The best words are
    in the chunks with the best maxima, so only those are sorted.
    """
    (R, V), (B, W) = scores.shape, base.shape
    per = R // B  # rows of a sequence: W, or 1 for all
    whole = V // CHUNK if V >= 4 * CHUNK and V // CHUNK * per >= count else 0  # chunks of a row
    inside, rest = scores[:, : whole * CHUNK], scores[:, whole * CHUNK :]
    # words beyond the last whole chunk are candidates as they are
    values = (rest.unflatten(0, (B, per)) + base.unsqueeze(2)).flatten(1)  # (B, W rest)
    words = torch.arange(whole * CHUNK, V, device=scores.device).repeat(W).expand(B, -1)
    of = torch.arange(W, device=scores.device).repeat_interleave(V - whole * CHUNK).expand(B, -1)
    if whole:
        tops = inside.unflatten(1, (whole, CHUNK)).amax(2).unflatten(0, (B, per))  # (B, per, chunks)
        chosen = (tops + base.unsqueeze(2)).flatten(1).topk(min(count, W * whole)).indices  # (B, n)
        w, c = chosen // whole, chosen % whole
        row = torch.arange(B, device=scores.device).unsqueeze(1) * per + (w if per > 1 else 0)  # (B, n)
        word = c.unsqueeze(2) * CHUNK + torch.arange(CHUNK, device=scores.device)  # (B, n, CHUNK)
        found = scores.view(-1)[(row * V).unsqueeze(2) + word] + base.gather(1, w).unsqueeze(2)
        values = torch.cat([found.flatten(1), values], 1)
        words = torch.cat([word.flatten(1), words], 1)
        of = torch.cat([w.repeat_interleave(CHUNK, 1), of], 1)
    top, at = values.topk(count)
    return top, of.gather(1, at), words.gather(1, at)
