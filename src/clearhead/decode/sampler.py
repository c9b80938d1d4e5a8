"""Sampling: the next token of every row, the most likely or a random one.

A random token depends on a request's own seed and on how many tokens it has, never on the rest of the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clearhead.decode.topk import topk


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """Sampling parameters of one request."""

    temperature: float = 0.0  # 0: greedy; below 1 sharper, above 1 flatter
    top_k: int = 0  # 0: all
    top_p: float = 1.0  # nucleus sampling (Holtzman et al. 2020, section 3.1)
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < 1e6:
            raise ValueError(f"temperature is {self.temperature}: give 0 (greedy) or a positive number")
        if self.top_k < 0:
            raise ValueError(f"top_k is {self.top_k}: give 1 or more, or 0 for all tokens")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p is {self.top_p}: give a number above 0, at most 1")
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"seed is {self.seed}: give an integer from 0 to 2**64 - 1")


class Sampler:
    """Samples the next tokens of a batch of requests, one row of scores each; requests join at the end, and leave."""

    def __init__(self, sampling: Sequence[SamplingParams] = ()) -> None:
        self._temperature = np.zeros(0, dtype=np.float32)
        self._top_k = np.zeros(0, dtype=np.int64)
        self._top_p = np.zeros(0)
        self._random: list[np.random.Generator | None] = []  # one draw per token; None: greedy
        self.join(sampling)

    def join(self, sampling: Sequence[SamplingParams]) -> None:
        """Add requests, before their first token."""
        self._temperature = np.append(self._temperature, np.array([s.temperature for s in sampling], dtype=np.float32))
        self._top_k = np.append(self._top_k, np.array([s.top_k for s in sampling], dtype=np.int64))
        self._top_p = np.append(self._top_p, [s.top_p for s in sampling])
        self._random += [
            np.random.Generator(np.random.Philox(key=s.seed)) if s.temperature > 0 else None for s in sampling
        ]

    def keep(self, places: np.ndarray) -> None:
        self._temperature, self._top_k, self._top_p = (x[places] for x in (self._temperature, self._top_k, self._top_p))
        self._random = [self._random[place] for place in places.tolist()]

    def sample(self, scores: Tensor, *, banned: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the next token of every request from scores (R, V), and its log-probability.

        `banned` tokens are not chosen; their scores are overwritten.
        """
        sampled = np.flatnonzero(self._temperature > 0)
        if not len(sampled):
            value, _, word = topk(scores, scores.new_zeros(len(scores), 1, dtype=torch.float32), 1, banned=banned)
            return word.squeeze(1), value.squeeze(1)
        sums = scores.float().logsumexp(1)
        if banned is not None:
            scores.index_fill_(1, banned, float("-inf"))
        tokens = scores.argmax(1)
        rows = torch.from_numpy(sampled).to(scores.device)
        tokens[rows] = self._draw(scores[rows], sampled)
        return tokens, scores.gather(1, tokens.unsqueeze(1)).squeeze(1).float() - sums

    def _draw(self, scores: Tensor, rows: np.ndarray) -> Tensor:
        """Invert the cumulative distribution in the order of the vocabulary, independent of the rest of the batch."""
        device, V = scores.device, scores.shape[1]
        top_k = np.where(self._top_k[rows] == 0, V, np.minimum(self._top_k[rows], V))
        temperature, limit, mass = (
            torch.from_numpy(x).to(device).unsqueeze(1) for x in (self._temperature[rows], top_k, self._top_p[rows])
        )
        scores = scores.double() / temperature
        if bool((top_k < V).any() or (self._top_p[rows] < 1.0).any()):
            count = V if bool(((top_k == V) & (self._top_p[rows] < 1.0)).any()) else int(top_k[top_k < V].max())
            best = scores.topk(count).values  # (R, n), most likely first
            last = best.gather(1, (limit - 1).clamp_max(count - 1))  # the lowest score within top_k
            probabilities = torch.softmax(best.masked_fill(best < last, float("-inf")), dim=1)
            before = probabilities.cumsum(1) - probabilities
            kept = (before < mass).sum(1, keepdim=True)  # the tokens before it have less than top_p
            minimum = torch.maximum(
                torch.where(limit < V, last, float("-inf")),
                torch.where(mass < 1.0, best.gather(1, kept - 1), float("-inf")),
            )
            scores = scores.masked_fill(scores < minimum, float("-inf"))
        sums = torch.softmax(scores, dim=1).cumsum(1)
        uniforms = [random.random() for row in rows.tolist() if (random := self._random[row]) is not None]
        target = torch.tensor(uniforms, dtype=torch.float64, device=device).unsqueeze(1) * sums[:, -1:]
        return torch.searchsorted(sums, target, right=True).clamp_max(V - 1).squeeze(1)
