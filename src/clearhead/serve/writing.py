"""Writing: from what a client asks of a language model to what the engine writes, the same for every route."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.decode import samplings
from clearhead.decode.converse import ROOM, remembered
from clearhead.decode.generate import FALLBACK, prompt_rows
from clearhead.serve.faults import wrong
from clearhead.serve.growing import Asked, Said
from clearhead.serve.shelf import Shelved


@dataclass(frozen=True, kw_only=True)
class How:
    """How tokens are chosen, and when to stop."""

    max_new: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()


def prompted(model: Shelved, prompt: str, how: How) -> Asked:
    """What goes on from a prompt."""
    writer = model.app.writer
    try:
        (row,) = prompt_rows(writer, [prompt])
        return _asked(model, row, how, writer.room(len(row), how.max_new, FALLBACK))
    except ValueError as error:
        raise wrong(str(error), "prompt") from None


def replied(model: Shelved, turns: Sequence[str], how: How) -> tuple[int, Asked]:
    """What answers the turns of a dialogue, and how many of the oldest do not fit."""
    writer = model.app.writer
    try:
        wanted = how.max_new or min(ROOM, max(1, (writer.limit or 4 * ROOM) // 4))
        limit = writer.source_limit
        if not writer.translates:
            limit = None if writer.limit is None else writer.limit - wanted + 1
            if limit is not None and limit < 1:
                raise ValueError(f"{wanted} new tokens do not fit: the model's positions end at {writer.limit}")
        forgotten, row = remembered(writer, turns, limit)
        most = writer.room(1 if writer.translates else len(row), how.max_new, wanted)
        return forgotten, _asked(model, row, how, min(most, wanted))
    except ValueError as error:
        raise wrong(str(error), "turns") from None


def _asked(model: Shelved, row: list[int], how: How, max_new: int) -> Asked:
    seed = secrets.randbits(32) if how.seed is None else how.seed
    (draw,) = samplings(model.app.writer, 1, temperature=how.temperature, top_k=how.top_k, top_p=how.top_p, seed=seed)
    return Asked(row, draw, max_new, how.stop)


@dataclass(frozen=True)
class Whole:
    """A text that is written to its end."""

    text: str
    reason: str
    tokens: int

    @staticmethod
    def of(pieces: Sequence[Said]) -> Whole:
        """All its pieces."""
        return Whole("".join(said.text for said in pieces), pieces[-1].reason or "length", len(pieces))
