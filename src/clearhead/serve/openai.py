"""OpenAI's routes: embeddings, completions and chat as its clients ask for them, streams included."""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from clearhead.serve.asked import MOST, WRITTEN, Float, Prompts, Seed, Stops, Texts, Words, many
from clearhead.serve.desk import Desk
from clearhead.serve.faults import Fault, wrong
from clearhead.serve.growing import Asked, Said
from clearhead.serve.shelf import Shelved
from clearhead.serve.streams import EVENTS, STREAMED, Json, sent
from clearhead.serve.work import Vector
from clearhead.serve.writing import How, Whole, prompted, replied

TOKENS = 16  # of a completion where nobody says, as OpenAI has it


class _Open(BaseModel):
    """Clients send fields of their own (`user`, `metadata`): what is not known here is passed over."""

    model: Annotated[str, Field(min_length=1, max_length=200)]


class Embeddings(_Open):
    """Texts to turn into vectors."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "minilm", "input": "A dog runs."}]})

    input: Texts
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(None, ge=1, le=2**16, description="Must be what the model gives.")


class _Drawn(_Open):
    """How tokens are chosen; what is asked for and cannot be done here is a fault."""

    temperature: Float | None = Field(None, ge=0, le=2)
    top_p: Float | None = Field(None, gt=0, le=1)
    n: int = Field(1, ge=1, le=16)
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    stop: Stops | None = None
    seed: Seed = None

    def how(self, max_new: int | None, number: int) -> How:
        """The same, as it is said here; each of `n` answers has a seed of its own."""
        seed = None if self.seed is None else (self.seed + number) % 2**63
        stop = () if self.stop is None else tuple(many(self.stop))
        return How(max_new=max_new, temperature=self.temperature, top_p=self.top_p, seed=seed, stop=stop)

    @property
    def counts(self) -> bool:
        """Should a stream end with how many tokens there were?"""
        return bool((self.stream_options or {}).get("include_usage"))


class Completions(_Drawn):
    """A prompt to go on from."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model": "gpt", "prompt": "The old man", "max_tokens": 20, "temperature": 0}]}
    )

    prompt: Prompts
    max_tokens: int | None = Field(None, ge=1, le=WRITTEN)
    echo: Literal[False] = False


class Message(BaseModel):
    """One turn."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Words


class ChatCompletions(_Drawn):
    """The messages of a dialogue."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"model": "dialogue", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 20}]
        }
    )

    messages: Annotated[list[Message], Field(min_length=1, max_length=MOST)]
    max_tokens: int | None = Field(None, ge=1, le=WRITTEN)
    max_completion_tokens: int | None = Field(None, ge=1, le=WRITTEN)


class Usage(BaseModel):
    """Tokens read and written."""

    prompt_tokens: int
    total_tokens: int
    completion_tokens: int = 0


class Vectors(BaseModel):
    """As OpenAI's clients read them."""

    object: Literal["list"]
    model: str
    data: list[dict[str, Any]]
    usage: Usage


class Completion(BaseModel):
    """As OpenAI's clients read it."""

    id: str
    object: str
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: Usage


