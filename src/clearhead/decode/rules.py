"""Rules: what a model's own files say about the tokens it writes, and how they are kept.

The names are those of `generation_config.json`; a folder without one has them in `config.json`. What a rule forbids has
a score of -inf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

NEVER = float("-inf")
EarlyStopping = bool | Literal["never"]
Steps = int | np.ndarray

# What other tools do with these is not done here; each with the value that means nothing.
_UNKNOWN: dict[str, Any] = {
    "diversity_penalty": 0.0, "num_beam_groups": 1, "penalty_alpha": None, "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0, "guidance_scale": None, "sequence_bias": None, "typical_p": 1.0, "min_p": None,
    "top_h": None, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0, "exponential_decay_length_penalty": None,
    "watermarking_config": None, "stop_strings": None, "constraints": None, "force_words_ids": None,
    "renormalize_logits": False,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How texts begin and end, and what may stand in between."""

    start: int | None = None  # what a decoder with an encoder reads first
    ends: tuple[int, ...] = ()
    forbidden: tuple[tuple[int, ...], ...] = ()  # tokens, and runs of tokens, that are never written
    forbidden_first: tuple[int, ...] = ()  # only as the first token
    forced_first: int | None = None
    forced_last: tuple[int, ...] = ()  # what a text that reaches its limit ends with
    min_len: int = 0  # tokens before an end, the prompt counted
    min_new: int = 0  # tokens before an end, the prompt not counted
    no_repeat: int = 0  # runs of so many tokens are written once
    repetition: float = 1.0  # what the score of a token that was there already is divided by (Keskar et al. 2019)

    def ended(self, ids: Sequence[int], limit: int) -> bool:
        """Did a text end by itself? One that was made to end at its limit did not."""
        forced = bool(self.forced_last) and len(ids) >= limit
        return len(ids) > 0 and ids[-1] in self.ends and not forced

    @property
    def needs_history(self) -> bool:
        """Does what may come next depend on what was written?"""
        return self.repetition != 1.0 or self.no_repeat > 0 or any(len(run) > 1 for run in self.forbidden)


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """How a folder wants its model to be run, where the caller does not say."""

    rules: Rules
    beam: int = 1
    length_penalty: float = 1.0
    early_stopping: EarlyStopping = False
    max_len: int | None = None  # tokens in all: the start token, or the prompt, counted
    max_new: int | None = None
    temperature: float = 0.0  # 0: always the likeliest token
    top_k: int = 0
    top_p: float = 1.0


def read_defaults(generation: Mapping[str, Any] | None, config: Mapping[str, Any]) -> Defaults:
    """From `generation_config.json`, where there is one, and `config.json`."""
    told = config if generation is None else generation
    for name, neutral in _UNKNOWN.items():
        if told.get(name) not in (None, neutral):
            raise ValueError(f"generation_config.json sets {name} to {told[name]!r}, which is not done here: remove it")

    def ids(name: str) -> tuple[int, ...]:
        value = told.get(name)
        return _ids(config.get(name) if value is None and name in _SPECIAL else value, name)

    def one(name: str) -> int | None:
        return next(iter(ids(name)), None)

    ends, start = ids("eos_token_id"), one("decoder_start_token_id")
    bad = [_ids(run, "bad_words_ids") for run in told.get("bad_words_ids") or []]
    forbidden = [run for run in bad if run and not (len(run) == 1 and run[0] in ends)]
    return Defaults(
        rules=Rules(
            start=one("bos_token_id") if start is None else start,
            ends=ends,
            forbidden=(*forbidden, *((id,) for id in ids("suppress_tokens"))),
            forbidden_first=ids("begin_suppress_tokens"),
            forced_first=one("forced_bos_token_id"),
            forced_last=ids("forced_eos_token_id"),
            min_len=_number(told, "min_length", 0, whole=True),
            min_new=_number(told, "min_new_tokens", 0, whole=True),
            no_repeat=_number(told, "no_repeat_ngram_size", 0, whole=True),
            repetition=_number(told, "repetition_penalty", 1.0),
        ),
        beam=_number(told, "num_beams", 1, whole=True),
        length_penalty=_number(told, "length_penalty", 1.0),
        early_stopping=_early(told.get("early_stopping")),
        max_len=_number(told, "max_length", None, whole=True),
        max_new=_number(told, "max_new_tokens", None, whole=True),
        **_sampling(told),
    )


