"""Schemas of the server of an index. Every number and every length is bounded."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from clearhead.serve.schemas import Words

Query = Annotated[Words, Field(max_length=2000)]
Source = Annotated[str, Field(min_length=1, max_length=2000)]
Offset = Annotated[int, Field(ge=0, le=2**40)]


def _example(**values: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [values]})


class SearchRequest(BaseModel):
    """What to look for."""

    model_config = _example(query="opening hours", k=5)

    query: Query = Field(description="Words or a sentence.")
    k: int = Field(10, ge=1, le=100, description="Number of passages.")
    mode: Literal["auto", "words", "vectors", "hybrid"] = Field("auto", description="How passages are ranked.")


class AskRequest(BaseModel):
    """A question about the documents."""

    model_config = _example(question="When does the desk open?")

    question: Query = Field(description="The question.")
    nbest: int = Field(3, ge=1, le=20, description="Number of candidates.")


class FeedbackRequest(BaseModel):
    """Whether an answer was right; it becomes a row of a training file."""

    model_config = _example(question="When does the desk open?", source="visit.md", start=120, end=128, right=True)

    question: Query = Field(description="The question that was asked.")
    source: Source = Field(description="Document of the answer.")
    start: Offset = Field(description="First character of the answer in its document.")
    end: Offset = Field(description="End of the answer.")
    right: bool = Field(description="Whether the answer is right.")


class SourceRequest(BaseModel):
    """A document of the index."""

    model_config = _example(source="visit.md")

    source: Source = Field(description="The document.")


class PassageBody(BaseModel):
    """A passage with its place: characters of the document's text."""

    text: str
    source: str
    start: int
    end: int
    heading: str
    page: int | None
    score: float
    text_rank: int | None = Field(description="Rank by words, from 1; null: not among the best.")
    vector_rank: int | None = Field(description="Rank by vectors, from 1.")


class SearchResponse(BaseModel):
    """Passages, best first."""

    version: int = Field(description="Version of the index that answered.")
    results: list[PassageBody]


class AnswerBody(BaseModel):
    """An answer with its place; `sentence` are the characters of its sentence."""

    text: str
    probability: float
    source: str
    start: int
    end: int
    page: int | None
    heading: str
    sentence: tuple[int, int]
    passage: PassageBody


class ReadPassageBody(BaseModel):
    """A passage that was read, with its relevance: the logit against a passage without the answer."""

    passage: PassageBody
    relevance: float


class AskResponse(BaseModel):
    """The answer; null if the documents probably do not say."""

    version: int
    question: str = Field(description="As it was asked of the documents: translated if the server has a translator.")
    answer: AnswerBody | None
    probability: float = Field(description="That the best candidate is right.")
    candidates: list[AnswerBody]
    passages: list[ReadPassageBody] = Field(description="What was read, most relevant first.")


class SourcePassage(BaseModel):
    """A passage of a document."""

    text: str
    start: int
    end: int
    heading: str
    page: int | None


class SourceResponse(BaseModel):
    """The passages of a document, in order."""

    source: str
    passages: list[SourcePassage]


class FeedbackResponse(BaseModel):
    """How many rows the training file has got from this server."""

    rows: int


class IndexResponse(BaseModel):
    """The index."""

    passages: int
    version: int
    vectors: bool = Field(description="Whether the index has vectors.")
    answers: bool = Field(description="Whether there is a reader, so that questions can be asked.")
    feedback: bool = Field(description="Whether feedback is written.")
