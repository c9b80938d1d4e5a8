"""Best: the likeliest words of every sequence, found without sorting the vocabulary or writing its probabilities.

Scores are gone through once, a few rows at a time, so that they stay in the cache: of each row the sum of its
exponentials is kept, and the maxima of chunks of words. The best words are in the chunks with the best maxima, so only
those are sorted.
"""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 64  # words whose maximum is looked at before they are
BLOCK = 2**18  # scores that a thread goes through at once: a megabyte


def best(
    scores: Tensor, base: Tensor, count: int, *, banned: Tensor | None = None, normal: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` highest of base[b, w] + log p(v | b, w) for each sequence b: their values, w and v, (B, count) each.

    Scores (R, V) are the model's, of any precision, or log-probabilities where they are `normal` already. They have a
    row for each hypothesis (B W), or one for all hypotheses of a sequence (B). `banned` words have their share of the
    probability and are not chosen; their scores are overwritten.
    """
    (R, V), (B, W) = scores.shape, base.shape
    per = R // B  # rows of a sequence: W, or 1 for all
    whole = V // CHUNK if count <= V // CHUNK * W else 0  # chunks of a row
    kept = None
    if banned is not None:
        kept = scores[:, banned].float()
        scores.index_fill_(1, banned, float("-inf"))
    tops, sums = _survey(scores, whole, normal)
    if not normal:
        sums = sums if kept is None else torch.logaddexp(sums, kept.logsumexp(1))
        base = base - sums.view(B, per)
    device, found = scores.device, list[tuple[Tensor, Tensor, Tensor]]()
    if whole:
        ranked = (tops.unflatten(0, (B, per)) + base.unsqueeze(2)).flatten(1)  # (B, W chunks)
        chosen = ranked.topk(min(count, W * whole)).indices if count > 1 else ranked.argmax(1, keepdim=True)  # (B, n)
        w, c = chosen // whole, chosen % whole
        row = torch.arange(B, device=device).unsqueeze(1) * per + (w if per > 1 else 0)  # (B, n)
        word = (c * CHUNK).unsqueeze(2) + torch.arange(CHUNK, device=device)  # (B, n, CHUNK)
        value = scores.view(-1)[(row * V).unsqueeze(2) + word].float() + base.gather(1, w).unsqueeze(2)
        found.append((value.flatten(1), w.repeat_interleave(CHUNK, 1), word.flatten(1)))
    if left := V - whole * CHUNK:  # words beyond the last whole chunk are candidates as they are
        rest = scores[:, whole * CHUNK :].float().unflatten(0, (B, per)) + base.unsqueeze(2)  # (B, W, left)
        w = torch.arange(W, device=device).repeat_interleave(left).expand(B, -1)
        found.append((rest.flatten(1), w, torch.arange(V - left, V, device=device).repeat(W).expand(B, -1)))
    values, of, words = found[0] if len(found) == 1 else (torch.cat(parts, 1) for parts in zip(*found, strict=True))
    top, at = values.topk(count) if count > 1 else values.max(1, keepdim=True)
    return top, of.gather(1, at), words.gather(1, at)


def _survey(scores: Tensor, whole: int, normal: bool) -> tuple[Tensor, Tensor]:
    """The maxima of each row's whole chunks, (R, chunks), and log(sum(exp(row))), (R,), unless it is not needed."""
    R, V = scores.shape
    tops = scores.new_empty(R, whole, dtype=torch.float32)
    sums = scores.new_empty(R, dtype=torch.float32)
    rows = max(1, BLOCK * torch.get_num_threads() // max(V, 1))
    for begin in range(0, R, rows):
        part = scores[begin : begin + rows].to(torch.float32, copy=not normal)
        if whole:
            torch.amax(part[:, : whole * CHUNK].unflatten(1, (whole, CHUNK)), 2, out=tops[begin : begin + rows])
        if not normal:
            peak = part.amax(1, keepdim=True)
            part.sub_(peak).exp_()
            sums[begin : begin + rows] = part.sum(1).log_().add_(peak.squeeze(1))
    return tops, sums
