"""OpenAI-compatible routes: embeddings, completions and chat completions, with streaming."""

import asyncio
import base64
import secrets
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from clearhead.serve.batch_ops import EmbeddedText
from clearhead.serve.continuous_batch import GenerationChunk, GenerationRequest
from clearhead.serve.dispatcher import Dispatcher
from clearhead.serve.errors import ApiError, bad_request
from clearhead.serve.generation import CompletedText, GenerationOptions, chat_request, completion_request
from clearhead.serve.model_registry import ServedModel
from clearhead.serve.schemas import MAX_NEW_TOKENS, MAX_TEXTS, Float, Prompts, Seed, Stops, Texts, Words, as_list
from clearhead.serve.sse import EVENTS, STREAMED, OrjsonResponse, sse_event

DEFAULT_MAX_TOKENS = 16  # of a completion, as in OpenAI's API


class _OpenAIRequest(BaseModel):
    """Base of OpenAI's request bodies. Unknown fields are ignored: clients send others, such as `user`."""

    model: Annotated[str, Field(min_length=1, max_length=200)] = Field(description="Name of the model.")


class EmbeddingsRequest(_OpenAIRequest):
    """Texts to embed."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "minilm", "input": "A dog runs."}]})

    input: Texts = Field(description="A text, or a list of texts.")
    encoding_format: Literal["float", "base64"] = Field("float", description="How the numbers are written.")
    dimensions: int | None = Field(None, ge=1, le=2**16, description="Must equal the model's width.")


class _OpenAISamplingRequest(_OpenAIRequest):
    """Sampling parameters."""

    temperature: Float | None = Field(None, ge=0, le=2, description="0 is greedy. Default: the model's.")
    top_p: Float | None = Field(
        None, gt=0, le=1, description="Sample from the smallest set of tokens with this total probability."
    )
    n: int = Field(1, ge=1, le=16, description="Number of texts to return.")
    stream: bool = Field(False, description="Return server-sent events, one for each chunk of text.")
    stream_options: dict[str, Any] | None = Field(None, description="`include_usage`: the last event counts tokens.")
    stop: Stops | None = Field(None, description="Stop strings: generation ends before the first one.")
    seed: Seed = Field(None, description="Random seed: the same seed gives the same text.")

    def options(self, max_new_tokens: int | None, number: int) -> GenerationOptions:
        """Returns the generation options of choice `number`; each of the `n` choices has its own seed."""
        seed = None if self.seed is None else (self.seed + number) % 2**63
        stop = () if self.stop is None else tuple(as_list(self.stop))
        return GenerationOptions(
            max_new_tokens=max_new_tokens, temperature=self.temperature, top_p=self.top_p, seed=seed, stop=stop
        )

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with the token counts."""
        return bool((self.stream_options or {}).get("include_usage"))


class CompletionsRequest(_OpenAISamplingRequest):
    """One or several prompts to continue."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model": "gpt", "prompt": "The old man", "max_tokens": 20, "temperature": 0}]}
    )

    prompt: Prompts = Field(description="A prompt, or a list of prompts.")
    max_tokens: int | None = Field(None, ge=1, le=MAX_NEW_TOKENS, description="Maximum number of generated tokens.")
    echo: Literal[False] = Field(False, description="The prompt is not repeated in the answer.")


class ChatMessage(BaseModel):
    """One message of a dialogue."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Words


class ChatCompletionsRequest(_OpenAISamplingRequest):
    """The messages of a dialogue."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"model": "dialogue", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 20}]
        }
    )

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_TEXTS)] = Field(
        description="The dialogue so far, oldest first; the last message is the user's."
    )
    max_tokens: int | None = Field(None, ge=1, le=MAX_NEW_TOKENS, description="Maximum number of generated tokens.")
    max_completion_tokens: int | None = Field(
        None, ge=1, le=MAX_NEW_TOKENS, description="The newer name of `max_tokens`."
    )


class Usage(BaseModel):
    """Token counts."""

    prompt_tokens: int
    total_tokens: int
    completion_tokens: int = 0


class EmbeddingsResponse(BaseModel):
    """Embeddings in OpenAI's format."""

    object: Literal["list"]
    model: str
    data: list[dict[str, Any]]
    usage: Usage


class CompletionResponse(BaseModel):
    """A completion in OpenAI's format."""

    id: str
    object: str
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: Usage


class ModelEntry(BaseModel):
    """A model in OpenAI's format."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(BaseModel):
    """All models in OpenAI's format."""

    object: Literal["list"]
    data: list[ModelEntry]


