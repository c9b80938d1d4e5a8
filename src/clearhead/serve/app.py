"""The application: every task behind one API. A route says what it takes and gives; the engine does the work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib import metadata
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount

from clearhead.serve import asked, openai, page
from clearhead.serve.desk import Desk, Left
from clearhead.serve.engine import Engine, Limits
from clearhead.serve.faults import Fault, broken, closing
from clearhead.serve.guard import Guard, Rules
from clearhead.serve.metrics import Metrics
from clearhead.serve.seen import Gallery
from clearhead.serve.shelf import Shelf, Shelved
from clearhead.serve.streams import EVENTS, STREAMED, Json, sent
from clearhead.serve.work import Vector
from clearhead.serve.writing import How, Whole, prompted, replied

VERSION = metadata.version("clearhead")
FAULTS: dict[int | str, dict[str, Any]] = {
    status: {"model": asked.Error, "description": what}
    for status, what in (
        (400, "Not what a client should send."),
        (401, "A key is missing, or is none of ours."),
        (403, "Asked by a page of another site."),
        (404, "There is no such model, or it cannot do this."),
        (405, "Another method is due."),
        (413, "Too large."),
        (422, "What was asked cannot be; the message says why."),
        (429, "Too much waits already: Retry-After says when to ask again."),
        (500, "Our fault; the log has it under the request's id."),
        (503, "Not now: Retry-After says when to ask again."),
    )
}


def make_app(
    shelf: Shelf, *, limits: Limits | None = None, rules: Rules | None = None, engine: Engine | None = None
) -> Guard:
    """The ASGI application that serves these models, with an engine of its own or this one."""
    engine = Engine(limits) if engine is None else engine
    metrics = engine.metrics
    desk, gallery = Desk(engine, shelf), Gallery()

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncGenerator[None]:
        yield
        await asyncio.to_thread(engine.close)

    app = FastAPI(
        title="clearhead", version=VERSION, lifespan=life, responses=FAULTS, openapi_url=None, docs_url=None,
        description="Attention models, every task behind one API. Errors say the value, the reason and the mend.",
        default_response_class=Json,
    )  # fmt: skip

    @app.exception_handler(Fault)
    async def told(request: Request, fault: Fault) -> Response:  # pyright: ignore[reportUnusedFunction]
        return _fault(fault)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:  # pyright: ignore[reportUnusedFunction]
        return _fault(_first(error))

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:  # pyright: ignore[reportUnusedFunction]
        headers = dict(error.headers or {})
        told = {
            404: "there is no such route: /docs has all that there are",
            405: f"{request.method} is not for this route: ask with {headers.get('Allow', 'another method')}",
        }
        return _fault(Fault(error.status_code, "http", told.get(error.status_code, str(error.detail))), headers)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:  # pyright: ignore[reportUnusedFunction]
        return _fault(broken())  # the guard writes down where it happened

    @app.exception_handler(Left)
    async def left(request: Request, error: Left) -> Response:  # pyright: ignore[reportUnusedFunction]
        return PlainTextResponse("", 499)  # nobody reads it; the log tells it from an answer

    _answering(app, desk)
    _writing(app, desk)
    _looking(app, desk, gallery)
    _running(app, desk, metrics)
    openai.add(app, desk)
    page.add(app)
    app.router.routes.append(Mount("/see", gallery))
    return Guard(app, rules or Rules(), metrics, engine.refuse)


def _fault(fault: Fault, headers: dict[str, str] | None = None) -> Response:
    more = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
    return Json(fault.body(), fault.status, headers={**(headers or {}), **more})


def _first(error: RequestValidationError) -> Fault:
    """The first thing that is wrong, without repeating what was sent."""
    one = error.errors()[0]
    if one["type"] == "json_invalid":
        return Fault(422, "invalid", f"the body is not JSON: {one['ctx']['error']}, at character {one['loc'][-1]}")
    if tuple(one["loc"]) == ("body",) and one["type"] == "model_attributes_type":
        return Fault(422, "invalid", "send a JSON object, and with it the header Content-Type: application/json")
    place = ".".join(str(part) for part in one["loc"] if part != "body" and part not in asked.TAGS)[:200]
    message = one["msg"].removeprefix("Value error, ")
    if one["type"] == "string_unicode":
        message = "it has half of a surrogate pair, which no tokenizer can read: send whole characters"
    count = len(error.errors())
    more = f" (and {count - 1} more)" if count > 1 else ""
    return Fault(422, "invalid", f"{place}: {message}{more}" if place else f"{message}{more}", param=place or None)


def _answering(app: FastAPI, desk: Desk) -> None:
    """Routes that answer a text with an answer."""

    async def answers(request: Request, task: str, name: str | None, values: list[Any], *options: Any) -> Any:
        model = desk.shelf.of(name, task)
        request.scope["noted"] = {"model": model.name, "count": len(values)}
        return model, await desk.answers(request, model, task, values, options)

    @app.post("/classify", response_model=asked.Labelled, tags=["tasks"])
    async def classify(body: asked.Classify, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """What each text is called, with the scores of all labels."""
        model, found = await answers(request, "classify", body.model, asked.many(body.text))
        return Json({"model": model.name, "answers": [_labels(one) for one in found]})

    @app.post("/pair", response_model=asked.Labelled, tags=["tasks"])
    async def pair(body: asked.Pair, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """What each pair of texts is called, or how alike they are."""
        pairs = list(zip(asked.many(body.text), asked.many(body.second), strict=True))
        model, found = await answers(request, "pair", body.model, pairs)
        return Json({"model": model.name, "answers": [_labels(one) for one in found]})

    @app.post("/tag", response_model=asked.Tagged, tags=["tasks"])
    async def tag(body: asked.Tagging, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """The tags of the words of each text, and the names they mark."""
        model, found = await answers(request, "tag", body.model, asked.many(body.text))
        return Json({"model": model.name, "answers": [asdict(one) for one in found]})

    @app.post("/qa", response_model=asked.Answered, tags=["tasks"])
    async def qa(body: asked.Qa, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """Where the answer to a question stands in its text."""
        pairs = list(zip(asked.many(body.question), asked.many(body.context), strict=True))
        model, found = await answers(request, "qa", body.model, pairs, body.nbest)
        told = [{"best": one.best, "spans": one.spans, "none_share": one.none_share} for one in found]
        return Json({"model": model.name, "answers": told})

    @app.post("/translate", response_model=asked.Translated, tags=["tasks"])
    async def translate(body: asked.Translate, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """A translation of each text, with others and with what was read for what where these are asked for."""
        writer = desk.shelf.of(body.model, "translate").app
        try:
            beam = writer.beam(body.beam, length_penalty=body.length_penalty, nbest=body.nbest, default=5)
            writer.writer.room(1, body.max_len, 1)
        except ValueError as error:
            raise Fault(422, "invalid", str(error)) from None
        options = beam, body.max_len, body.align
        model, found = await answers(request, "translate", body.model, asked.many(body.text), *options)
        return Json({"model": model.name, "answers": [_translation(one) for one in found]})

    @app.post("/embed", response_model=asked.Embedded, tags=["tasks"])
    async def embed(body: asked.Embed, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """A vector for each text."""
        found: list[Vector]
        model, found = await answers(request, "embed", body.model, asked.many(body.text), body.pool, body.normalize)
        return Json(
            {
                "model": model.name,
                "vectors": [one.values for one in found],
                "tokens": [one.tokens for one in found],
                "cut": [one.cut for one in found],
            }
        )


def _labels(found: Any) -> dict[str, Any]:
    return {"answer": found.answer, "scores": dict(found.scores)}


def _translation(found: Any) -> dict[str, Any]:
    return {
        "text": found.text,
        "score": found.score,
        "nbest": [{"text": one.text, "score": one.score} for one in found.nbest],
        "source": found.source,
        "tokens": found.tokens,
        "alignment": found.alignment,
    }


def _writing(app: FastAPI, desk: Desk) -> None:
    """Routes that write on."""

    def how(body: asked.Generate | asked.Chat) -> How:
        return How(
            max_new=body.max_new, temperature=body.temperature, top_k=body.top_k, top_p=body.top_p, seed=body.seed,
            stop=tuple(body.stop),
        )  # fmt: skip

    async def write(request: Request, model: Shelved, body: Any, what: Any, forgotten: int = 0) -> Response:
        request.scope["noted"] = {"model": model.name, "tokens": len(what.row)}
        seed = what.draw.seed if what.draw.temperature > 0 else None
        if body.stream:
            return StreamingResponse(_events(desk, request, model, what, seed, forgotten), media_type=EVENTS)
        whole = Whole.of(await desk.whole(request, model, what))
        return Json({"model": model.name, **asdict(whole), "seed": seed, "forgotten": forgotten})

    @app.post("/generate", response_model=asked.Written, tags=["tasks"], responses=STREAMED)
    async def generate(body: asked.Generate, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """What a language model writes after a prompt, whole or as it is written."""
        model = desk.shelf.of(body.model, "generate")
        return await write(request, model, body, prompted(model, body.prompt, how(body)))

    @app.post("/chat", response_model=asked.Written, tags=["tasks"], responses=STREAMED)
    async def chat(body: asked.Chat, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """The next turn of a dialogue; `forgotten` are the oldest turns, which the model could not read."""
        model = desk.shelf.of(body.model, "chat")
        forgotten, what = replied(model, body.turns, how(body))
        return await write(request, model, body, what, forgotten)


async def _events(
    desk: Desk, request: Request, model: Shelved, what: Any, seed: int | None, forgotten: int
) -> AsyncIterator[bytes]:
    """Server-sent events: pieces of text, and at the end what a whole answer says besides."""
    count = 0
    try:
        async for said in desk.pieces(request, model, what):
            count += 1
            event: dict[str, Any] = {"text": said.text}
            if said.reason is not None:
                event |= {
                    "reason": said.reason, "tokens": count, "seed": seed, "model": model.name, "forgotten": forgotten,
                }  # fmt: skip
            elif not said.text:
                continue
            yield sent(event)
    except Fault as fault:
        yield sent(fault.body())


def _looking(app: FastAPI, desk: Desk, gallery: Gallery) -> None:
    @app.post("/attention", response_model=asked.Seen, tags=["attention"])
    async def attention(body: asked.Attention, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """Where a model looks: a page to see it on, and the exact weights of a layer where one is named."""
        model = desk.shelf.of(body.model, "attention")
        request.scope["noted"] = {"model": model.name, "count": 1}
        return Json(await gallery.look(request, desk, model, body))


def _running(app: FastAPI, desk: Desk, metrics: Metrics) -> None:
    """How the server is, and what it serves."""

    @app.get("/health", response_model=asked.Health, tags=["server"])
    async def health() -> Response:  # pyright: ignore[reportUnusedFunction]
        """Does the process live, and its engine with it?"""
        alive = desk.engine.is_alive
        return Json({"status": "ok" if alive else "dead", "version": VERSION}, 200 if alive else 503)

    @app.get("/ready", response_model=asked.Health, tags=["server"])
    async def ready(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """May requests be sent here? Not any more, once the server is shutting down."""
        if request.scope["leaving"]:
            raise closing()
        return Json({"status": "ready", "version": VERSION})

    @app.get("/metrics", tags=["server"], response_class=PlainTextResponse)
    async def measured() -> Response:  # pyright: ignore[reportUnusedFunction]
        """What Prometheus reads."""
        content, kind = metrics.text()
        return Response(content, media_type=kind)

    @app.get("/models", response_model=asked.Models, tags=["server"])
    async def models() -> Response:  # pyright: ignore[reportUnusedFunction]
        """What is served, and what it can do."""
        return Json({"models": [_served(one) for one in desk.shelf.all()]})

    @app.post("/reload", response_model=asked.Reloaded, tags=["server"])
    async def reload(body: asked.Reload) -> Response:  # pyright: ignore[reportUnusedFunction]
        """Open a model's folder again, or all; requests that are being answered end with what they began with."""
        before = desk.shelf.all()
        try:
            names = await asyncio.to_thread(desk.shelf.reload, body.model)
        except (ValueError, OSError) as error:
            raise Fault(422, "reload", f"what is served stays as it is: {error}", param="model") from None
        for old in before:
            if old.name in names:
                desk.engine.retire(old)
        return Json({"models": names})


def _served(one: Shelved) -> dict[str, Any]:
    opened = one.app.opened
    return {
        "name": one.name,
        "tasks": one.tasks,
        "architecture": opened.architecture,
        "parameters": sum(p.numel() for p in opened.model.parameters()),
        "max_len": one.app.max_len,
    }
