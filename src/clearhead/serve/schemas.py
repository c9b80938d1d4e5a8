"""Schemas: the request and response bodies of all routes. Every number and every length is bounded."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

MAX_TEXT_CHARACTERS = 200_000
MAX_TEXTS = 1024  # per request
MAX_NEW_TOKENS = 4096
MAX_IMAGES = 64  # per request
MAX_IMAGE_CHARACTERS = 2**26  # in base64; the limit of the request body is usually smaller


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("the text is empty: send at least one word")
    return text


ONE_OR_MANY = Discriminator(lambda given: "many" if isinstance(given, list) else "one")
TAGS = ("one", "many")  # left out of the field path in error messages
Text = Annotated[str, Field(max_length=MAX_TEXT_CHARACTERS)]
Words = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARACTERS), AfterValidator(_not_blank)]
Texts = Annotated[
    Annotated[Words, Tag("one")] | Annotated[list[Words], Field(min_length=1, max_length=MAX_TEXTS), Tag("many")],
    ONE_OR_MANY,
]
Prompts = Annotated[
    Annotated[Text, Tag("one")] | Annotated[list[Text], Field(min_length=1, max_length=MAX_TEXTS), Tag("many")],
    ONE_OR_MANY,
]
Base64 = Annotated[str, Field(min_length=1, max_length=MAX_IMAGE_CHARACTERS)]
Images = Annotated[
    Annotated[Base64, Tag("one")] | Annotated[list[Base64], Field(min_length=1, max_length=MAX_IMAGES), Tag("many")],
    ONE_OR_MANY,
]
Name = Annotated[str, Field(min_length=1, max_length=200)] | None
Float = Annotated[float, Field(allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)] | None
End = Annotated[str, Field(min_length=1, max_length=200)]
Stop = Annotated[list[End], Field(max_length=8)]
Stops = Annotated[Annotated[End, Tag("one")] | Annotated[Stop, Tag("many")], ONE_OR_MANY]


def as_list(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given


class ModelRequest(BaseModel):
    """Base of all request bodies. Unknown fields are refused, so that a misspelled option is not ignored."""

    model_config = ConfigDict(extra="forbid")

    model: Name = Field(None, description="Name of the model. Default: the first one trained for this task.")


def _example(**values: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [values]})


class ClassifyRequest(ModelRequest):
    """Texts or images to classify."""

    model_config = _example(text="A film that warms the heart.")

    text: Texts | None = Field(None, description="A text, or a list of texts.")
    image: Images | None = Field(
        None, description="An image file in base64, as it is or as a data URL, or a list of such."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> ClassifyRequest:
        if (self.text is None) == (self.image is None):
            raise ValueError("send either text or image")
        return self


class PairRequest(ModelRequest):
    """Pairs of texts to classify."""

    model_config = _example(text="A man plays the guitar.", second="A person is making music.")

    text: Texts = Field(description="The first text, or a list of first texts.")
    second: Texts = Field(description="The second text, or a list with one for each first text.")

    @model_validator(mode="after")
    def _same_length(self) -> PairRequest:
        return _check_same_length(self, "text", "second")


class TagRequest(ModelRequest):
    """Texts whose words are tagged."""

    model_config = _example(text="Ada Lovelace lived in London.")

    text: Texts = Field(description="A text, or a list of texts.")


class QaRequest(ModelRequest):
    """Questions, each with a context of any length."""

    model_config = _example(question="Where did she live?", context="Ada Lovelace lived in London.")

    question: Texts = Field(description="A question, or a list of questions.")
    context: Texts = Field(description="The context to find the answer in, or a list with one for each question.")
    nbest: int = Field(3, ge=1, le=20, description="Number of answer spans to return.")

    @model_validator(mode="after")
    def _same_length(self) -> QaRequest:
        return _check_same_length(self, "question", "context")


class BeamRequest(ModelRequest):
    """How texts are searched for."""

    beam: int | None = Field(None, ge=1, le=16, description="Beam size; 1 is greedy search. Default: the model's.")
    length_penalty: Float | None = Field(
        None, ge=-5, le=5, description="Exponent of the length normalization in beam search. Default: the model's."
    )
    nbest: int = Field(1, ge=1, le=16, description="Number of texts to return for each input.")
    max_len: int | None = Field(None, ge=1, le=MAX_NEW_TOKENS, description="Maximum tokens of a text.")


class TranslateRequest(BeamRequest):
    """Texts to translate."""

    model_config = _example(text="A dog runs across the grass.")

    text: Texts = Field(description="A text, or a list of texts.")
    align: bool = Field(False, description="Also return the alignment of target and source tokens.")


class CaptionRequest(BeamRequest):
    """Images to write about."""

    model_config = _example(image="R0lGODdhAgACAIEAAMgoKAAAAAAAAAAAACwAAAAAAgACAAAIBgABCAQQEAA7")

    image: Images = Field(description="An image file in base64, as it is or as a data URL, or a list of such.")


class EmbedRequest(ModelRequest):
    """Texts to embed."""

    model_config = _example(text=["A dog runs.", "Ein Hund läuft."])

    text: Texts = Field(description="A text, or a list of texts.")
    pool: Literal["first", "last", "bidirectional_last", "mean", "max", "min"] | None = Field(
        None, description="Pooling over the tokens. Default: the model's."
    )
    normalize: bool | None = Field(None, description="Scale vectors to length 1. Default: the model's.")


class _SamplingRequest(ModelRequest):
    """Sampling parameters."""

    max_new_tokens: int | None = Field(
        None, ge=1, le=MAX_NEW_TOKENS, description="Maximum number of generated tokens. Default: the model's."
    )
    temperature: Float | None = Field(
        None, ge=0, le=100, description="Sampling temperature; 0 is greedy. Default: the model's."
    )
    top_k: int | None = Field(None, ge=0, le=2**31 - 1, description="Sample from the k most likely tokens; 0 is all.")
    top_p: Float | None = Field(
        None, gt=0, le=1, description="Sample from the smallest set of tokens with this total probability."
    )
    seed: Seed = Field(None, description="Random seed: the same seed gives the same text.")
    stop: Stop = Field([], description="Stop strings: generation ends before the first one.")
    stream: bool = Field(False, description="Return server-sent events, one for each chunk of text.")


class GenerateRequest(_SamplingRequest):
    """A prompt to continue."""

    model_config = _example(prompt="The old man", max_new_tokens=40, temperature=0.8, seed=7)

    prompt: Text = Field(description="The prompt. It may be empty for models with a start token.")


class ChatRequest(_SamplingRequest):
    """The turns of a dialogue, the last one from the user."""

    model_config = _example(turns=["Hello, how are you?"], max_new_tokens=40, temperature=0.8, seed=7)

    turns: Annotated[list[Words], Field(min_length=1, max_length=MAX_TEXTS)] = Field(
        description="The turns so far, user and model in alternation, oldest first."
    )


class AttentionRequest(ModelRequest):
    """A text whose attention is captured."""

    model_config = _example(text="The cat sat because it was tired.")

    text: Words = Field(description="The text to run the model on.")
    second: Words | None = Field(
        None, description="The second text of a pair; for a translation model, the target text."
    )
    layer: Annotated[str, Field(max_length=100)] | None = Field(
        None, description="Also return the weights of this layer, such as encoder.0."
    )
    head: int | None = Field(
        None, ge=0, le=1023, description="Return the weights of one head only. Default: all heads."
    )


class ReloadRequest(ModelRequest):
    """The model to load again. Default: all models."""


def _check_same_length(request: Any, first: str, second: str) -> Any:
    a, b = getattr(request, first), getattr(request, second)
    if isinstance(a, str) != isinstance(b, str) or (isinstance(a, list) and len(a) != len(b)):
        counts = [f"{1 if isinstance(x, str) else len(x)} in {name}" for x, name in ((a, first), (b, second))]
        raise ValueError(f"{counts[0]}, {counts[1]}: give equally many, both as strings or both as lists")
    return request


class ErrorDetail(BaseModel):
    """Message, type, code and field of an error."""

    message: str
    type: str
    code: str
    param: str | None


class ErrorBody(BaseModel):
    """An error, in OpenAI's format."""

    error: ErrorDetail


