"""Results of translation and text generation."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Hypothesis:
    """A generated text with its tokens and score."""

    text: str
    ids: tuple[int, ...]  # including the end token
    tokens: tuple[str, ...]
    score: float  # log-probability / length ** penalty
    ended: bool  # with an end token; otherwise at the limit


@dataclass(frozen=True, eq=False)
class Translation:
    """A translation: the best hypothesis, and the others of `nbest`."""

    source: tuple[str, ...]  # the tokens of the source
    nbest: tuple[Hypothesis, ...]  # the best first
    alignment: Tensor | None = None  # (T, S): mean cross-attention from target to source tokens

    @property
    def text(self) -> str:
        """The text of the best hypothesis."""
        return self.nbest[0].text

    @property
    def score(self) -> float:
        """The score of the best hypothesis."""
        return self.nbest[0].score

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens of the best hypothesis, as ids."""
        return self.nbest[0].ids

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the best hypothesis, as strings."""
        return self.nbest[0].tokens

    @property
    def ended(self) -> bool:
        """Whether the best hypothesis has an end token."""
        return self.nbest[0].ended

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Each target token with the source token of its highest attention."""
        return [] if self.alignment is None else list(enumerate(self.alignment.argmax(1).tolist()))

    def __repr__(self) -> str:
        return f"Translation({self.text!r}, score={self.score:.3f})"


@dataclass(frozen=True)
class Generation:
    """The text that a language model generated after a prompt."""

    prompt: str
    text: str  # without the prompt
    ids: tuple[int, ...]
    score: float  # mean log-probability of its tokens
    ended: bool
    seed: int | None = None  # reproduces the text; None without sampling


@dataclass(frozen=True)
class StreamChunk:
    """The next text of a stream; empty while a character or word is incomplete."""

    request: int
    text: str
    token: int
    done: bool
