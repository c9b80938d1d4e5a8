"""Explanations of a similarity or a relevance: what each token adds to the score.

The cosine of two mean-pooled texts is a sum over pairs of tokens, so its explanation is exact. A reranker is no such
sum: its tokens get integrated gradients (Sundararajan et al. 2017), whose sum is the score minus that of masked texts.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.attention import Layout
from clearhead.hub.folder import LoadedModel
from clearhead.hub.sentence import SentenceConfig
from clearhead.models.model import Model
from clearhead.tasks.rerank import Rerank
from clearhead.text import TokenBatch

STEPS = (32, 128, 512)  # points of the integral: more are used while the sum is not yet the score
TOLERANCE = 1e-3
BATCH_STEPS = 32  # points computed together


@dataclass(frozen=True, eq=False)
class Explanation:
    """The tokens of two texts, and what each adds to their score."""

    score: float  # a cosine, or a relevance from 0 to 1
    baseline: float  # the score without any token: 0 for a cosine
    first: tuple[str, ...]  # A tokens
    second: tuple[str, ...]  # B tokens
    first_values: Tensor  # (A,)
    second_values: Tensor  # (B,)
    pairs: Tensor | None  # (A, B): of a cosine, what each pair of tokens adds; None of a relevance

    @property
    def total(self) -> float:
        """The sum of all contributions and the baseline: the score."""
        if self.pairs is not None:
            return float(self.pairs.double().sum())
        return self.baseline + float(self.first_values.double().sum() + self.second_values.double().sum())

    def top(self, count: int = 10) -> list[tuple[str, str, float]]:
        """Return the pairs of tokens that add most to a cosine."""
        if self.pairs is None:
            raise ValueError("a relevance has no pairs of tokens: read first_values and second_values")
        best = self.pairs.flatten().topk(min(count, self.pairs.numel()))
        B = self.pairs.shape[1]
        return [
            (self.first[i // B], self.second[i % B], value)
            for i, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]


@torch.no_grad()
def explain_cosine(loaded: LoadedModel, first: str, second: str, config: SentenceConfig) -> Explanation:
    """Return what each pair of tokens adds to the cosine of two texts; exact for mean pooling."""
    if config.pool != "mean":
        raise ValueError(f"the vectors are pooled by {config.pool!r}: only the cosine of a mean is a sum over tokens")
    tokenizer = loaded.require_tokenizer
    tokens = tokenizer([config.prompt() + first, config.prompt() + second], max_len=config.max_len)
    states = loaded.model.hidden_states(*_inputs(loaded.model, tokens)).float()
    a, b = states.split(tokens.layout.host_lengths)
    scale = len(a) * len(b) * float(a.mean(0).norm()) * float(b.mean(0).norm())
    pairs = (a @ b.t() / max(scale, 1e-12)).cpu()
    words = tokenizer.tokens(tokens.ids)
    return Explanation(
        score=float(torch.cosine_similarity(a.mean(0), b.mean(0), dim=0)),
        baseline=0.0,
        first=tuple(words[: len(a)]),
        second=tuple(words[len(a) :]),
        first_values=pairs.sum(1),
        second_values=pairs.sum(0),
        pairs=pairs,
    )


def explain_relevance(loaded: LoadedModel, query: str, document: str) -> Explanation:
    """Return what each token adds to the relevance of a document: integrated gradients from masked texts."""
    task = Rerank.from_model(loaded)
    tokens = task.tokenizer([query], [document], max_len=task.settings.max_len, shorten="second")
    score, baseline, values = _integrated_gradients(loaded.model, tokens, _mask_id(loaded))
    words, parts = task.tokenizer.tokens(tokens.ids), tokens.parts
    sides = [torch.nonzero(parts == side).flatten() for side in (0, 1)]
    return Explanation(
        score=score,
        baseline=baseline,
        first=tuple(words[i] for i in sides[0].tolist()),
        second=tuple(words[i] for i in sides[1].tolist()),
        first_values=values[sides[0]],
        second_values=values[sides[1]],
        pairs=None,
    )


def _integrated_gradients(model: Model, tokens: TokenBatch, mask: int | None) -> tuple[float, float, Tensor]:
    """Return the score, the score of the masked texts, and the contribution of each token, (N,)."""
    table = _token_embedding(model)
    device = table.weight.device
    given = table.weight[tokens.ids.to(device)].detach()
    blank = torch.zeros_like(given[0]) if mask is None else table.weight[mask].detach()
    special = (tokens.parts < 0).to(device).unsqueeze(1)
    start = torch.where(special, given, blank)
    score, baseline = (float(_score(model, tokens, x.unsqueeze(0)).detach()) for x in (given, start))
    values = torch.zeros(len(given))
    for steps in STEPS:
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        gradient = torch.zeros_like(given)
        for lo in range(0, steps, BATCH_STEPS):
            at = torch.tensor((nodes[lo : lo + BATCH_STEPS] + 1) / 2, dtype=given.dtype, device=device)
            weight = torch.tensor(weights[lo : lo + BATCH_STEPS] / 2, dtype=given.dtype, device=device)
            x = (start + at[:, None, None] * (given - start)).requires_grad_()
            (found,) = torch.autograd.grad((_score(model, tokens, x) * weight).sum(), x)
            gradient += found.sum(0)
        values = (gradient * (given - start)).sum(1).float().cpu()
        if abs(float(values.double().sum()) - (score - baseline)) <= TOLERANCE:
            break
    return score, baseline, values


def _score(model: Model, tokens: TokenBatch, embedded: Tensor) -> Tensor:
    """Return the relevance of a pair for each row of token embeddings (S, N, D)."""
    table, count = _token_embedding(model), len(embedded)
    ids, segments = tokens.ids.to(embedded.device).repeat(count), tokens.segments.to(embedded.device).repeat(count)
    layout = Layout.uniform(count, len(tokens.ids), embedded.device)
    hook = table.register_forward_hook(lambda module, args, output: embedded.flatten(0, 1))
    try:
        return torch.sigmoid(model(ids, layout, segments=segments if bool(segments.any()) else None)[:, 0].float())
    finally:
        hook.remove()


def _token_embedding(model: Model) -> nn.Embedding:
    return next(module for module in model.modules() if isinstance(module, nn.Embedding))


def _mask_id(loaded: LoadedModel) -> int | None:
    specials = loaded.require_tokenizer.specials
    token = specials.get("mask") or specials.get("pad")
    return None if token is None else loaded.require_tokenizer.id(token)


def _inputs(model: Model, tokens: TokenBatch) -> tuple[Tensor, Layout]:
    device = next(iter(model.parameters())).device
    return tokens.ids.to(device), tokens.layout.to(device)