class Listed(BaseModel):
    """One model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class Listing(BaseModel):
    """All models."""

    object: Literal["list"]
    data: list[Listed]


def add(app: FastAPI, desk: Desk) -> None:
    """Put the routes under /v1."""
    router = APIRouter(prefix="/v1", tags=["openai"])

    @router.get("/models", response_model=Listing)
    async def models() -> Response:  # pyright: ignore[reportUnusedFunction]
        """What is served."""
        return Json({"object": "list", "data": [_listed(one) for one in desk.shelf.all()]})

    @router.get("/models/{name}", response_model=Listed)
    async def model(name: Annotated[str, Field(max_length=200)]) -> Response:  # pyright: ignore[reportUnusedFunction]
        """One of them."""
        return Json(_listed(desk.shelf.of(name, "attention")))

    @router.post("/embeddings", response_model=Vectors)
    async def embeddings(body: Embeddings, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """A vector for each text."""
        model = desk.shelf.of(body.model, "embed")
        texts = many(body.input)
        request.scope["noted"] = {"model": model.name, "count": len(texts)}
        found: list[Vector] = await desk.answers(request, model, "embed", texts, (None, None))
        width = len(found[0].values)
        if body.dimensions is not None and body.dimensions != width:
            raise wrong(f"{body.dimensions} dimensions: {model.name} gives {width}", "dimensions")
        base64_asked = body.encoding_format == "base64"
        data = [
            {"object": "embedding", "index": i, "embedding": _base64(one) if base64_asked else one.values}
            for i, one in enumerate(found)
        ]
        tokens = sum(one.tokens for one in found)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}
        return Json({"object": "list", "model": model.name, "data": data, "usage": usage})

    @router.post("/completions", response_model=Completion, responses=STREAMED)
    async def completions(body: Completions, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """What a language model writes after a prompt."""
        model = desk.shelf.of(body.model, "generate")
        limit = TOKENS if body.max_tokens is None else body.max_tokens
        all_asked = [
            prompted(model, prompt, body.how(limit, number)) for prompt in many(body.prompt) for number in range(body.n)
        ]
        return await _written(desk, request, model, all_asked, body, chat=False)

    @router.post("/chat/completions", response_model=Completion, responses=STREAMED)
    async def chat(body: ChatCompletions, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """The next turn of a dialogue."""
        model = desk.shelf.of(body.model, "chat")
        turns = [message.content for message in body.messages]
        limit = body.max_completion_tokens or body.max_tokens
        all_asked = [replied(model, turns, body.how(limit, number))[1] for number in range(body.n)]
        return await _written(desk, request, model, all_asked, body, chat=True)

    app.include_router(router)


def _listed(one: Shelved) -> dict[str, Any]:
    return {"id": one.name, "object": "model", "created": one.made, "owned_by": "clearhead"}


def _base64(one: Vector) -> str:
    return base64.b64encode(one.values.numpy().astype("<f4").tobytes()).decode()


async def _written(
    desk: Desk, request: Request, model: Shelved, all_asked: list[Asked], body: _Drawn, *, chat: bool
) -> Response:
    kind = "chat.completion" if chat else "text_completion"
    name = ("chatcmpl-" if chat else "cmpl-") + secrets.token_hex(12)
    request.scope["noted"] = {"model": model.name, "count": len(all_asked)}
    head = {"id": name, "object": kind, "created": int(time.time()), "model": model.name}
    read = sum(len(one.row) for one in all_asked)
    if body.stream:
        head["object"] = f"{kind}.chunk" if chat else kind
        return StreamingResponse(_stream(desk, request, model, all_asked, body, head, chat, read), media_type=EVENTS)
    wholes = [Whole.of(p) for p in await asyncio.gather(*(desk.whole(request, model, one) for one in all_asked))]
    choices = [
        {
            "index": i,
            "finish_reason": whole.reason,
            "logprobs": None,
            **({"message": {"role": "assistant", "content": whole.text}} if chat else {"text": whole.text}),
        }
        for i, whole in enumerate(wholes)
    ]
    return Json({**head, "choices": choices, "usage": _usage(read, sum(whole.tokens for whole in wholes))})


async def _stream(
    desk: Desk, request: Request, model: Shelved, all_asked: list[Asked], body: _Drawn, head: dict[str, Any],
    chat: bool, read: int,
) -> AsyncIterator[bytes]:  # fmt: skip
    """Chunks of all choices as they come, then the mark of the end."""
    queue: asyncio.Queue[tuple[int, Said | Fault]] = asyncio.Queue()

    async def feed(number: int, one: Asked) -> None:
        try:
            async for said in desk.pieces(request, model, one):
                queue.put_nowait((number, said))
        except Fault as fault:
            queue.put_nowait((number, fault))

    feeders = [asyncio.ensure_future(feed(i, one)) for i, one in enumerate(all_asked)]
    try:
        left, count = len(all_asked), 0
        if chat:
            for i in range(left):
                yield sent({**head, "choices": [_chunk(i, {"role": "assistant", "content": ""}, None)]})
        while left:
            number, said = await queue.get()
            if isinstance(said, Fault):
                yield sent(said.body())
                return
            count += 1
            left -= said.reason is not None
            if said.text:
                piece = _chunk(number, {"content": said.text}, None) if chat else _piece(number, said.text, said.reason)
                yield sent({**head, "choices": [piece]})
            if said.reason is not None and (chat or not said.text):
                last = _chunk(number, {}, said.reason) if chat else _piece(number, "", said.reason)
                yield sent({**head, "choices": [last]})
        if body.counts:
            yield sent({**head, "choices": [], "usage": _usage(read, count)})
        yield b"data: [DONE]\n\n"
    finally:
        for feeder in feeders:
            feeder.cancel()


def _chunk(index: int, delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": reason, "logprobs": None}


def _piece(index: int, text: str, reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "finish_reason": reason, "logprobs": None}


def _usage(read: int, written: int) -> dict[str, int]:
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