_SPECIAL = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")


def _sampling(told: Mapping[str, Any]) -> dict[str, Any]:
    if told.get("do_sample") is not True:
        return {}
    return {
        "temperature": _number(told, "temperature", 1.0),
        "top_k": _number(told, "top_k", 50, whole=True),
        "top_p": _number(told, "top_p", 1.0),
    }


def _early(value: object) -> EarlyStopping:
    if value is None:
        return False
    if isinstance(value, bool):
        return value
    if value == "never":
        return "never"
    raise ValueError(f"early_stopping is {value!r}: it is true, false or 'never'")


def _ids(value: Any, name: str) -> tuple[int, ...]:
    listed: list[Any] = [] if value is None else value if isinstance(value, list) else [value]
    for id in listed:
        if not isinstance(id, int) or isinstance(id, bool) or not 0 <= id < 2**31:
            raise ValueError(f"generation_config.json: {name} holds {id!r}, which is no token")
    return tuple(listed)


def _number(told: Mapping[str, Any], name: str, default: Any, *, whole: bool = False) -> Any:
    value = told.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        raise ValueError(f"generation_config.json sets {name} to {value!r}: a {'whole ' if whole else ''}number is due")
    if whole and value < 0:
        raise ValueError(f"generation_config.json sets {name} to {value}: 0 or more is due")
    return value


class Past:
    """What each row has read and written."""

    def __init__(self, numbers: np.ndarray, prompts: Sequence[Sequence[int]], written: np.ndarray) -> None:
        self._numbers, self._prompts, self._written = numbers, prompts, written  # (B, rows, step)

    def __call__(self) -> list[np.ndarray]:
        return [
            np.concatenate([np.array(self._prompts[number], dtype=np.int64), row])
            for number, rows in zip(self._numbers, self._written, strict=True)
            for row in rows
        ]


