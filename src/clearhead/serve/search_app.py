"""The application of an index: search and answers over HTTP, with a page. No text enters the log."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from starlette.responses import Response

from clearhead.search import Answerer, AskResult, Index
from clearhead.search.translated_questions import QuestionTranslator
from clearhead.serve import page
from clearhead.serve import search_schemas as bodies
from clearhead.serve.app import add_status_routes, new_app
from clearhead.serve.errors import ApiError
from clearhead.serve.middleware import SecurityConfig, SecurityMiddleware
from clearhead.serve.prometheus import ServerMetrics
from clearhead.serve.sse import OrjsonResponse

MAX_WAITING = 64  # questions; more are refused
REFRESH_S = 2.0  # a new version of the index is noticed so soon

T = TypeVar("T")


class SearchService:
    """An index with its reader. One thread does the work: a question uses all cores."""

    def __init__(
        self, index: Index, answerer: Answerer | None, feedback: Path | None, translator: str | None = None
    ) -> None:
        self.index, self.answerer, self.feedback = index, answerer, feedback
        self.translate = QuestionTranslator(translator)
        self.feedback_rows = 0
        self._thread = ThreadPoolExecutor(1, "search")
        self._waiting = 0
        self._checked = time.monotonic()

    def refuse(self) -> ApiError | None:
        """Returns the error to refuse a request with; None if there is room."""
        if self._waiting < MAX_WAITING:
            return None
        message = f"{MAX_WAITING} requests are waiting, which is the limit: retry later"
        return ApiError(429, "busy", message, retry_after=1)

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Runs work on the last version of the index."""
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, work, *arguments)
        finally:
            self._waiting -= 1

    def _run(self, work: Callable[..., T], *arguments: Any) -> T:
        if time.monotonic() - self._checked > REFRESH_S:
            self.index.refresh()
            self._checked = time.monotonic()
        return work(*arguments)

    def write_feedback(self, body: bodies.FeedbackRequest) -> int:
        """Appends a training row and returns the number of rows; the text is the index's, not the client's."""
        assert self.feedback is not None
        passages = self.index.passages(body.source)
        holds = next((p for p in passages if p.start <= body.start < body.end <= p.end), None)
        if holds is None:
            raise ApiError(404, "not_found", "the index has no such passage: ask again, it may have changed")
        answer = holds.text[body.start - holds.start : body.end - holds.start] if body.right else ""
        wrong = [p.text for p in passages if p is not holds]
        row = {"question": body.question, "context": holds.text, "answer": answer, "negative": wrong[:3]}
        with self.feedback.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self.feedback_rows += 1
        return self.feedback_rows

    def close(self) -> None:
        self._thread.shutdown()


def make_search_app(service: SearchService, *, security: SecurityConfig | None = None) -> SecurityMiddleware:
    """Returns the ASGI application of an index."""
    metrics = ServerMetrics()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = new_app("Search in documents, and answers from them.", lifespan)
    _add_search_routes(app, service)
    _add_index_route(app, service)
    add_status_routes(app, metrics, lambda: True)
    page.add_page(app, "search.html")
    return SecurityMiddleware(app, security or SecurityConfig(), metrics, service.refuse)


def _add_search_routes(app: FastAPI, service: SearchService) -> None:
    async def search(body: bodies.SearchRequest, request: Request) -> Response:
        """The passages that fit a query best, each with its place in its document."""
        try:
            found = await service.run(
                lambda: service.index.search(service.translate([body.query])[0].query, body.k, mode=body.mode)
            )
        except ValueError as error:
            raise ApiError(422, "invalid", str(error), param="mode") from None
        request.scope["log_fields"] = {"count": len(found)}
        results = [asdict(result) for result in found]
        return OrjsonResponse({"version": service.index.version, "results": results})

    async def ask(body: bodies.AskRequest) -> Response:
        """The answer to a question with its evidence, or none if the documents probably do not say."""
        answerer = service.answerer
        if answerer is None:
            raise ApiError(404, "no_reader", "this index has no reader: start the server with --reader MODEL")

        def answer() -> AskResult:
            (asked,) = service.translate([body.question])
            return answerer.ask(asked.text, nbest=body.nbest, query=asked.query)

        result = await service.run(answer)
        return OrjsonResponse({"version": service.index.version, **asdict(result)})

    async def source(body: bodies.SourceRequest) -> Response:
        """The passages of a document, in order."""
        found = await service.run(service.index.passages, body.source)
        if not found:
            raise ApiError(404, "not_found", "the index has no such document", param="source")
        passages = [{name: getattr(p, name) for name in bodies.SourcePassage.model_fields} for p in found]
        return OrjsonResponse({"source": body.source, "passages": passages})

    async def feedback(body: bodies.FeedbackRequest) -> Response:
        """Append a row to the training file of this server: a right answer, or a passage without one."""
        if service.feedback is None:
            raise ApiError(404, "no_feedback", "feedback is not written: start the server with --feedback FILE")
        return OrjsonResponse({"rows": await service.run(service.write_feedback, body)})

    async def tools() -> Response:
        """The routes as tools of OpenAI's chat API: a model that may call functions can search and ask."""
        return OrjsonResponse({"tools": TOOLS if service.answerer is not None else TOOLS[:1]})

    app.post("/search", response_model=bodies.SearchResponse, tags=["search"])(search)
    app.post("/ask", response_model=bodies.AskResponse, tags=["search"])(ask)
    app.post("/source", response_model=bodies.SourceResponse, tags=["search"])(source)
    app.post("/feedback", response_model=bodies.FeedbackResponse, tags=["search"])(feedback)
    app.get("/tools", tags=["search"])(tools)


def _tool(name: str, description: str, body: type[bodies.SearchRequest | bodies.AskRequest]) -> dict[str, Any]:
    schema = body.model_json_schema()
    parameters = {key: schema[key] for key in ("type", "properties", "required")}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    _tool("search", "Find passages of the documents that fit a query, with their sources.", bodies.SearchRequest),
    _tool("ask", "Answer a question from the documents, with the sentence and source it is from.", bodies.AskRequest),
]


def _add_index_route(app: FastAPI, service: SearchService) -> None:
    async def index() -> Response:
        """The index: its size and version, and what can be asked."""
        size, version = await service.run(lambda: (len(service.index), service.index.version))
        return OrjsonResponse(
            {
                "passages": size,
                "version": version,
                "vectors": service.index.config.model is not None,
                "answers": service.answerer is not None,
                "feedback": service.feedback is not None,
            }
        )

    app.get("/index", response_model=bodies.IndexResponse, tags=["server"])(index)