class LabelAnswer(BaseModel):
    """The predicted label, labels or number, and the score of every label."""

    answer: str | list[str] | float
    scores: dict[str, float]


class ClassifyResponse(BaseModel):
    """One answer per text, in order."""

    model: str
    answers: list[LabelAnswer]


class EntityAnswer(BaseModel):
    """A named entity: the characters from `start` to `end` of the text."""

    label: str
    text: str
    start: int
    end: int


class TagAnswer(BaseModel):
    """The words of a text, the tag and the score of each word, and the named entities."""

    words: list[str]
    tags: list[str]
    scores: list[float]
    entities: list[EntityAnswer]


class TagResponse(BaseModel):
    """One answer per text, in order."""

    model: str
    answers: list[TagAnswer]


class SpanAnswer(BaseModel):
    """An answer span: the characters from `start` to `end` of the context."""

    text: str
    start: int
    end: int
    score: float
    probability: float


class QaAnswer(BaseModel):
    """The best span (null if no answer is more likely), and the n best spans."""

    best: SpanAnswer | None
    spans: list[SpanAnswer]
    no_answer_probability: float


class QaResponse(BaseModel):
    """One answer per question, in order."""

    model: str
    answers: list[QaAnswer]


class AlternativeText(BaseModel):
    """One hypothesis of the beam search."""

    text: str
    score: float


class CaptionAnswer(AlternativeText):
    """The best text about an image, and the n best."""

    nbest: list[AlternativeText]


class TranslationAnswer(CaptionAnswer):
    """The best translation, the n best, and the alignment (target tokens x source tokens) if requested."""

    source: list[str]
    tokens: list[str]
    alignment: list[list[float]] | None


class TranslateResponse(BaseModel):
    """One answer per text, in order."""

    model: str
    answers: list[TranslationAnswer]


class CaptionResponse(BaseModel):
    """One answer per image, in order."""

    model: str
    answers: list[CaptionAnswer]


class EmbedResponse(BaseModel):
    """One vector per text, in order; the number of tokens that were read, and whether the text was truncated."""

    model: str
    vectors: list[list[float]]
    tokens: list[int]
    truncated: list[bool]


class GenerateResponse(BaseModel):
    """The generated text, its finish reason ("stop", or "length" at the limit), and the seed that reproduces it."""

    model: str
    text: str
    finish_reason: str
    tokens: int
    seed: int | None
    dropped_turns: int = 0


class LayerInfo(BaseModel):
    """One attention layer of the model."""

    name: str
    kind: str
    heads: int
    queries: list[str]
    keys: list[str]


class AttentionResponse(BaseModel):
    """The attention layers, the address of the interactive page, and the weights if requested."""

    model: str
    answer: str | None
    page: str
    layers: list[LayerInfo]
    weights: list[list[list[float]]] | None


class ModelInfo(BaseModel):
    """A served model."""

    name: str
    tasks: list[str]
    architecture: str
    parameters: int
    max_len: int | None


class ModelsResponse(BaseModel):
    """All served models."""

    models: list[ModelInfo]


class ReloadResponse(BaseModel):
    """The names of the reloaded models."""

    models: list[str]


class HealthResponse(BaseModel):
    """Status and version of the server."""

    status: str
    version: str
