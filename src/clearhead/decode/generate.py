"""Generate: prompts in, what a language model writes after them out, whole or piece by piece."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from clearhead.attention.look import unseen
from clearhead.decode.batches import BUDGET, batches
from clearhead.decode.beam import Beam
from clearhead.decode.pick import Sampling
from clearhead.decode.pieces import Pieces
from clearhead.decode.results import Generation, Piece
from clearhead.decode.roll import roll
from clearhead.decode.state import start
from clearhead.decode.writer import Writer

FALLBACK = 64  # new tokens, where nobody says


def samplings(
    writer: Writer,
    count: int,
    *,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | Sequence[int] | None = None,
) -> list[Sampling]:
    """How each request draws: as asked, else as the folder says. To ask for top_k or top_p is to ask for chance."""
    told = writer.defaults
    if temperature is None:
        chance = told.temperature == 0.0 and (top_k is not None or top_p is not None)
        temperature = 1.0 if chance else told.temperature
    seeds = [seed] * count if seed is None or isinstance(seed, int) else list(seed)
    if len(seeds) != count:
        raise ValueError(f"{len(seeds)} seeds for {count} prompts: give one for each, or one for all")
    draw = Sampling(
        temperature=temperature,
        top_k=told.top_k if top_k is None else top_k,
        top_p=told.top_p if top_p is None else top_p,
    )
    return [replace(draw, seed=secrets.randbits(32) if s is None else s) for s in seeds]


def generate(
    writer: Writer,
    prompts: Sequence[str],
    draws: Sequence[Sampling],
    *,
    max_new: int | None = None,
    beam: Beam | None = None,
    budget: int = BUDGET,
) -> list[Generation]:
    """What is written after each prompt, in order; with a beam of more than 1, by beam search, and nothing is drawn."""
    rows = prompt_rows(writer, prompts)
    limits = [writer.room(len(row), max_new, FALLBACK) for row in rows]
    results: list[Generation | None] = [None] * len(prompts)
    for batch in batches([len(row) for row in rows], 1 if beam is None else beam.size, budget):
        if beam is not None and beam.size > 1:
            for i, found in zip(batch, _searched(writer, [rows[i] for i in batch], beam, [limits[i] for i in batch])):
                text = _text(writer, rows[i], found.ids)
                results[i] = Generation(prompts[i], text, found.ids, found.score, found.ended)
            continue
        ids: dict[int, list[int]] = {i: [] for i in batch}
        sums = dict.fromkeys(batch, 0.0)
        for number, token, score, _ in written(writer, rows, draws, limits, batch):
            ids[number].append(token)
            sums[number] += score
        for i in batch:
            ended = writer.defaults.rules.ended(ids[i], limits[i])
            seed = draws[i].seed if draws[i].temperature > 0 else None
            mean = sums[i] / len(ids[i])
            results[i] = Generation(prompts[i], _text(writer, rows[i], ids[i]), tuple(ids[i]), mean, ended, seed)
    done = [result for result in results if result is not None]
    if writer.is_watched and done:
        with torch.inference_mode():
            writer.attend(rows, [result.ids for result in done])
    return done


def pieces(
    writer: Writer, prompts: Sequence[str], draws: Sequence[Sampling], *, max_new: int | None = None
) -> Iterator[Piece]:
    """The same as it is written: all prompts at once, a piece for each token of each."""
    rows = prompt_rows(writer, prompts)
    limits = [writer.room(len(row), max_new, FALLBACK) for row in rows]
    texts = [Pieces(writer.tokenizer, row) for row in rows]
    said: list[list[int]] = [[] for _ in rows]
    for number, token, _, done in written(writer, rows, draws, limits, list(range(len(rows)))):
        said[number].append(token)
        yield Piece(number, texts[number].add(token, last=done), token, done)
    if writer.is_watched and rows:
        with torch.inference_mode():
            writer.attend(rows, said)


def written(
    writer: Writer, rows: list[list[int]], draws: Sequence[Sampling], limits: list[int], batch: list[int]
) -> Iterator[tuple[int, int, float, bool]]:
    """The number of a request, its next token, the token's log-probability, and whether it was the last."""
    if not batch:
        return
    with torch.inference_mode(), unseen():
        ids, layout, first, prompts = writer.inputs([rows[i] for i in batch])
        state = start(writer.model, ids, layout)
    steps = roll(state, first, writer.defaults.rules, [draws[i] for i in batch], [limits[i] for i in batch], prompts)
    while True:
        with torch.inference_mode(), unseen():  # not around a yield: the caller's own work is the caller's
            step = next(steps, None)
        if step is None:
            return
        for row, token, score, done in zip(step.sequences, step.tokens, step.scores, step.done, strict=True):
            yield batch[int(row)], int(token), float(score), bool(done)


def _searched(writer: Writer, rows: list[list[int]], beam: Beam, limits: list[int]):
    if len(set(limits)) > 1 or not rows:
        return [_searched(writer, [row], beam, [limit])[0] for row, limit in zip(rows, limits, strict=True)]
    with torch.inference_mode(), unseen():
        return [best[0] for best in writer.search(rows, beam, limits[0])]


def prompt_rows(writer: Writer, prompts: Sequence[str]) -> list[list[int]]:
    if writer.translates:
        raise ValueError("this model has an encoder: it translates, so use `translate`")
    tokens = writer.tokenizer(list(prompts), offsets=False)
    rows = [part.tolist() for part in tokens.layout.split(tokens.ids)]
    if any(not row for row in rows):
        if writer.defaults.rules.start is None:
            raise ValueError("an empty prompt, and the model has no token that begins a text: give it a word")
        rows = [row or [writer.defaults.rules.start] for row in rows]
    return rows


def _text(writer: Writer, prompt: Sequence[int], ids: Sequence[int]) -> str:
    """The text of new tokens as it stands after the prompt, spaces and all."""
    text = Pieces(writer.tokenizer, prompt)
    return "".join(text.add(id, last=at == len(ids) - 1) for at, id in enumerate(ids))
