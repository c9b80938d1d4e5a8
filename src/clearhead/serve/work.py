"""Work: one batch of a group, computed by the same tasks that trained and evaluated the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from clearhead.decode import Beam, Translation, translate
from clearhead.decode.generate import written
from clearhead.decode.pieces import Pieces
from clearhead.serve.growing import Asked, Said
from clearhead.serve.shelf import Shelved
from clearhead.tasks.answering import task_of


@dataclass(frozen=True, eq=False)
class Vector:
    """A text as a vector (D,), the tokens that were read, and whether there were more."""

    values: Tensor
    tokens: int
    cut: bool


def compute(model: Shelved, work: str, options: tuple[Any, ...], values: Sequence[Any]) -> Iterator[Any]:
    """What becomes of each value, in order."""
    return WORK[work](model, values, *options)


def _embed(model: Shelved, texts: Sequence[str], pool: str | None, normalize: bool | None) -> Iterator[Vector]:
    for part in model.app.stream(texts, pool=pool, normalize=normalize):
        for row, tokens, cut in zip(part.vectors, part.sizes, part.cut, strict=True):
            yield Vector(row, tokens, cut)


def _texts(model: Shelved, texts: Sequence[str]) -> Iterator[Any]:
    return task_of(model.app.opened).answers(model.app.model, [texts])  # type: ignore[arg-type,call-arg]


def _pairs(model: Shelved, pairs: Sequence[tuple[str, str]]) -> Iterator[Any]:
    return task_of(model.app.opened).answers(model.app.model, list(zip(*pairs, strict=True)))  # type: ignore[arg-type,call-arg]


def _words(model: Shelved, texts: Sequence[Any]) -> Iterator[Any]:
    return task_of(model.app.opened).answers(model.app.model, texts)  # type: ignore[arg-type,call-arg]


def _questions(model: Shelved, pairs: Sequence[tuple[str, str]], nbest: int) -> Iterator[Any]:
    questions, contexts = zip(*pairs, strict=True)
    return task_of(model.app.opened).answers(model.app.model, questions, contexts, nbest=nbest)  # type: ignore[arg-type,call-arg]


def _translate(
    model: Shelved, texts: Sequence[str], beam: Beam, max_new: int | None, align: bool
) -> Iterator[Translation]:
    found: dict[int, Translation] = {}
    for done, _ in translate(model.app.writer, texts, beam, max_new=max_new, align=align):
        found.update(done)
    return (found[i] for i in range(len(texts)))


def _reply(model: Shelved, asked: Sequence[Asked]) -> Iterator[list[Said]]:
    """Answers of an encoder-decoder, which reads the turns as its source: they begin together."""
    writer = model.app.writer
    said: list[list[Said]] = [[] for _ in asked]
    texts = [Pieces(writer.tokenizer) for _ in asked]
    rows, draws, limits = ([getattr(one, name) for one in asked] for name in ("row", "draw", "max_new"))
    for i, token, score, done in written(writer, rows, draws, limits, list(range(len(asked)))):
        ended = done and token in writer.defaults.rules.ends
        said[i].append(
            Said(texts[i].add(token, last=done), token, score, ("stop" if ended else "length") if done else None)
        )
    return iter(said)


def _calls(model: Shelved, functions: Sequence[Callable[[], Any]], alone: object) -> Iterator[Any]:
    """Anything that needs the model for itself, such as looking at it; each is a group of its own."""
    return (function() for function in functions)


WORK: dict[str, Callable[..., Iterator[Any]]] = {
    "embed": _embed,
    "classify": _texts,
    "pair": _pairs,
    "tag": _words,
    "qa": _questions,
    "translate": _translate,
    "reply": _reply,
    "call": _calls,
    "canary": _calls,
}
