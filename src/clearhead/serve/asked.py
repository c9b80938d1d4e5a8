"""Asked and answered: what each route takes, every number and every length bounded, and what it gives back."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

LONGEST = 200_000  # characters of a text
MOST = 1024  # texts of a request
WRITTEN = 4096  # tokens that may be asked for


def _worded(text: str) -> str:
    if not text.strip():
        raise ValueError("there are no words in it: send at least one")
    return text


ONE_OR_MANY = Discriminator(lambda given: "many" if isinstance(given, list) else "one")
TAGS = ("one", "many")  # a fault says where it is without them
Text = Annotated[str, Field(max_length=LONGEST)]
Words = Annotated[str, Field(min_length=1, max_length=LONGEST), AfterValidator(_worded)]
Texts = Annotated[
    Annotated[Words, Tag("one")] | Annotated[list[Words], Field(min_length=1, max_length=MOST), Tag("many")],
    ONE_OR_MANY,
]
Prompts = Annotated[
    Annotated[Text, Tag("one")] | Annotated[list[Text], Field(min_length=1, max_length=MOST), Tag("many")],
    ONE_OR_MANY,
]
Name = Annotated[str, Field(min_length=1, max_length=200)] | None
Float = Annotated[float, Field(allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)] | None
End = Annotated[str, Field(min_length=1, max_length=200)]
Stop = Annotated[list[End], Field(max_length=8)]
Stops = Annotated[
    Annotated[End, Tag("one")] | Annotated[Stop, Tag("many")],
    ONE_OR_MANY,
]


def many(given: str | list[str]) -> list[str]:
    """One text as a list of one."""
    return [given] if isinstance(given, str) else given


class Asked(BaseModel):
    """What a client sends; a field that is not known is a fault, so that no misspelt option is passed over."""

    model_config = ConfigDict(extra="forbid")

    model: Name = Field(None, description="Which model; without, the first made for this, else one that can do it.")


def _example(**values: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [values]})


class Classify(Asked):
    """Texts to label."""

    model_config = _example(text="A film that warms the heart.")

    text: Texts = Field(description="A text, or a list of texts.")


class Pair(Asked):
    """Two texts that are judged together."""

    model_config = _example(text="A man plays the guitar.", second="Somebody makes music.")

    text: Texts = Field(description="The first text, or a list of them.")
    second: Texts = Field(description="The second text, or as many as there are first ones.")

    @model_validator(mode="after")
    def _as_many(self) -> Pair:
        return _equal(self, "text", "second")


class Tagging(Asked):
    """Texts whose words are tagged."""

    model_config = _example(text="Ada Lovelace lived in London.")

    text: Texts = Field(description="A text, or a list of texts.")


class Qa(Asked):
    """Questions on texts of any length."""

    model_config = _example(question="Where did she live?", context="Ada Lovelace lived in London.")

    question: Texts = Field(description="A question, or a list of them.")
    context: Texts = Field(description="The text in which the answer stands, or one for each question.")
    nbest: int = Field(3, ge=1, le=20, description="How many spans to give.")

    @model_validator(mode="after")
    def _as_many(self) -> Qa:
        return _equal(self, "question", "context")


class Translate(Asked):
    """Texts to translate."""

    model_config = _example(text="A dog runs across the grass.")

    text: Texts = Field(description="A text, or a list of texts.")
    beam: int | None = Field(None, ge=1, le=16, description="Width of the search; 1 is greedy. Default: the model's.")
    length_penalty: Float | None = Field(None, ge=-5, le=5)
    nbest: int = Field(1, ge=1, le=16, description="How many translations of each text to give.")
    max_len: int | None = Field(None, ge=1, le=WRITTEN, description="Tokens of a translation at most.")
    align: bool = Field(False, description="Also give which tokens were read for which.")


class Embed(Asked):
    """Texts to turn into vectors."""

    model_config = _example(text=["A dog runs.", "Ein Hund läuft."])

    text: Texts = Field(description="A text, or a list of texts.")
    pool: Literal["first", "last", "ends", "mean", "max", "min"] | None = Field(
        None, description="Default: the model's own."
    )
    normalize: bool | None = Field(None, description="Vectors of length 1. Default: the model's own.")


class _Drawn(Asked):
    """How tokens are chosen."""

    max_new: int | None = Field(None, ge=1, le=WRITTEN, description="Tokens to write at most. Default: the model's.")
    temperature: Float | None = Field(None, ge=0, le=100, description="0: always the likeliest token.")
    top_k: int | None = Field(None, ge=0, le=2**31 - 1, description="Draw from the so many likeliest; 0: all.")
    top_p: Float | None = Field(None, gt=0, le=1, description="Draw from the tokens that make up this probability.")
    seed: Seed = Field(None, description="The same seed gives the same text.")
    stop: Stop = Field([], description="Texts that end it; they are not handed out.")
    stream: bool = Field(False, description="Server-sent events, one for each piece of text.")


class Generate(_Drawn):
    """A prompt to go on from."""

    model_config = _example(prompt="The old man", max_new=40, temperature=0.8, seed=7)

    prompt: Text = Field(description="What to go on from.")


class Chat(_Drawn):
    """The turns of a dialogue, the last of them the client's."""

    model_config = _example(turns=["Hello, how are you?"], max_new=40, temperature=0.8, seed=7)

    turns: Annotated[list[Words], Field(min_length=1, max_length=MOST)]


