"""Logits processing: applies a model's generation constraints to next-token scores. Forbidden tokens score -inf."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from clearhead.hub.generation_config import GenerationConstraints

NEVER = float("-inf")
Steps = int | np.ndarray


class TokenHistory:
    """The tokens of each row so far: prompt, then generated tokens."""

    def __init__(self, numbers: np.ndarray, prompts: Sequence[Sequence[int]], written: np.ndarray) -> None:
        self._numbers, self._prompts, self._written = numbers, prompts, written  # (B, rows, step)

    def __call__(self) -> list[np.ndarray]:
        return [
            np.concatenate([np.array(self._prompts[number], dtype=np.int64), row])
            for number, rows in zip(self._numbers, self._written, strict=True)
            for row in rows
        ]


class LogitsProcessor:
    """Applies the constraints of one batch to scores (R, V), in place, at each step.

    A step is the number of tokens a row has generated: one number for all rows, or one per row.
    """

    def __init__(self, constraints: GenerationConstraints, vocab_size: int, device: torch.device) -> None:
        self._constraints = constraints
        named = (
            *constraints.eos_token_ids,
            *(i for run in constraints.bad_words_ids for i in run),
            *constraints.forced_eos_token_ids,
            *constraints.begin_suppress_tokens,
        )
        if named and max(named) >= vocab_size:
            raise ValueError(
                f"generation_config.json names token {max(named)}, but the model's vocabulary has {vocab_size} tokens"
            )
        self._singles = _columns((run[0] for run in constraints.bad_words_ids if len(run) == 1), device)
        self._ends = _columns(constraints.eos_token_ids, device)
        self._first = _columns(constraints.begin_suppress_tokens, device)
        self._runs = [run for run in constraints.bad_words_ids if len(run) > 1]
        self._banned: dict[tuple[bool, bool], Tensor | None] = {}

    def is_plain(self, step: Steps, prompt_sizes: Sequence[int], last: np.ndarray) -> bool:
        """Returns whether this step only bans tokens, the same in every row; `banned` then returns them."""
        constraints, steps = self._constraints, np.atleast_1d(step)
        forces = (constraints.forced_bos_token_id is not None and bool((steps == 0).any())) or (
            bool(constraints.forced_eos_token_ids) and bool(last.any())
        )
        if constraints.needs_history or forces:
            return False
        if constraints.min_len and bool((np.array(prompt_sizes) + steps < constraints.min_len).any()):
            return False
        return bool((steps == steps[0]).all()) or len({self._phase(number) for number in steps.tolist()}) == 1

    def _phase(self, step: int) -> tuple[bool, bool]:
        """Returns whether an end token is too early, and whether this is the first token that the model chooses."""
        first = 0 if self._constraints.forced_bos_token_id is None else 1
        return (
            self._ends is not None and step < self._constraints.min_new_tokens,
            self._first is not None and step == first,
        )

    def banned(self, step: Steps) -> Tensor | None:
        """Returns the token ids that no row may generate at this step; valid if `is_plain`."""
        early, first = self._phase(int(np.atleast_1d(step)[0]))
        if (early, first) not in self._banned:
            parts = (self._singles, self._ends if early else None, self._first if first else None)
            named = [part for part in parts if part is not None]
            self._banned[early, first] = torch.cat(named).unique() if named else None
        return self._banned[early, first]

    def apply(
        self,
        scores: Tensor,
        step: Steps,
        prompt_sizes: Sequence[int],
        last: np.ndarray,
        history: Callable[[], list[np.ndarray]],
    ) -> None:
        """Applies the constraints of this step; `last[i]` says whether row i generates its last token.

        `history` returns the tokens of each row; it is called only if a constraint needs it.
        """
        constraints, steps = self._constraints, np.broadcast_to(step, len(prompt_sizes))
        if constraints.needs_history:
            for row, tokens in enumerate(history()):
                self._apply_history(scores[row], tokens)
        if self._singles is not None:
            scores.index_fill_(1, self._singles, NEVER)
        if self._ends is not None and max(constraints.min_len, constraints.min_new_tokens) > 0:
            early = (np.array(prompt_sizes) + steps < constraints.min_len) | (steps < constraints.min_new_tokens)
            _fill(scores, early, self._ends, NEVER)
        if constraints.forced_bos_token_id is not None:
            begins = steps == 0
            _fill(scores, begins, None, NEVER)
            _fill(scores, begins, _columns([constraints.forced_bos_token_id], scores.device), 0.0)
        if constraints.forced_eos_token_ids:
            _fill(scores, last, None, NEVER)
            _fill(scores, last, _columns(constraints.forced_eos_token_ids, scores.device), 0.0)
        if self._first is not None:
            _fill(scores, steps == (0 if constraints.forced_bos_token_id is None else 1), self._first, NEVER)

    def _apply_history(self, scores: Tensor, tokens: np.ndarray) -> None:
        """Applies the constraints that depend on the tokens of one row to its scores (V,)."""
        if self._constraints.repetition_penalty != 1.0:
            seen = torch.from_numpy(np.unique(tokens)).to(scores.device)
            old = scores[seen]
            scores[seen] = torch.where(
                old < 0, old * self._constraints.repetition_penalty, old / self._constraints.repetition_penalty
            )
        size = self._constraints.no_repeat_ngram_size
        if size and len(tokens) + 1 >= size:
            runs = np.lib.stride_tricks.sliding_window_view(tokens, size) if len(tokens) >= size else tokens[:0, None]
            tail = tokens[len(tokens) - size + 1 :]
            again = runs[(runs[:, :-1] == tail).all(1), -1] if len(runs) else tokens[:0]
            scores[torch.from_numpy(np.ascontiguousarray(again)).to(scores.device)] = NEVER
        for run in self._runs:
            if len(tokens) >= len(run) and tuple(tokens[len(tokens) - len(run) + 1 :]) == run[:-1]:
                scores[run[-1]] = NEVER


def _fill(scores: Tensor, rows: np.ndarray, columns: Tensor | None, value: float) -> None:
    """Sets these columns (None: all) of the selected rows to `value`."""
    if not rows.any():
        return
    where = torch.from_numpy(np.flatnonzero(rows)).to(scores.device)
    if columns is None:
        scores[where] = value
    else:
        scores[where.unsqueeze(1), columns] = value


def _columns(ids: Iterable[int], device: torch.device) -> Tensor | None:
    listed = sorted(set(ids))
    return torch.tensor(listed, device=device) if listed else None
