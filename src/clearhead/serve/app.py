"""The application: every task behind one HTTP API. Routes validate and format; the engine computes."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict
from importlib import metadata
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount

from clearhead.decode import BeamConfig, Hypothesis
from clearhead.serve import openai, page, schemas
from clearhead.serve.attention_pages import AttentionPages
from clearhead.serve.batch_ops import EmbeddedText
from clearhead.serve.continuous_batch import GenerationRequest
from clearhead.serve.dispatcher import ClientDisconnected, Dispatcher
from clearhead.serve.engine import Engine, EngineLimits
from clearhead.serve.errors import ApiError, internal_error, shutting_down
from clearhead.serve.generation import CompletedText, GenerationOptions, chat_request, completion_request
from clearhead.serve.images import decode_image
from clearhead.serve.middleware import SecurityConfig, SecurityMiddleware
from clearhead.serve.model_registry import IMAGE_TASK, ModelRegistry, ServedModel
from clearhead.serve.prometheus import ServerMetrics
from clearhead.serve.sse import EVENTS, STREAMED, OrjsonResponse, sse_event
from clearhead.tasks.image_inputs import ResizedImage

VERSION = metadata.version("clearhead")
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorBody, "description": description}
    for status, description in (
        (400, "Bad request, such as an unknown host name."),
        (401, "The API key is missing or invalid."),
        (403, "Cross-site request from a browser."),
        (404, "The model does not exist or does not support this task."),
        (405, "Method not allowed."),
        (413, "The request body is too large."),
        (422, "The request is invalid; the message names the field and the reason."),
        (429, "The queue is full; retry after the time in Retry-After."),
        (500, "Internal server error; the log has the details under the request's id."),
        (503, "Temporarily unavailable; retry after the time in Retry-After."),
    )
}
_ERRORS_IN_JSON: dict[int | str, dict[str, Any]] = {
    status: {
        "description": response["description"],
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}},
    }
    for status, response in ERROR_RESPONSES.items()
}
TEXT_ROUTE: dict[str, Any] = {"response_class": PlainTextResponse, "responses": _ERRORS_IN_JSON}  # it answers with text


def make_app(
    registry: ModelRegistry,
    *,
    limits: EngineLimits | None = None,
    security: SecurityConfig | None = None,
    engine: Engine | None = None,
) -> SecurityMiddleware:
    """Returns the ASGI application that serves these models, with a new engine or the given one."""
    engine = Engine(limits) if engine is None else engine
    metrics = engine.metrics
    dispatcher, pages = Dispatcher(engine, registry), AttentionPages()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        yield
        await asyncio.to_thread(dispatcher.close)

    app = new_app("Attention models: every task behind one API.", lifespan)
    _add_task_routes(app, dispatcher)
    _add_generation_routes(app, dispatcher)
    _add_attention_route(app, dispatcher, pages)
    _add_server_routes(app, dispatcher, metrics)
    openai.add_openai_routes(app, dispatcher)
    page.add_page(app)
    app.router.routes.append(Mount("/see", pages))
    return SecurityMiddleware(app, security or SecurityConfig(), metrics, engine.refuse)


def new_app(description: str, lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]]) -> FastAPI:
    """Returns an application without routes whose errors are all of one form."""
    return FastAPI(
        title="clearhead", version=VERSION, lifespan=lifespan, responses=ERROR_RESPONSES, openapi_url=None,
        docs_url=None, default_response_class=OrjsonResponse,
        description=f"{description} An error says what was given, why it is refused and how to fix it.",
        exception_handlers={
            ApiError: _api_error, RequestValidationError: _invalid, HTTPException: _http_error, Exception: _failed,
            ClientDisconnected: _disconnected,
        },
    )  # fmt: skip


async def _api_error(request: Request, error: ApiError) -> Response:
    return _error_response(error)


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    return _error_response(_first_error(error))


async def _http_error(request: Request, error: HTTPException) -> Response:
    headers = dict(error.headers or {})
    allowed = headers.get("Allow", "another method")
    code, message = {
        404: ("not_found", "this path does not exist: see /docs for all routes"),
        405: ("method_not_allowed", f"{request.method} is not allowed for this route: use {allowed}"),
    }.get(error.status_code, ("http", str(error.detail)))
    return _error_response(ApiError(error.status_code, code, message), headers)


async def _failed(request: Request, error: Exception) -> Response:
    return _error_response(internal_error())  # the middleware logs where it happened


async def _disconnected(request: Request, error: ClientDisconnected) -> Response:
    return PlainTextResponse("", 499)  # not received by anyone; the status separates it in log and metrics


def _error_response(error: ApiError, headers: dict[str, str] | None = None) -> Response:
    more = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    return OrjsonResponse(error.body(), error.status, headers={**(headers or {}), **more})


def _first_error(error: RequestValidationError) -> ApiError:
    """Converts the first validation error, without repeating what was sent."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        message = f"the body is not valid JSON: {first['ctx']['error']}, at character {first['loc'][-1]}"
        return ApiError(422, "invalid", message)
    if tuple(first["loc"]) == ("body",) and first["type"] == "model_attributes_type":
        return ApiError(422, "invalid", "send a JSON object with the header Content-Type: application/json")
    field = ".".join(str(part) for part in first["loc"] if part != "body" and part not in schemas.TAGS)[:200]
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "string_unicode":
        message = "the text contains an unpaired surrogate, which cannot be tokenized: send complete characters"
    count = len(error.errors())
    more = f" (and {count - 1} more)" if count > 1 else ""
    return ApiError(422, "invalid", f"{field}: {message}{more}" if field else f"{message}{more}", param=field or None)


