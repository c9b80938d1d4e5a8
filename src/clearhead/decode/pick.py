"""Pick: the next token of every row, the likeliest or one drawn by chance.

What is drawn depends on a request's own seed and on how many tokens it has written, never on who else is in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clearhead.decode.best import best


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How one request draws its tokens: from all words, from the `top_k` likeliest, from those that make up `top_p`."""

    temperature: float = 0.0  # 0: always the likeliest; below 1 bolder in what is likely, above 1 more even
    top_k: int = 0  # 0: all
    top_p: float = 1.0  # Holtzman et al. 2020, section 3.1
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < 1e6:
            raise ValueError(f"a temperature of {self.temperature}: give 0 (the likeliest token), or a number above")
        if self.top_k < 0:
            raise ValueError(f"the {self.top_k} likeliest tokens: give top_k of 1 or more, or 0 for all")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"tokens that make up {self.top_p} of the probability: give top_p above 0, at most 1")
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"seed {self.seed}: give a whole number from 0 to 2**64 - 1")


class Picker:
    """The choices of a batch of requests, a row of scores for each; requests join behind the last, and leave."""

    def __init__(self, samplings: Sequence[Sampling] = ()) -> None:
        self._temperature = np.zeros(0, dtype=np.float32)
        self._top_k = np.zeros(0, dtype=np.int64)
        self._top_p = np.zeros(0)
        self._chance: list[np.random.Generator | None] = []  # a number in [0, 1) for each token
        self.join(samplings)

    def join(self, samplings: Sequence[Sampling]) -> None:
        """More requests, before their first token."""
        self._temperature = np.append(self._temperature, np.array([s.temperature for s in samplings], dtype=np.float32))
        self._top_k = np.append(self._top_k, np.array([s.top_k for s in samplings], dtype=np.int64))
        self._top_p = np.append(self._top_p, [s.top_p for s in samplings])
        self._chance += [
            np.random.Generator(np.random.Philox(key=s.seed)) if s.temperature > 0 else None for s in samplings
        ]

    def keep(self, places: np.ndarray) -> None:
        """Only the requests at these places go on, in this order."""
        self._temperature, self._top_k, self._top_p = (x[places] for x in (self._temperature, self._top_k, self._top_p))
        self._chance = [self._chance[place] for place in places.tolist()]

    def pick(self, scores: Tensor, *, banned: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The next token of every request, by the scores (R, V), with its log-probability.

        `banned` words are not chosen; their scores are overwritten.
        """
        drawn = np.flatnonzero(self._temperature > 0)
        if not len(drawn):
            value, _, word = best(scores, scores.new_zeros(len(scores), 1, dtype=torch.float32), 1, banned=banned)
            return word.squeeze(1), value.squeeze(1)
        sums = scores.float().logsumexp(1)
        if banned is not None:
            scores.index_fill_(1, banned, float("-inf"))
        tokens = scores.argmax(1)
        where = torch.from_numpy(drawn).to(scores.device)
        tokens[where] = self._draw(scores[where], drawn)
        return tokens, scores.gather(1, tokens.unsqueeze(1)).squeeze(1).float() - sums

    def _draw(self, scores: Tensor, rows: np.ndarray) -> Tensor:
        """By the sum of chances in the order of the vocabulary, whatever else the batch asks for."""
        device, V = scores.device, scores.shape[1]
        top_k = np.where(self._top_k[rows] == 0, V, np.minimum(self._top_k[rows], V))
        warmth, limit, mass = (
            torch.from_numpy(x).to(device).unsqueeze(1) for x in (self._temperature[rows], top_k, self._top_p[rows])
        )
        scores = scores.double() / warmth
        if bool((top_k < V).any() or (self._top_p[rows] < 1.0).any()):
            most = V if bool(((top_k == V) & (self._top_p[rows] < 1.0)).any()) else int(top_k[top_k < V].max())
            best = scores.topk(most).values  # (R, n), the likeliest first
            last = best.gather(1, (limit - 1).clamp_max(most - 1))  # the least that top_k lets in
            chances = torch.softmax(best.masked_fill(best < last, float("-inf")), dim=1)
            before = chances.cumsum(1) - chances
            kept = (before < mass).sum(1, keepdim=True)  # those before it do not make up top_p yet
            least = torch.maximum(
                torch.where(limit < V, last, float("-inf")),
                torch.where(mass < 1.0, best.gather(1, kept - 1), float("-inf")),
            )
            scores = scores.masked_fill(scores < least, float("-inf"))
        sums = torch.softmax(scores, dim=1).cumsum(1)
        chances = [chance.random() for row in rows.tolist() if (chance := self._chance[row]) is not None]
        aim = torch.tensor(chances, dtype=torch.float64, device=device).unsqueeze(1) * sums[:, -1:]
        return torch.searchsorted(sums, aim, right=True).clamp_max(V - 1).squeeze(1)
