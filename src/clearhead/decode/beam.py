"""Beam search: keep the best few hypotheses of every sequence, and stop where none can become better.

What counts as done, how lengths are weighed and which hypotheses are kept is as in `transformers`, to the token. A
sequence that is done leaves the batch at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clearhead.decode.best import best
from clearhead.decode.rules import EarlyStopping, Keeper, Past, Rules
from clearhead.decode.state import State, stay

_OUT = np.float32(-1.0e9)  # below any hypothesis, above what is forbidden


@dataclass(frozen=True, kw_only=True)
class Beam:
    """How to search."""

    size: int = 5
    length_penalty: float = 1.0  # a score is a log-probability / length ** penalty
    early_stopping: EarlyStopping = False  # True: with as many finished as the beam holds; "never": when none can win
    nbest: int = 1

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"a beam of {self.size}: give at least 1")
        if not 1 <= self.nbest <= self.size:
            raise ValueError(f"{self.nbest} best of a beam of {self.size}: ask for 1 to {self.size}, or widen the beam")
        if not abs(self.length_penalty) < 1e3:
            raise ValueError(f"a length penalty of {self.length_penalty}: give a number near 1")


@dataclass(frozen=True)
class Found:
    """A hypothesis: its tokens, the end included where there is one."""

    ids: tuple[int, ...]
    score: float
    ended: bool  # by itself, not by the limit


def search(
    state: State, first: Tensor, rules: Rules, beam: Beam, max_new: int, prompts: Sequence[Sequence[int]]
) -> Iterator[tuple[int, list[Found]]]:
    """The best hypotheses of every sequence, with its number, as sequences are done.

    `first` (B,) is what the first step reads: the start token, or the last of each prompt; `prompts` are what was read
    in all, for rules that look back.
    """
    B, W = len(first), beam.size
    keep = max(2, 1 + len(rules.ends)) * W
    numbers = np.arange(B)  # which sequence stands where
    running = np.full((B, W), _OUT, dtype=np.float32)
    running[:, 0] = 0.0  # all hypotheses begin alike: only the first counts
    written = np.zeros((B, W, min(max_new, 32)), dtype=np.int64)
    done = Finished(B, W, max_new)
    ids = first
    keeper: Keeper | None = None
    for step in range(max_new):
        scores = state.step(ids)  # (B W, V); (B, V) at first
        device, V = scores.device, scores.shape[1]
        if keeper is None:
            keeper = Keeper(rules, V, device)
            if keep > V:
                raise ValueError(f"a beam of {W} over {V} words: choose at most {V // (keep // W)}")
        length, per = step + 1, len(scores) // len(numbers)
        sizes = [len(prompts[i]) for i in numbers.tolist() for _ in range(per)]
        last = np.full(len(scores), length == max_new)
        base = torch.from_numpy(running).to(device)
        if keeper.is_plain(step, sizes, last):
            found = best(scores, base, keep, banned=keeper.banned(step))
        else:
            scores = torch.log_softmax(scores.float(), dim=1)
            keeper.keep(scores, step, sizes, last, Past(numbers, prompts, written[:, :per, :step]))
            found = best(scores, base, keep, normal=True)
        values, parents, words = (x.cpu().numpy() for x in found)  # (B, keep), the best first

        hits = np.isin(words, rules.ends) | (length == max_new)
        alive = values + hits * _OUT
        order = np.argsort(-alive, axis=1, kind="stable")[:, :W]
        at = np.arange(len(numbers))[:, None]
        done.add(written, step, values, parents, words, hits, beam)
        running, chosen = alive[at, order], parents[at, order]  # (B, W)
        if step + 1 >= written.shape[2]:
            written = np.concatenate([written, np.zeros_like(written)], axis=2)
        written = written[at, chosen]
        written[:, :, step] = words[at, order]

        ready = done.ready(running[:, 0], length, beam)
        for i in np.flatnonzero(ready):
            yield int(numbers[i]), done.best(int(i), beam.nbest, rules)
        places = stay(ready)
        if not len(places):
            return
        numbers, running, written, chosen = numbers[places], running[places], written[places], chosen[places]
        done.keep(places)
        ids = torch.from_numpy(written[:, :, step].reshape(-1)).to(device)
        parents = chosen if per > 1 or W == 1 else np.zeros_like(chosen)
        state.select(places, parents)


class Finished:
    """The finished hypotheses of each sequence, the best W of them."""

    def __init__(self, B: int, W: int, max_new: int) -> None:
        self._max_new = max_new
        self._scores = np.full((B, W), _OUT, dtype=np.float32)
        self._ids = np.zeros((B, W, 0), dtype=np.int64)
        self._lengths = np.zeros((B, W), dtype=np.int64)
        self._real = np.zeros((B, W), dtype=bool)

    def add(
        self,
        written: np.ndarray,
        step: int,
        values: np.ndarray,
        parents: np.ndarray,
        words: np.ndarray,
        hits: np.ndarray,
        beam: Beam,
    ) -> None:
        """Take in the candidates (B, K) that just ended, of those that are among the best W."""
        W = beam.size
        new = hits[:, :W]
        rows = np.flatnonzero(new.any(1))
        if not len(rows):
            return
        length, at = step + 1, np.arange(len(rows))[:, None]
        scores = values[rows, :W] / np.float32(float(length) ** beam.length_penalty) + np.where(new[rows], 0.0, _OUT)
        merged = np.concatenate([self._scores[rows], scores.astype(np.float32)], axis=1)  # (n, 2 W)
        top = np.argsort(-merged, axis=1, kind="stable")[:, :W]
        if self._ids.shape[2] < length:
            more = np.zeros((*self._ids.shape[:2], min(max(2 * length, 32), self._max_new)), dtype=np.int64)
            more[:, :, : self._ids.shape[2]] = self._ids
            self._ids = more
        ids = np.zeros((len(rows), W, self._ids.shape[2]), dtype=np.int64)
        ids[:, :, :step] = written[rows[:, None], parents[rows, :W], :step]
        ids[:, :, step] = words[rows, :W]
        self._ids[rows] = np.concatenate([self._ids[rows], ids], axis=1)[at, top]
        lengths = np.concatenate([self._lengths[rows], np.full((len(rows), W), length)], axis=1)
        self._lengths[rows] = lengths[at, top]
        self._real[rows] = np.concatenate([self._real[rows], new[rows]], axis=1)[at, top]
        self._scores[rows] = merged[at, top]

    def ready(self, leading: np.ndarray, length: int, beam: Beam) -> np.ndarray:
        """Which sequences are done, where `leading` (B,) are the best scores of those still running."""
        full = self._real.all(1)
        hoped = self._max_new if beam.early_stopping == "never" and beam.length_penalty > 0.0 else length
        possible = leading / np.float32(float(hoped) ** beam.length_penalty)
        beaten = full & ~(possible > self._scores.min(1))
        return beaten | (full & (beam.early_stopping is True)) | (length == self._max_new)

    def keep(self, places: np.ndarray) -> None:
        """Only the sequences at these places go on."""
        self._scores, self._ids = self._scores[places], self._ids[places]
        self._lengths, self._real = self._lengths[places], self._real[places]

    def best(self, sequence: int, count: int, rules: Rules) -> list[Found]:
        """The best hypotheses of one sequence."""
        result: list[Found] = []
        for rank in range(count):
            ids = self._ids[sequence, rank, : self._lengths[sequence, rank]].tolist()
            if self._real[sequence, rank] or not rank:
                score = float(self._scores[sequence, rank])
                result.append(Found(tuple(ids), score, rules.ended(ids, self._max_new)))
        return result