class Attention(Asked):
    """A text whose attention is to be seen."""

    model_config = _example(text="The cat sat because it was tired.")

    text: Words
    second: Words | None = Field(None, description="A second text; of a translator, the translation to look at.")
    layer: Annotated[str, Field(max_length=100)] | None = Field(
        None, description="Give the weights of this attention, such as encoder.0."
    )
    head: int | None = Field(None, ge=0, le=1023, description="Of one head; without, of all.")


class Reload(Asked):
    """Which model to open again; without a name, all."""


def _equal(asked: Any, first: str, second: str) -> Any:
    a, b = getattr(asked, first), getattr(asked, second)
    if isinstance(a, str) != isinstance(b, str) or (isinstance(a, list) and len(a) != len(b)):
        counts = [f"{1 if isinstance(x, str) else len(x)} in {name}" for x, name in ((a, first), (b, second))]
        raise ValueError(f"{counts[0]}, {counts[1]}: give one for each, both as texts or both as lists")
    return asked


class Told(BaseModel):
    """What a fault says."""

    message: str
    type: str
    code: str
    param: str | None


class Error(BaseModel):
    """A fault."""

    error: Told


class Labels(BaseModel):
    """What a text was called, and the score of every label."""

    answer: str | list[str] | float
    scores: dict[str, float]


class Labelled(BaseModel):
    """In the order of the texts."""

    model: str
    answers: list[Labels]


class Marked(BaseModel):
    """A name in a text: its characters from `start` to `end`."""

    label: str
    text: str
    start: int
    end: int


class Tags(BaseModel):
    """The words of a text, the tag of each and how sure it is; and the names that the tags mark."""

    words: list[str]
    tags: list[str]
    scores: list[float]
    names: list[Marked]


class Tagged(BaseModel):
    """In the order of the texts."""

    model: str
    answers: list[Tags]


class Span(BaseModel):
    """A part of the context: its characters from `start` to `end`."""

    text: str
    start: int
    end: int
    score: float
    share: float


class Found(BaseModel):
    """The best span, null where no answer is likelier, and others."""

    best: Span | None
    spans: list[Span]
    none_share: float


class Answered(BaseModel):
    """In the order of the questions."""

    model: str
    answers: list[Found]


class Other(BaseModel):
    """One translation."""

    text: str
    score: float


class Translation(BaseModel):
    """The best translation, others where they were asked for, and which tokens were read for which."""

    text: str
    score: float
    nbest: list[Other]
    source: list[str]
    tokens: list[str]
    alignment: list[list[float]] | None


class Translated(BaseModel):
    """In the order of the texts."""

    model: str
    answers: list[Translation]


class Embedded(BaseModel):
    """In the order of the texts."""

    model: str
    vectors: list[list[float]]
    tokens: list[int]
    cut: list[bool]


class Written(BaseModel):
    """What was written, why it ended ("stop", or "length" at its limit), and the seed that gives it again."""

    model: str
    text: str
    reason: str
    tokens: int
    seed: int | None
    forgotten: int = 0


class Layer(BaseModel):
    """One attention of the model."""

    name: str
    kind: str
    heads: int
    queries: list[str]
    keys: list[str]


class Seen(BaseModel):
    """Where the model looked: its attentions, a page on which they are seen, and weights where they were asked for."""

    model: str
    answer: str | None
    page: str
    layers: list[Layer]
    weights: list[list[list[float]]] | None


class Served(BaseModel):
    """A model that is being served."""

    name: str
    tasks: list[str]
    architecture: str
    parameters: int
    max_len: int | None


class Models(BaseModel):
    """All of them."""

    models: list[Served]


class Reloaded(BaseModel):
    """Which models were opened again."""

    models: list[str]


class Health(BaseModel):
    """How the server is."""

    status: str
    version: str
