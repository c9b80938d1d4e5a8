"""Text generation from prompts, at once or token by token."""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from clearhead.attention.capture.look import no_capture
from clearhead.decode.beam import BeamConfig, BeamHypothesis
from clearhead.decode.continuous import decode_steps
from clearhead.decode.detokenizer import StreamDetokenizer
from clearhead.decode.generator import BATCH_TOKENS, TextGenerator, batches
from clearhead.decode.results import Generation, StreamChunk
from clearhead.decode.sampler import SamplingParams
from clearhead.decode.state import initial_state

FALLBACK = 64  # new tokens by default


def sampling_params(
    generator: TextGenerator,
    count: int,
    *,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | Sequence[int] | None = None,
) -> list[SamplingParams]:
    """Return the sampling parameters of each request: as given, else the folder's. top_k or top_p enable sampling."""
    defaults = generator.defaults
    if temperature is None:
        sampled = defaults.temperature == 0.0 and (top_k is not None or top_p is not None)
        temperature = 1.0 if sampled else defaults.temperature
    seeds = [seed] * count if seed is None or isinstance(seed, int) else list(seed)
    if len(seeds) != count:
        raise ValueError(f"{len(seeds)} seeds for {count} prompts: give one for each, or one for all")
    top_k = defaults.top_k if top_k is None else top_k
    top_p = defaults.top_p if top_p is None else top_p
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p)
    return [replace(params, seed=secrets.randbits(32) if s is None else s) for s in seeds]


def generate(
    generator: TextGenerator,
    prompts: Sequence[str],
    sampling: Sequence[SamplingParams],
    *,
    max_new_tokens: int | None = None,
    beam: BeamConfig | None = None,
    batch_tokens: int = BATCH_TOKENS,
) -> list[Generation]:
    """Return the generation after each prompt, in order; a beam larger than 1 uses beam search without sampling."""
    rows = prompt_rows(generator, prompts)
    limits = [generator.token_budget(len(row), max_new_tokens, FALLBACK) for row in rows]
    results: list[Generation | None] = [None] * len(prompts)
    for batch in batches([len(row) for row in rows], 1 if beam is None else beam.size, batch_tokens):
        if beam is not None and beam.size > 1:
            best = _search(generator, [rows[i] for i in batch], beam, [limits[i] for i in batch])
            for i, hypothesis in zip(batch, best, strict=True):
                text = _text(generator, rows[i], hypothesis.ids)
                results[i] = Generation(prompts[i], text, hypothesis.ids, hypothesis.score, hypothesis.ended)
            continue
        ids: dict[int, list[int]] = {i: [] for i in batch}
        sums = dict.fromkeys(batch, 0.0)
        for number, token, score, _ in generate_tokens(generator, rows, sampling, limits, batch):
            ids[number].append(token)
            sums[number] += score
        for i in batch:
            ended = generator.defaults.constraints.ended(ids[i], limits[i])
            seed = sampling[i].seed if sampling[i].temperature > 0 else None
            mean = sums[i] / len(ids[i])
            results[i] = Generation(prompts[i], _text(generator, rows[i], ids[i]), tuple(ids[i]), mean, ended, seed)
    done = [result for result in results if result is not None]
    if generator.is_captured and done:
        with torch.inference_mode():
            generator.attend(rows, [result.ids for result in done])
    return done


def stream(
    generator: TextGenerator,
    prompts: Sequence[str],
    sampling: Sequence[SamplingParams],
    *,
    max_new_tokens: int | None = None,
) -> Iterator[StreamChunk]:
    """Yield a chunk for each generated token; all prompts are one batch."""
    rows = prompt_rows(generator, prompts)
    limits = [generator.token_budget(len(row), max_new_tokens, FALLBACK) for row in rows]
    texts = [StreamDetokenizer(generator.tokenizer, row) for row in rows]
    generated: list[list[int]] = [[] for _ in rows]
    for number, token, _, done in generate_tokens(generator, rows, sampling, limits, list(range(len(rows)))):
        generated[number].append(token)
        yield StreamChunk(number, texts[number].add(token, last=done), token, done)
    if generator.is_captured and rows:
        with torch.inference_mode():
            generator.attend(rows, generated)


def generate_tokens(
    generator: TextGenerator,
    rows: list[list[int]],
    sampling: Sequence[SamplingParams],
    limits: list[int],
    batch: list[int],
) -> Iterator[tuple[int, int, float, bool]]:
    """Yield the index of a request, its next token, the token's log-probability, and whether it is the last."""
    if not batch:
        return
    with torch.inference_mode(), no_capture():
        ids, layout, first, prompts = generator.inputs([rows[i] for i in batch])
        state = initial_state(generator.model, ids, layout)
    steps = decode_steps(
        state, first, generator.defaults.constraints, [sampling[i] for i in batch], [limits[i] for i in batch], prompts
    )
    while True:
        with torch.inference_mode(), no_capture():  # not around a yield: the modes must not reach the caller
            step = next(steps, None)
        if step is None:
            return
        for row, token, score, done in zip(step.sequences, step.tokens, step.scores, step.done, strict=True):
            yield batch[int(row)], int(token), float(score), bool(done)


def _search(
    generator: TextGenerator, rows: list[list[int]], beam: BeamConfig, limits: list[int]
) -> list[BeamHypothesis]:
    if len(set(limits)) > 1 or not rows:
        return [_search(generator, [row], beam, [limit])[0] for row, limit in zip(rows, limits, strict=True)]
    with torch.inference_mode(), no_capture():
        return [best[0] for best in generator.search(rows, beam, limits[0])]


def prompt_rows(generator: TextGenerator, prompts: Sequence[str]) -> list[list[int]]:
    """Return the tokens of each prompt; an empty prompt is the start token."""
    if generator.translates:
        raise ValueError("this model has an encoder and translates: use `translate`")
    tokens = generator.tokenizer(list(prompts), offsets=False)
    rows = [part.tolist() for part in tokens.layout.split(tokens.ids)]
    if any(not row for row in rows):
        if generator.defaults.constraints.start_token_id is None:
            raise ValueError("the prompt is empty, and the model has no start token: give a prompt with text")
        rows = [row or [generator.defaults.constraints.start_token_id] for row in rows]
    return rows


def _text(generator: TextGenerator, prompt: Sequence[int], ids: Sequence[int]) -> str:
    """Return the text of new tokens after the prompt, with leading spaces."""
    text = StreamDetokenizer(generator.tokenizer, prompt)
    return "".join(text.add(id, last=at == len(ids) - 1) for at, id in enumerate(ids))