def _add_task_routes(app: FastAPI, dispatcher: Dispatcher) -> None:
    """Adds the routes with one result per text."""

    async def run(request: Request, task: str, name: str | None, values: list[Any], *options: Any) -> Any:
        model = dispatcher.registry.find(name, task)
        request.scope["log_fields"] = {"model": model.name, "count": len(values)}
        return model, await dispatcher.answers(request, model, task, values, options)

    async def decode(model: ServedModel, given: str | list[str]) -> list[ResizedImage]:
        files = schemas.as_list(given)
        return [await dispatcher.tokenize(decode_image, model, file, i) for i, file in enumerate(files)]

    async def classify(body: schemas.ClassifyRequest, request: Request) -> Response:
        """Classification: the label of each text or image, with the scores of all labels."""
        if body.image is not None:
            images = await decode(dispatcher.registry.find(body.model, IMAGE_TASK), body.image)
            model, results = await run(request, IMAGE_TASK, body.model, images)
        else:
            assert body.text is not None  # checked by the schema
            model, results = await run(request, "classify", body.model, schemas.as_list(body.text))
        return OrjsonResponse({"model": model.name, "answers": [_classification(result) for result in results]})

    async def pair(body: schemas.PairRequest, request: Request) -> Response:
        """Text-pair classification: the label or the similarity score of each pair of texts."""
        pairs = list(zip(schemas.as_list(body.text), schemas.as_list(body.second), strict=True))
        model, results = await run(request, "pair", body.model, pairs)
        return OrjsonResponse({"model": model.name, "answers": [_classification(result) for result in results]})

    async def tag(body: schemas.TagRequest, request: Request) -> Response:
        """Token classification: the tag of each word, and the named entities."""
        model, results = await run(request, "tag", body.model, schemas.as_list(body.text))
        return OrjsonResponse({"model": model.name, "answers": [asdict(result) for result in results]})

    async def qa(body: schemas.QaRequest, request: Request) -> Response:
        """Extractive question answering: the spans of each context that answer its question."""
        pairs = list(zip(schemas.as_list(body.question), schemas.as_list(body.context), strict=True))
        model, results = await run(request, "qa", body.model, pairs, body.nbest)
        fields = schemas.QaAnswer.model_fields
        answers = [{name: getattr(result, name) for name in fields} for result in results]
        return OrjsonResponse({"model": model.name, "answers": answers})

    async def translate(body: schemas.TranslateRequest, request: Request) -> Response:
        """Translation of each text; optionally with alternatives and with token alignments."""
        options = _beam(dispatcher.registry.find(body.model, "translate"), body), body.max_len, body.align
        model, results = await run(request, "translate", body.model, schemas.as_list(body.text), *options)
        return OrjsonResponse({"model": model.name, "answers": [_translation(result) for result in results]})

    async def caption(body: schemas.CaptionRequest, request: Request) -> Response:
        """A text about each image; optionally with alternatives."""
        served = dispatcher.registry.find(body.model, "caption")
        beam = _beam(served, body)
        images = await decode(served, body.image)
        model, results = await run(request, "caption", body.model, images, beam, body.max_len)
        answers = [{"text": r.text, "score": r.score, "nbest": _alternatives(r.nbest)} for r in results]
        return OrjsonResponse({"model": model.name, "answers": answers})

    async def embed(body: schemas.EmbedRequest, request: Request) -> Response:
        """Embeddings: one vector per text."""
        results: list[EmbeddedText]
        model, results = await run(request, "embed", body.model, schemas.as_list(body.text), body.pool, body.normalize)
        return OrjsonResponse(
            {
                "model": model.name,
                "vectors": [result.values for result in results],
                "tokens": [result.tokens for result in results],
                "truncated": [result.truncated for result in results],
            }
        )

    app.post("/classify", response_model=schemas.ClassifyResponse, tags=["tasks"])(classify)
    app.post("/pair", response_model=schemas.ClassifyResponse, tags=["tasks"])(pair)
    app.post("/tag", response_model=schemas.TagResponse, tags=["tasks"])(tag)
    app.post("/qa", response_model=schemas.QaResponse, tags=["tasks"])(qa)
    app.post("/translate", response_model=schemas.TranslateResponse, tags=["tasks"])(translate)
    app.post("/caption", response_model=schemas.CaptionResponse, tags=["tasks"])(caption)
    app.post("/embed", response_model=schemas.EmbedResponse, tags=["tasks"])(embed)