class Keeper:
    """The rules of one batch, applied step by step to scores (R, V) in place.

    A step is how many tokens a row has written: one number for all rows, or one for each.
    """

    def __init__(self, rules: Rules, vocab_size: int, device: torch.device) -> None:
        self._rules = rules
        named = (*rules.ends, *(i for run in rules.forbidden for i in run), *rules.forced_last, *rules.forbidden_first)
        if named and max(named) >= vocab_size:
            raise ValueError(f"a rule speaks of token {max(named)}, but the model knows {vocab_size} only")
        self._singles = _columns((run[0] for run in rules.forbidden if len(run) == 1), device)
        self._ends = _columns(rules.ends, device)
        self._first = _columns(rules.forbidden_first, device)
        self._runs = [run for run in rules.forbidden if len(run) > 1]
        self._banned: dict[tuple[bool, bool], Tensor | None] = {}

    def is_plain(self, step: Steps, prompt_sizes: Sequence[int], last: np.ndarray) -> bool:
        """Do the rules of this step only ban some words, the same in every row? `banned` then says which."""
        rules, steps = self._rules, np.atleast_1d(step)
        forces = (rules.forced_first is not None and bool((steps == 0).any())) or (
            bool(rules.forced_last) and bool(last.any())
        )
        if rules.needs_history or forces:
            return False
        if rules.min_len and bool((np.array(prompt_sizes) + steps < rules.min_len).any()):
            return False
        return len({self._when(one) for one in steps.tolist()}) == 1

    def _when(self, step: int) -> tuple[bool, bool]:
        """Is it too early to end, and is it the first token that the model chooses?"""
        first = 0 if self._rules.forced_first is None else 1
        return self._ends is not None and step < self._rules.min_new, self._first is not None and step == first

    def banned(self, step: Steps) -> Tensor | None:
        """The words that no row may write at this step, where it is a plain one."""
        early, first = self._when(int(np.atleast_1d(step)[0]))
        if (early, first) not in self._banned:
            parts = (self._singles, self._ends if early else None, self._first if first else None)
            named = [part for part in parts if part is not None]
            self._banned[early, first] = torch.cat(named).unique() if named else None
        return self._banned[early, first]

    def keep(
        self,
        scores: Tensor,
        step: Steps,
        prompt_sizes: Sequence[int],
        last: np.ndarray,
        history: Callable[[], list[np.ndarray]],
    ) -> None:
        """Forbid what may not come at this step; of row i, `prompt_sizes[i]` and `last[i]`: is it the last token?

        `history` gives what each row has read and written, and is asked only where a rule needs it.
        """
        rules, steps = self._rules, np.broadcast_to(step, len(prompt_sizes))
        if rules.needs_history:
            for row, tokens in enumerate(history()):
                self._look_back(scores[row], tokens)
        if self._singles is not None:
            scores.index_fill_(1, self._singles, NEVER)
        if self._ends is not None and max(rules.min_len, rules.min_new) > 0:
            early = (np.array(prompt_sizes) + steps < rules.min_len) | (steps < rules.min_new)
            _fill(scores, early, self._ends, NEVER)
        if rules.forced_first is not None:
            begins = steps == 0
            _fill(scores, begins, None, NEVER)
            _fill(scores, begins, _columns([rules.forced_first], scores.device), 0.0)
        if rules.forced_last:
            _fill(scores, last, None, NEVER)
            _fill(scores, last, _columns(rules.forced_last, scores.device), 0.0)
        if self._first is not None:
            _fill(scores, steps == (0 if rules.forced_first is None else 1), self._first, NEVER)

    def _look_back(self, scores: Tensor, tokens: np.ndarray) -> None:
        """The rules that depend on what one row has written, on its scores (V,)."""
        if self._rules.repetition != 1.0:
            seen = torch.from_numpy(np.unique(tokens)).to(scores.device)
            old = scores[seen]
            scores[seen] = torch.where(old < 0, old * self._rules.repetition, old / self._rules.repetition)
        size = self._rules.no_repeat
        if size and len(tokens) + 1 >= size:
            runs = np.lib.stride_tricks.sliding_window_view(tokens, size) if len(tokens) >= size else tokens[:0, None]
            tail = tokens[len(tokens) - size + 1 :]
            again = runs[(runs[:, :-1] == tail).all(1), -1] if len(runs) else tokens[:0]
            scores[torch.from_numpy(np.ascontiguousarray(again)).to(scores.device)] = NEVER
        for run in self._runs:
            if len(tokens) >= len(run) and tuple(tokens[len(tokens) - len(run) + 1 :]) == run[:-1]:
                scores[run[-1]] = NEVER


def _fill(scores: Tensor, rows: np.ndarray, columns: Tensor | None, value: float) -> None:
    """Set these columns, or all, of the rows that are true."""
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


def generation_config(
    family: str,
    *,
    eos: int,
    pad: int | None = None,
    bos: int | None = None,
    max_len: int = 512,
    beam: int | None = None,
    length_penalty: float | None = None,
) -> dict[str, Any]:
    """What `generation_config.json` of a new model holds, so that `transformers` writes what clearhead writes.

    `family` is "marian" (or another encoder-decoder that starts from its padding) or "gpt2" (any language model).
    """
    if family in ("marian", "t5"):
        if pad is None:
            raise ValueError(f"a {family} model starts from its padding token: give `pad`")
        content = {
            "bad_words_ids": [[pad]],
            "bos_token_id": 0,
            "decoder_start_token_id": pad,
            "eos_token_id": eos,
            "forced_eos_token_id": eos,
            "max_length": max_len,
            "num_beams": beam or 4,
            "pad_token_id": pad,
        }
        if family == "t5":
            del content["bos_token_id"], content["forced_eos_token_id"]
    elif family in ("gpt2", "llama"):
        content = {"bos_token_id": eos if bos is None else bos, "eos_token_id": eos, "pad_token_id": pad}
        content = {name: id for name, id in content.items() if id is not None}
        if beam is not None:
            content["num_beams"] = beam
    else:
        raise ValueError(f"there is no generation config for {family!r}: choose marian, t5, gpt2 or llama")
    return content if length_penalty is None else {**content, "length_penalty": length_penalty}
