"""Results: what a translator or a language model wrote."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Hypothesis:
    """One text with its tokens and score."""

    text: str
    ids: tuple[int, ...]  # the token that ends it included
    tokens: tuple[str, ...]
    score: float  # log-probability / length ** penalty
    ended: bool  # by itself; otherwise it was stopped at the limit


@dataclass(frozen=True, eq=False)
class Translation:
    """A translated text: the best hypothesis, and as many more as were asked for."""

    source: tuple[str, ...]  # the tokens that were read
    nbest: tuple[Hypothesis, ...]  # the best first
    alignment: Tensor | None = None  # (T, S): for each token written, how much it attended to each token read

    @property
    def text(self) -> str:
        return self.nbest[0].text

    @property
    def score(self) -> float:
        return self.nbest[0].score

    @property
    def ids(self) -> tuple[int, ...]:
        return self.nbest[0].ids

    @property
    def tokens(self) -> tuple[str, ...]:
        return self.nbest[0].tokens

    @property
    def ended(self) -> bool:
        return self.nbest[0].ended

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Each token written with the token read that it attended to most."""
        return [] if self.alignment is None else list(enumerate(self.alignment.argmax(1).tolist()))

    def __repr__(self) -> str:
        return f"Translation({self.text!r}, score={self.score:.3f})"


@dataclass(frozen=True)
class Generation:
    """What a language model wrote after a prompt."""

    prompt: str
    text: str  # without the prompt
    ids: tuple[int, ...]
    score: float  # mean log-probability of its tokens
    ended: bool
    seed: int | None = None  # with it, the same request gives the same text; None where nothing was drawn


@dataclass(frozen=True)
class Piece:
    """The next of a text that is being written; empty while a character or word is not complete."""

    request: int
    text: str
    token: int
    done: bool