def _beam(model: ServedModel, body: schemas.BeamRequest) -> BeamConfig:
    """Returns the beam search that a request asks for; refuses one that the model cannot do."""
    try:
        model.pipeline.generator.token_budget(1, body.max_len, 1)
        return model.pipeline.generator.beam(body.beam, length_penalty=body.length_penalty, nbest=body.nbest, default=5)
    except ValueError as error:
        raise ApiError(422, "invalid", str(error)) from None


def _classification(result: Any) -> dict[str, Any]:
    return {"answer": result.answer, "scores": dict(result.scores)}


def _translation(result: Any) -> dict[str, Any]:
    return {
        "text": result.text,
        "score": result.score,
        "nbest": _alternatives(result.nbest),
        "source": result.source,
        "tokens": result.tokens,
        "alignment": result.alignment,
    }


def _alternatives(nbest: Sequence[Hypothesis]) -> list[dict[str, Any]]:
    return [{"text": other.text, "score": other.score} for other in nbest]


def _add_generation_routes(app: FastAPI, dispatcher: Dispatcher) -> None:
    """Adds the routes that generate text."""

    def options(body: schemas.GenerateRequest | schemas.ChatRequest) -> GenerationOptions:
        return GenerationOptions(
            max_new_tokens=body.max_new_tokens, temperature=body.temperature, top_k=body.top_k, top_p=body.top_p,
            seed=body.seed, stop=tuple(body.stop),
        )  # fmt: skip

    async def respond(
        request: Request, model: ServedModel, generation: GenerationRequest, *, stream: bool, dropped_turns: int = 0
    ) -> Response:
        request.scope["log_fields"] = {"model": model.name, "tokens": len(generation.prompt_ids)}
        seed = generation.sampling.seed if generation.sampling.temperature > 0 else None
        last = {"seed": seed, "model": model.name, "dropped_turns": dropped_turns}
        if stream:
            return StreamingResponse(_events(dispatcher, request, model, generation, last), media_type=EVENTS)
        completed = CompletedText.from_chunks(await dispatcher.complete(request, model, generation))
        return OrjsonResponse({"model": model.name, **asdict(completed), "seed": seed, "dropped_turns": dropped_turns})

    async def generate(body: schemas.GenerateRequest, request: Request) -> Response:
        """Text generation from a prompt, greedy or by sampling; as one response or as a stream."""
        model = dispatcher.registry.find(body.model, "generate")
        generation = await dispatcher.tokenize(completion_request, model, body.prompt, options(body))
        return await respond(request, model, generation, stream=body.stream)

    async def chat(body: schemas.ChatRequest, request: Request) -> Response:
        """The next turn of a dialogue. `dropped_turns` is the number of oldest turns that did not fit the context."""
        model = dispatcher.registry.find(body.model, "chat")
        dropped_turns, generation = await dispatcher.tokenize(chat_request, model, body.turns, options(body))
        return await respond(request, model, generation, stream=body.stream, dropped_turns=dropped_turns)

    app.post("/generate", response_model=schemas.GenerateResponse, tags=["tasks"], responses=STREAMED)(generate)
    app.post("/chat", response_model=schemas.GenerateResponse, tags=["tasks"], responses=STREAMED)(chat)