def add_openai_routes(app: FastAPI, dispatcher: Dispatcher) -> None:
    """Adds the routes under /v1."""
    router = APIRouter(prefix="/v1", tags=["openai"])

    async def models() -> Response:
        """The served models."""
        return OrjsonResponse({"object": "list", "data": [_model_entry(model) for model in dispatcher.registry.all()]})

    async def model(name: Annotated[str, Field(max_length=200)]) -> Response:
        """One served model."""
        return OrjsonResponse(_model_entry(dispatcher.registry.find(name, "attention")))

    async def embeddings(body: EmbeddingsRequest, request: Request) -> Response:
        """Embeddings: one vector per text."""
        model = dispatcher.registry.find(body.model, "embed")
        texts = as_list(body.input)
        request.scope["log_fields"] = {"model": model.name, "count": len(texts)}
        results: list[EmbeddedText] = await dispatcher.answers(request, model, "embed", texts, (None, None))
        width = len(results[0].values)
        if body.dimensions is not None and body.dimensions != width:
            message = f"{body.dimensions} dimensions are not available: the vectors of {model.name} have {width}"
            raise bad_request(message, "dimensions")
        vectors: list[Any] = [result.values for result in results]
        if body.encoding_format == "base64":
            vectors = [base64.b64encode(vector.numpy().astype("<f4").tobytes()).decode() for vector in vectors]
        data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        tokens = sum(result.tokens for result in results)
        return OrjsonResponse({"object": "list", "model": model.name, "data": data, "usage": _usage(tokens, 0)})

    async def completions(body: CompletionsRequest, request: Request) -> Response:
        """Text generation from a prompt."""
        model = dispatcher.registry.find(body.model, "generate")
        limit = DEFAULT_MAX_TOKENS if body.max_tokens is None else body.max_tokens
        options = [body.options(limit, number) for number in range(body.n)]
        generations: list[GenerationRequest] = []
        for prompt in as_list(body.prompt):
            generations += await dispatcher.tokenize(_completions, model, prompt, options)
        return await _respond(dispatcher, request, model, generations, body, chat=False)

    async def chat(body: ChatCompletionsRequest, request: Request) -> Response:
        """The next turn of a dialogue."""
        model = dispatcher.registry.find(body.model, "chat")
        turns = [message.content for message in body.messages]
        limit = body.max_completion_tokens or body.max_tokens
        options = [body.options(limit, number) for number in range(body.n)]
        generations = [(await dispatcher.tokenize(chat_request, model, turns, each))[1] for each in options]
        return await _respond(dispatcher, request, model, generations, body, chat=True)

    router.get("/models", response_model=ModelList)(models)
    router.get("/models/{name}", response_model=ModelEntry)(model)
    router.post("/embeddings", response_model=EmbeddingsResponse)(embeddings)
    router.post("/completions", response_model=CompletionResponse, responses=STREAMED)(completions)
    router.post("/chat/completions", response_model=CompletionResponse, responses=STREAMED)(chat)
    app.include_router(router)


def _model_entry(model: ServedModel) -> dict[str, Any]:
    return {"id": model.name, "object": "model", "created": model.created, "owned_by": "clearhead"}


def _completions(model: ServedModel, prompt: str, options: list[GenerationOptions]) -> list[GenerationRequest]:
    return [completion_request(model, prompt, each) for each in options]


async def _respond(
    dispatcher: Dispatcher,
    request: Request,
    model: ServedModel,
    generations: list[GenerationRequest],
    body: _OpenAISamplingRequest,
    *,
    chat: bool,
) -> Response:
    kind = "chat.completion" if chat else "text_completion"
    name = ("chatcmpl-" if chat else "cmpl-") + secrets.token_hex(12)
    request.scope["log_fields"] = {"model": model.name, "count": len(generations)}
    head = {"id": name, "object": kind, "created": int(time.time()), "model": model.name}
    prompt_tokens = sum(len(generation.prompt_ids) for generation in generations)
    if body.stream:
        head["object"] = f"{kind}.chunk" if chat else kind
        events = _stream(dispatcher, request, model, generations, body, head, chat, prompt_tokens)
        return StreamingResponse(events, media_type=EVENTS)
    results = await asyncio.gather(*(dispatcher.complete(request, model, one) for one in generations))
    completed = [CompletedText.from_chunks(chunks) for chunks in results]
    choices = [
        {
            "index": i,
            "finish_reason": text.finish_reason,
            "logprobs": None,
            **({"message": {"role": "assistant", "content": text.text}} if chat else {"text": text.text}),
        }
        for i, text in enumerate(completed)
    ]
    usage = _usage(prompt_tokens, sum(text.tokens for text in completed))
    return OrjsonResponse({**head, "choices": choices, "usage": usage})


async def _stream(
    dispatcher: Dispatcher,
    request: Request,
    model: ServedModel,
    generations: list[GenerationRequest],
    body: _OpenAISamplingRequest,
    head: dict[str, Any],
    chat: bool,
    prompt_tokens: int,
) -> AsyncIterator[bytes]:
    """Yields the chunks of all choices as they arrive, then [DONE]."""
    queue: asyncio.Queue[tuple[int, GenerationChunk | ApiError]] = asyncio.Queue()

    async def feed(number: int, generation: GenerationRequest) -> None:
        try:
            async for chunk in dispatcher.stream(request, model, generation):
                queue.put_nowait((number, chunk))
        except ApiError as error:
            queue.put_nowait((number, error))

    feeders = [asyncio.ensure_future(feed(i, generation)) for i, generation in enumerate(generations)]
    try:
        unfinished, count = len(generations), 0
        if chat:
            for i in range(unfinished):
                yield sse_event({**head, "choices": [_delta(i, {"role": "assistant", "content": ""}, None)]})
        while unfinished:
            number, chunk = await queue.get()
            if isinstance(chunk, ApiError):
                yield sse_event(chunk.body())
                return
            count += 1
            reason = chunk.finish_reason
            unfinished -= reason is not None
            if chunk.text:
                choice = _delta(number, {"content": chunk.text}, None) if chat else _text(number, chunk.text, reason)
                yield sse_event({**head, "choices": [choice]})
            if reason is not None and (chat or not chunk.text):
                last = _delta(number, {}, reason) if chat else _text(number, "", reason)
                yield sse_event({**head, "choices": [last]})
        if body.includes_usage:
            yield sse_event({**head, "choices": [], "usage": _usage(prompt_tokens, count)})
        yield b"data: [DONE]\n\n"
    finally:
        for feeder in feeders:
            feeder.cancel()


def _delta(index: int, delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": reason, "logprobs": None}


def _text(index: int, text: str, reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "finish_reason": reason, "logprobs": None}


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
