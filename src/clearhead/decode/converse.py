"""Converse: the turns of a dialogue in, the next one out, piece by piece.

A decoder reads the turns one after another, each with the end mark behind it, and an encoder-decoder reads them as its
source. Where they do not fit, the oldest are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clearhead.decode.generate import written
from clearhead.decode.pick import Sampling
from clearhead.decode.pieces import Pieces
from clearhead.decode.results import Piece
from clearhead.decode.writer import Writer
from clearhead.text import Tokenizer

ROOM = 64  # tokens kept for an answer, where nobody says


def reply(
    writer: Writer, turns: Sequence[str], draw: Sampling, *, max_new: int | None = None
) -> tuple[int, Iterator[Piece]]:
    """How many of the oldest turns were forgotten, and the next turn as it is written."""
    if not turns or not turns[-1].strip():
        raise ValueError("nothing was said: give at least one turn")
    wanted = max_new or min(ROOM, max(1, (writer.limit or 4 * ROOM) // 4))
    limit = writer.source_limit if writer.translates else None if writer.limit is None else writer.limit - wanted + 1
    forgotten, row = remembered(writer, turns, limit)
    most = writer.room(1 if writer.translates else len(row), None if max_new is None else max_new, wanted)
    text = Pieces(writer.tokenizer, () if writer.translates else row)
    steps = written(writer, [row], [draw], [min(most, wanted)], [0])
    return forgotten, (Piece(0, text.add(token, last=done), token, done) for _, token, _, done in steps)


def remembered(writer: Writer, turns: Sequence[str], limit: int | None) -> tuple[int, list[int]]:
    """How many turns are left out, and the tokens of the others; of a last turn that is too long, its end."""
    parts = turn_ids(writer.tokenizer, turns)
    first = len(parts) - 1
    size = len(parts[-1])
    while first > 0 and (limit is None or size + len(parts[first - 1]) <= limit):
        first -= 1
        size += len(parts[first])
    row = [id for part in parts[first:] for id in part]
    return first, row if limit is None else row[-limit:]


def turn_ids(tokenizer: Tokenizer, turns: Sequence[str]) -> list[list[int]]:
    """Each turn in tokens, with the end mark behind it."""
    mark = tokenizer.eos_id
    if mark is None:
        raise ValueError("this tokenizer has no end mark, which parts the turns of a dialogue")
    found = tokenizer(list(turns), special=False, offsets=False)
    return [[*part.tolist(), mark] for part in found.layout.split(found.ids)]