async def _events(
    dispatcher: Dispatcher, request: Request, model: ServedModel, generation: GenerationRequest, last: dict[str, Any]
) -> AsyncIterator[bytes]:
    """Yields server-sent events: chunks of text; the last one also has the other fields of the response."""
    count = 0
    try:
        async for chunk in dispatcher.stream(request, model, generation):
            count += 1
            event: dict[str, Any] = {"text": chunk.text}
            if chunk.finish_reason is not None:
                event |= {"finish_reason": chunk.finish_reason, "tokens": count, **last}
            elif not chunk.text:
                continue
            yield sse_event(event)
    except ApiError as error:
        yield sse_event(error.body())


def _add_attention_route(app: FastAPI, dispatcher: Dispatcher, pages: AttentionPages) -> None:
    async def attention(body: schemas.AttentionRequest, request: Request) -> Response:
        """Attention of a model: the address of an interactive page, and the weights of a layer if one is named."""
        model = dispatcher.registry.find(body.model, "attention")
        request.scope["log_fields"] = {"model": model.name, "count": 1}
        return OrjsonResponse(await pages.create(request, dispatcher, model, body))

    app.post("/attention", response_model=schemas.AttentionResponse, tags=["attention"])(attention)


def _add_server_routes(app: FastAPI, dispatcher: Dispatcher, metrics: ServerMetrics) -> None:
    """Adds health, metrics and model management."""
    add_status_routes(app, metrics, lambda: dispatcher.engine.is_alive)

    async def models() -> Response:
        """The served models and their tasks."""
        return OrjsonResponse({"models": [_model_info(model) for model in dispatcher.registry.all()]})

    async def card(name: str) -> Response:
        """The model card: Markdown from the folder of the model, as plain text; show it as text, not as HTML."""
        text = dispatcher.registry.get(name).card
        if text is None:
            message = f"model {name!r} has no card: write one with `clearhead card`, then reload the model"
            raise ApiError(404, "no_card", message, param="name")
        return PlainTextResponse(text)

    async def reload(body: schemas.ReloadRequest) -> Response:
        """Load a model's folder again, or all folders. Requests in progress finish with the model they started with."""
        try:
            replaced = await asyncio.to_thread(dispatcher.registry.reload, body.model)
        except (ValueError, OSError) as error:
            message = f"nothing was reloaded, the served models are unchanged: {error}"
            raise ApiError(422, "reload_failed", message, param="model") from None
        for model in replaced:
            dispatcher.engine.retire(model)
        return OrjsonResponse({"models": [model.name for model in replaced]})

    app.get("/models", response_model=schemas.ModelsResponse, tags=["server"])(models)
    app.get("/models/{name}/card", tags=["server"], **TEXT_ROUTE)(card)
    app.post("/reload", response_model=schemas.ReloadResponse, tags=["server"])(reload)


def add_status_routes(app: FastAPI, metrics: ServerMetrics, is_alive: Callable[[], bool]) -> None:
    """Adds what load balancers and Prometheus ask for."""

    async def health() -> Response:
        """Liveness: 200 while the process and its engine run."""
        alive = is_alive()
        return OrjsonResponse({"status": "ok" if alive else "dead", "version": VERSION}, 200 if alive else 503)

    async def ready(request: Request) -> Response:
        """Readiness: 200 while requests are accepted, 503 once the server is shutting down."""
        if request.scope["draining"]:
            raise shutting_down()
        return OrjsonResponse({"status": "ready", "version": VERSION})

    async def prometheus() -> Response:
        """Metrics in Prometheus' text format."""
        content, media_type = metrics.text()
        return Response(content, media_type=media_type)

    app.get("/health", response_model=schemas.HealthResponse, tags=["server"])(health)
    app.get("/ready", response_model=schemas.HealthResponse, tags=["server"])(ready)
    app.get("/metrics", tags=["server"], **TEXT_ROUTE)(prometheus)


def _model_info(model: ServedModel) -> dict[str, Any]:
    loaded = model.pipeline.loaded
    return {
        "name": model.name,
        "tasks": model.tasks,
        "architecture": loaded.architecture,
        "parameters": sum(p.numel() for p in loaded.model.parameters()),
        "max_len": model.pipeline.max_len,
    }
