"""Generation requests: from a prompt or the turns of a dialogue to what the engine decodes, for all routes alike."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.decode import sampling_params
from clearhead.decode.chat import ROOM, fit_history
from clearhead.decode.generate import FALLBACK, prompt_rows
from clearhead.serve.continuous_batch import GenerationChunk, GenerationRequest
from clearhead.serve.errors import bad_request
from clearhead.serve.model_registry import ServedModel


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """Sampling parameters and stop conditions; None means the model's default."""

    max_new_tokens: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()


def completion_request(model: ServedModel, prompt: str, options: GenerationOptions) -> GenerationRequest:
    """Tokenizes a prompt and checks that the new tokens fit the model's positions."""
    generator = model.pipeline.generator
    try:
        (ids,) = prompt_rows(generator, [prompt])
        return _request(model, ids, options, generator.token_budget(len(ids), options.max_new_tokens, FALLBACK))
    except ValueError as error:
        raise bad_request(str(error), "prompt") from None


def chat_request(model: ServedModel, turns: Sequence[str], options: GenerationOptions) -> tuple[int, GenerationRequest]:
    """Tokenizes a dialogue; returns the number of oldest turns that were dropped to fit, and the request."""
    generator = model.pipeline.generator
    try:
        wanted = options.max_new_tokens or min(ROOM, max(1, (generator.max_positions or 4 * ROOM) // 4))
        limit = generator.max_source_len
        if not generator.translates:
            limit = None if generator.max_positions is None else generator.max_positions - wanted + 1
            if limit is not None and limit < 1:
                raise ValueError(
                    f"{wanted} new tokens do not fit: the model has {generator.max_positions} positions; ask for fewer"
                )
        dropped_turns, ids = fit_history(generator, turns, limit)
        budget = generator.token_budget(1 if generator.translates else len(ids), options.max_new_tokens, wanted)
        return dropped_turns, _request(model, ids, options, min(budget, wanted))
    except ValueError as error:
        raise bad_request(str(error), "turns") from None


def _request(model: ServedModel, ids: list[int], options: GenerationOptions, max_new_tokens: int) -> GenerationRequest:
    seed = secrets.randbits(32) if options.seed is None else options.seed
    generator = model.pipeline.generator
    (sampling,) = sampling_params(
        generator, 1, temperature=options.temperature, top_k=options.top_k, top_p=options.top_p, seed=seed
    )
    return GenerationRequest(ids, sampling, max_new_tokens, options.stop)


@dataclass(frozen=True)
class CompletedText:
    """A finished generation."""

    text: str
    finish_reason: str
    tokens: int

    @staticmethod
    def from_chunks(chunks: Sequence[GenerationChunk]) -> CompletedText:
        text = "".join(chunk.text for chunk in chunks)
        return CompletedText(text, chunks[-1].finish_reason or "length", len(chunks))
