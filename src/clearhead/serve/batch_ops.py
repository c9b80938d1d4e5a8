"""Batch operations: what the engine runs for one batch of each kind of work, with the code that evaluates models."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from clearhead.decode import BeamConfig, Caption, Translation, translate_in_order
from clearhead.decode.detokenizer import StreamDetokenizer
from clearhead.decode.generate import generate_tokens
from clearhead.serve.continuous_batch import GenerationChunk, GenerationRequest
from clearhead.serve.model_registry import IMAGE_TASK, ServedModel
from clearhead.tasks import QaResult, QuestionAnswering
from clearhead.tasks.image_inputs import ResizedImage
from clearhead.tasks.registry import task_of


@dataclass(frozen=True, eq=False)
class EmbeddedText:
    """The vector of a text (D,), the number of tokens that were read, and whether the text was truncated."""

    values: Tensor
    tokens: int
    truncated: bool


def _embed(
    model: ServedModel, texts: Sequence[str], pool: str | None, normalize: bool | None
) -> Iterator[EmbeddedText]:
    for part in model.pipeline.encode_batches(texts, pool=pool, normalize=normalize):
        for row, tokens, truncated in zip(part.vectors, part.lengths, part.truncated, strict=True):
            yield EmbeddedText(row, tokens, truncated)


def _answer(model: ServedModel, inputs: Sequence[Any]) -> Iterator[Any]:
    return task_of(model.pipeline.loaded).answer(model.pipeline.loaded, inputs)


def _answer_questions(model: ServedModel, inputs: Sequence[tuple[str, str]], nbest: int) -> Iterator[QaResult]:
    loaded = model.pipeline.loaded
    return QuestionAnswering.from_model(loaded).answer(loaded, inputs, nbest=nbest)


def _translate(
    model: ServedModel, texts: Sequence[str], beam: BeamConfig, max_new_tokens: int | None, align: bool
) -> Iterator[Translation]:
    search = model.pipeline.translation_engine.select(model.engine, beam, len(texts)).search
    options: dict[str, Any] = {"max_new_tokens": max_new_tokens, "align": align, "search": search}
    return translate_in_order(model.pipeline.generator, texts, beam, **options)


def _caption(
    model: ServedModel, images: Sequence[ResizedImage], beam: BeamConfig, max_new_tokens: int | None
) -> Iterator[Caption]:
    pipeline = model.pipeline
    return pipeline.captioner.answer(pipeline.loaded, images, beam, max_new_tokens=max_new_tokens)


def _reply(model: ServedModel, requests: Sequence[GenerationRequest]) -> Iterator[list[GenerationChunk]]:
    """Replies of an encoder-decoder, which reads the turns as its source: the requests start and run together."""
    generator = model.pipeline.generator
    chunks: list[list[GenerationChunk]] = [[] for _ in requests]
    texts = [StreamDetokenizer(generator.tokenizer) for _ in requests]
    rows = [request.prompt_ids for request in requests]
    sampling = [request.sampling for request in requests]
    limits = [request.max_new_tokens for request in requests]
    for i, token, score, done in generate_tokens(generator, rows, sampling, limits, list(range(len(requests)))):
        stopped = token in generator.defaults.constraints.eos_token_ids
        finish_reason = ("stop" if stopped else "length") if done else None
        chunks[i].append(GenerationChunk(texts[i].add(token, last=done), token, score, finish_reason))
    return iter(chunks)


def _calls(model: ServedModel, functions: Sequence[Callable[[], Any]], unique: object) -> Iterator[Any]:
    """Functions that need the model for themselves, as to capture attention; `unique` keeps each in its own batch."""
    return (function() for function in functions)


# work -> a function of the model, the values and the options of a batch; it returns the result of each value, in order
BATCH_OPS: dict[str, Callable[..., Iterator[Any]]] = {
    "embed": _embed,
    "classify": _answer,
    IMAGE_TASK: _answer,
    "pair": _answer,
    "tag": _answer,
    "qa": _answer_questions,
    "translate": _translate,
    "caption": _caption,
    "reply": _reply,
    "call": _calls,
    "probe": _calls,
}
