"""Beam search.

Stopping, length penalty and the choice of hypotheses equal those of `transformers`, token for token. A finished
sequence leaves the batch at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clearhead.decode.logits_processor import LogitsProcessor, TokenHistory
from clearhead.decode.state import DecoderState, compact
from clearhead.decode.topk import topk
from clearhead.hub.generation_config import EarlyStopping, GenerationConstraints

_EXCLUDED = np.float32(-1.0e9)  # below any hypothesis, above -inf


@dataclass(frozen=True, kw_only=True)
class BeamConfig:
    """Beam search parameters."""

    size: int = 5
    length_penalty: float = 1.0  # score = log-probability / length ** penalty
    early_stopping: EarlyStopping = False  # True: stop with `size` finished; "never": when none can win
    nbest: int = 1

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"beam size is {self.size}: give at least 1")
        if not 1 <= self.nbest <= self.size:
            raise ValueError(
                f"nbest is {self.nbest} with a beam of {self.size}: give 1 to {self.size}, or a larger beam"
            )
        if not abs(self.length_penalty) < 1e3:
            raise ValueError(f"length_penalty is {self.length_penalty}: give a number near 1")


@dataclass(frozen=True)
class BeamHypothesis:
    """The tokens of a hypothesis, including the end token where there is one."""

    ids: tuple[int, ...]
    score: float
    ended: bool  # with an end token, not at the limit


def search(
    state: DecoderState,
    first: Tensor,
    constraints: GenerationConstraints,
    beam: BeamConfig,
    max_new_tokens: int,
    prompts: Sequence[Sequence[int]],
) -> Iterator[tuple[int, list[BeamHypothesis]]]:
    """Yield the index and the best hypotheses of each sequence as it finishes.

    `first` (B,) is read by the first step: the start token, or the last token of each prompt. `prompts` are all tokens
    read, for constraints that depend on them.
    """
    B, W = len(first), beam.size
    keep = max(2, 1 + len(constraints.eos_token_ids)) * W
    numbers = np.arange(B)  # the sequence in each row
    running = np.full((B, W), _EXCLUDED, dtype=np.float32)
    running[:, 0] = 0.0  # all hypotheses start equal: only the first counts
    written = np.zeros((B, W, min(max_new_tokens, 32)), dtype=np.int64)
    done = FinishedHypotheses(B, W, max_new_tokens)
    ids = first
    processor: LogitsProcessor | None = None
    for step in range(max_new_tokens):
        scores = state.step(ids)  # (B W, V); (B, V) at first
        device, V = scores.device, scores.shape[1]
        if processor is None:
            processor = LogitsProcessor(constraints, V, device)
            if keep > V:
                raise ValueError(f"a beam of {W} with a vocabulary of {V}: choose at most {V // (keep // W)}")
        length, per = step + 1, len(scores) // len(numbers)
        sizes = [len(prompts[i]) for i in numbers.tolist() for _ in range(per)]
        last = np.full(len(scores), length == max_new_tokens)
        base = torch.from_numpy(running).to(device)
        if processor.is_plain(step, sizes, last):
            candidates = topk(scores, base, keep, banned=processor.banned(step))
        else:
            scores = torch.log_softmax(scores.float(), dim=1)
            processor.apply(scores, step, sizes, last, TokenHistory(numbers, prompts, written[:, :per, :step]))
            candidates = topk(scores, base, keep, normal=True)
        values, parents, words = (x.cpu().numpy() for x in candidates)  # (B, keep), the best first

        hits = np.isin(words, constraints.eos_token_ids) | (length == max_new_tokens)
        alive = values + hits * _EXCLUDED
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
            yield int(numbers[i]), done.best(int(i), beam.nbest, constraints)
        places = compact(ready)
        if not len(places):
            return
        numbers, running, written, chosen = numbers[places], running[places], written[places], chosen[places]
        done.keep(places)
        ids = torch.from_numpy(written[:, :, step].reshape(-1)).to(device)
        parents = chosen if per > 1 or W == 1 else np.zeros_like(chosen)
        state.select(places, parents)


class FinishedHypotheses:
    """The best W finished hypotheses of each sequence."""

    def __init__(self, B: int, W: int, max_new_tokens: int) -> None:
        self._max_new = max_new_tokens
        self._scores = np.full((B, W), _EXCLUDED, dtype=np.float32)
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
        beam: BeamConfig,
    ) -> None:
        """Add the candidates (B, K) that just ended, out of the best W."""
        W = beam.size
        new = hits[:, :W]
        rows = np.flatnonzero(new.any(1))
        if not len(rows):
            return
        length, at = step + 1, np.arange(len(rows))[:, None]
        penalty = np.float32(float(length) ** beam.length_penalty)
        scores = values[rows, :W] / penalty + np.where(new[rows], 0.0, _EXCLUDED)
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

    def ready(self, leading: np.ndarray, length: int, beam: BeamConfig) -> np.ndarray:
        """Return which sequences are finished; `leading` (B,) are the best scores of unfinished hypotheses."""
        full = self._real.all(1)
        final_length = self._max_new if beam.early_stopping == "never" and beam.length_penalty > 0.0 else length
        possible = leading / np.float32(float(final_length) ** beam.length_penalty)
        beaten = full & ~(possible > self._scores.min(1))
        return beaten | (full & (beam.early_stopping is True)) | (length == self._max_new)

    def keep(self, places: np.ndarray) -> None:
        self._scores, self._ids = self._scores[places], self._ids[places]
        self._lengths, self._real = self._lengths[places], self._real[places]

    def best(self, sequence: int, count: int, constraints: GenerationConstraints) -> list[BeamHypothesis]:
        result: list[BeamHypothesis] = []
        for rank in range(count):
            ids = self._ids[sequence, rank, : self._lengths[sequence, rank]].tolist()
            if self._real[sequence, rank] or not rank:
                score = float(self._scores[sequence, rank])
                result.append(BeamHypothesis(tuple(ids), score, constraints.ended(ids, self._max_new)))
        return result
