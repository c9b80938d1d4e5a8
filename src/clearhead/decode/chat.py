"""Chat: generate the next turn of a dialogue, token by token.

A decoder reads the turns in order, each followed by the end token; an encoder-decoder reads them as its source. Where
they do not fit, the oldest turns are dropped.
"""

from collections.abc import Iterator, Sequence

from clearhead.decode.detokenizer import StreamDetokenizer
from clearhead.decode.generate import generate_tokens
from clearhead.decode.generator import TextGenerator
from clearhead.decode.results import StreamChunk
from clearhead.decode.sampler import SamplingParams
from clearhead.text import Tokenizer

ROOM = 64  # tokens reserved for the reply by default


def chat(
    generator: TextGenerator, turns: Sequence[str], params: SamplingParams, *, max_new_tokens: int | None = None
) -> tuple[int, Iterator[StreamChunk]]:
    """Return the number of dropped turns, and an iterator over the chunks of the next turn."""
    if not turns or not turns[-1].strip():
        raise ValueError("the last turn is empty: give at least one turn with text")
    wanted = max_new_tokens or min(ROOM, max(1, (generator.max_positions or 4 * ROOM) // 4))
    limit = generator.max_source_len
    if not generator.translates:
        limit = None if generator.max_positions is None else generator.max_positions - wanted + 1
    dropped, row = fit_history(generator, turns, limit)
    budget = generator.token_budget(1 if generator.translates else len(row), max_new_tokens, wanted)
    text = StreamDetokenizer(generator.tokenizer, () if generator.translates else row)
    steps = generate_tokens(generator, [row], [params], [min(budget, wanted)], [0])
    return dropped, (StreamChunk(0, text.add(token, last=done), token, done) for _, token, _, done in steps)


def fit_history(generator: TextGenerator, turns: Sequence[str], limit: int | None) -> tuple[int, list[int]]:
    """Return the number of dropped turns and the tokens of the others; a last turn that is too long keeps its end."""
    parts = turn_ids(generator.tokenizer, turns)
    first = len(parts) - 1
    size = len(parts[-1])
    while first > 0 and (limit is None or size + len(parts[first - 1]) <= limit):
        first -= 1
        size += len(parts[first])
    row = [id for part in parts[first:] for id in part]
    return first, row if limit is None else row[-limit:]


def turn_ids(tokenizer: Tokenizer, turns: Sequence[str]) -> list[list[int]]:
    """Return the tokens of each turn, followed by the end token."""
    eos = tokenizer.eos_id
    if eos is None:
        raise ValueError("this tokenizer has no end token, which separates the turns of a dialogue: train a new one")
    tokens = tokenizer(list(turns), special=False, offsets=False)
    return [[*part.tolist(), eos] for part in tokens.layout.split(tokens.ids)]
