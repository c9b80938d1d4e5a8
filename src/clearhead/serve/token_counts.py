"""Token counts of a request's values, by the model's own tokenizer: the unit of the queue and of a batch."""

from collections.abc import Iterator, Sequence
from typing import Any

from clearhead.serve.continuous_batch import GenerationRequest
from clearhead.serve.errors import bad_request
from clearhead.serve.model_registry import ServedModel
from clearhead.tasks.image_inputs import ResizedImage

CHUNK_CHARACTERS = 2**16  # tokenized in one go: the requests of others run in between
TRUNCATED_WORK = ("embed", "translate")  # reads the first tokens of a long text; other work reads it in windows


def min_tokens(values: Sequence[Any]) -> int:
    """Returns a lower bound of the token count, without tokenizing: a long text may be a single unknown word."""
    return sum(_request_tokens(value) if isinstance(value, GenerationRequest) else 1 for value in values)


def chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Splits values into runs of at most `CHUNK_CHARACTERS`, at least one value each."""
    start = size = 0
    for i, value in enumerate(values):
        length = len(value) if isinstance(value, str) else sum(map(len, value)) if isinstance(value, tuple) else 0
        if i > start and size + length > CHUNK_CHARACTERS:
            yield values[start:i]
            start, size = i, 0
        size += length
    yield values[start:]


def count_tokens(model: ServedModel, work: str, values: Sequence[Any]) -> list[int]:
    """Returns the tokens of each text or pair, special tokens included; prompts count with their maximum new tokens."""
    if values and isinstance(values[0], ResizedImage):
        patches = model.pipeline.loaded.config.patches
        return [1 if patches is None else patches.num_tokens] * len(values)
    if not values or not isinstance(values[0], str | tuple):
        return [_request_tokens(value) if isinstance(value, GenerationRequest) else 1 for value in values]
    max_len = model.pipeline.max_len if work in TRUNCATED_WORK else None
    if isinstance(values[0], str):
        prefix = model.pipeline.sentence.prompt() if work == "embed" else ""
        first, second = [prefix + text for text in values], None
    else:
        first, second = map(list, zip(*values, strict=True))
    try:
        tokens = model.pipeline.tokenizer(first, second, max_len=max_len, offsets=False)
    except ValueError as error:
        raise bad_request(str(error)) from None
    return list(tokens.layout.host_lengths)


def _request_tokens(request: GenerationRequest) -> int:
    return len(request.prompt_ids) + request.max_new_tokens
