"""Top-k tokens of every sequence, without sorting the vocabulary or writing its probabilities.

Scores are read once, a few rows at a time, so that they stay in the CPU cache: each row gives its log-sum-exp and the
maxima of chunks of tokens. The best tokens are in the chunks with the highest maxima, so only those are sorted.
"""

import torch
from torch import Tensor

CHUNK = 64  # tokens with one maximum
BLOCK = 2**18  # scores per thread and pass: a megabyte
FEW = 2**17  # scores; below, one best token per row is found faster by torch's own operations


def topk(
    scores: Tensor, base: Tensor, count: int, *, banned: Tensor | None = None, normal: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the `count` highest of base[b, w] + log p(v | b, w) for each sequence b: values, w and v, (B, count) each.

    Scores (R, V) are logits of any precision, or log-probabilities with `normal`. They have a row for each hypothesis
    (B W), or one for all hypotheses of a sequence (B). `banned` tokens keep their probability mass and are not chosen;
    their scores are overwritten.
    """
    (R, V), (B, W) = scores.shape, base.shape
    per = R // B  # rows of a sequence: W, or 1 for all
    chunks = V // CHUNK if count <= V // CHUNK * W else 0  # complete chunks of a row
    banned_scores = None
    if banned is not None:
        banned_scores = scores[:, banned].float()
        scores.index_fill_(1, banned, float("-inf"))
    is_greedy = count == 1 and W == 1 and scores.numel() <= FEW
    maxima, sums = _reduce(scores, 0 if is_greedy else chunks, normal)
    if not normal:
        sums = sums if banned_scores is None else torch.logaddexp(sums, banned_scores.logsumexp(1))
        base = base - sums.view(B, per)
    if is_greedy:
        top, word = scores.max(1, keepdim=True)
        return top.float() + base, torch.zeros_like(word), word
    device, parts = scores.device, list[tuple[Tensor, Tensor, Tensor]]()
    if chunks:
        ranked = (maxima.unflatten(0, (B, per)) + base.unsqueeze(2)).flatten(1)  # (B, W chunks)
        chosen = ranked.topk(min(count, W * chunks)).indices if count > 1 else ranked.argmax(1, keepdim=True)  # (B, n)
        w, c = chosen // chunks, chosen % chunks
        row = torch.arange(B, device=device).unsqueeze(1) * per + (w if per > 1 else 0)  # (B, n)
        word = (c * CHUNK).unsqueeze(2) + torch.arange(CHUNK, device=device)  # (B, n, CHUNK)
        value = scores.view(-1)[(row * V).unsqueeze(2) + word].float() + base.gather(1, w).unsqueeze(2)
        parts.append((value.flatten(1), w.repeat_interleave(CHUNK, 1), word.flatten(1)))
    if left := V - chunks * CHUNK:  # all tokens after the last complete chunk are candidates
        rest = scores[:, chunks * CHUNK :].float().unflatten(0, (B, per)) + base.unsqueeze(2)  # (B, W, left)
        w = torch.arange(W, device=device).repeat_interleave(left).expand(B, -1)
        parts.append((rest.flatten(1), w, torch.arange(V - left, V, device=device).repeat(W).expand(B, -1)))
    values, of, words = parts[0] if len(parts) == 1 else (torch.cat(p, 1) for p in zip(*parts, strict=True))
    top, at = values.topk(count) if count > 1 else values.max(1, keepdim=True)
    return top, of.gather(1, at), words.gather(1, at)


def _reduce(scores: Tensor, chunks: int, normal: bool) -> tuple[Tensor, Tensor]:
    """Return the maxima of each row's complete chunks, (R, chunks), and its log-sum-exp, (R,), unless `normal`."""
    R, V = scores.shape
    maxima = scores.new_empty(R, chunks, dtype=torch.float32)
    sums = scores.new_empty(R, dtype=torch.float32)
    rows = max(1, BLOCK * torch.get_num_threads() // max(V, 1))
    for begin in range(0, R, rows):
        part = scores[begin : begin + rows].to(torch.float32, copy=not normal)
        if chunks:
            torch.amax(part[:, : chunks * CHUNK].unflatten(1, (chunks, CHUNK)), 2, out=maxima[begin : begin + rows])
        if not normal:
            peak = part.amax(1, keepdim=True)
            part.sub_(peak).exp_()
            sums[begin : begin + rows] = part.sum(1).log_().add_(peak.squeeze(1))
    return maxima, sums
