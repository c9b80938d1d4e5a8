"""The dispatcher: passes requests from the event loop to the engine's thread, and results back."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, ParamSpec, TypeVar

from starlette.requests import Request

from clearhead.serve.continuous_batch import GenerationChunk, GenerationRequest
from clearhead.serve.engine import Engine
from clearhead.serve.errors import ApiError
from clearhead.serve.jobs import GENERATE, BatchKey, RequestJob
from clearhead.serve.model_registry import ModelRegistry, ServedModel
from clearhead.serve.token_counts import chunks, count_tokens, min_tokens

P = ParamSpec("P")
R = TypeVar("R")
TOKENIZER_THREADS = 2  # long texts block neither the event loop nor the engine


class ClientDisconnected(Exception):
    """The client closed the connection before its response was complete."""


class Dispatcher:
    """Tokenizes requests, queues them, and awaits their results."""

    def __init__(self, engine: Engine, registry: ModelRegistry) -> None:
        self.engine, self.registry = engine, registry
        self._tokenizers = ThreadPoolExecutor(TOKENIZER_THREADS, "clearhead-tokenizer")

    async def tokenize(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._tokenizers, lambda: function(*args, **kwargs))

    def close(self) -> None:
        self._tokenizers.shutdown()
        self.engine.close()

    async def answers(
        self, request: Request, model: ServedModel, work: str, values: Sequence[Any], options: tuple[Any, ...] = ()
    ) -> list[Any]:
        """Returns the result of each value, in order; raises the first error."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[Any]] = loop.create_future()
        results: list[Any] = [None] * len(values)
        remaining = len(values)

        def deliver(index: int, result: Any) -> None:  # in the engine's thread
            nonlocal remaining
            results[index] = result
            remaining -= 1
            if isinstance(result, ApiError):
                job.cancelled = True
                loop.call_soon_threadsafe(_finish, done, result)
            elif not remaining:
                loop.call_soon_threadsafe(_finish, done, results)

        job = self._job(request, deliver)
        async with _cancel_on_disconnect(request, job):
            self.engine.check(work, min_tokens(values))  # a full queue refuses before anything is tokenized
            tokens: list[int] = []
            for chunk in chunks(values):
                tokens += await self.tokenize(count_tokens, model, work, chunk)
            self.engine.put(BatchKey(model, work, options), job, values, tokens)
            return await done

    async def stream(
        self, request: Request, model: ServedModel, generation: GenerationRequest
    ) -> AsyncIterator[GenerationChunk]:
        """Yields chunks as they are generated."""
        if model.pipeline.generator.translates:  # an encoder-decoder is not part of continuous batching
            for chunk in (await self.answers(request, model, "reply", [generation]))[0]:
                yield chunk
            return
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[GenerationChunk | ApiError] = asyncio.Queue()

        def deliver(_: int, result: GenerationChunk | ApiError) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, result)

        job = self._job(request, deliver)
        self._generate(model, job, generation)
        try:
            while True:
                chunk = await queue.get()
                if isinstance(chunk, ApiError):
                    raise chunk
                yield chunk
                if chunk.finish_reason is not None:
                    return
        finally:
            job.cancelled = True

    async def complete(
        self, request: Request, model: ServedModel, generation: GenerationRequest
    ) -> list[GenerationChunk]:
        """Returns all chunks at the end; the event loop is not woken before."""
        if model.pipeline.generator.translates:
            return (await self.answers(request, model, "reply", [generation]))[0]
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[GenerationChunk]] = loop.create_future()
        generated: list[GenerationChunk] = []

        def deliver(_: int, result: GenerationChunk | ApiError) -> None:
            if isinstance(result, ApiError):
                loop.call_soon_threadsafe(_finish, done, result)
                return
            generated.append(result)
            if result.finish_reason is not None:
                loop.call_soon_threadsafe(_finish, done, generated)

        job = self._job(request, deliver)
        self._generate(model, job, generation)
        async with _cancel_on_disconnect(request, job):
            return await done

    def _job(self, request: Request, deliver: Callable[[int, Any], None]) -> RequestJob:
        address = request.client.host if request.client is not None else ""
        client = request.scope.get("key_name") or address  # requests are grouped by it for fairness
        return RequestJob(client, self.engine.limits.deadline_s, deliver)

    def _generate(self, model: ServedModel, job: RequestJob, generation: GenerationRequest) -> None:
        tokens = count_tokens(model, GENERATE, [generation])
        self.engine.put(BatchKey(model, GENERATE), job, [generation], tokens)


def _finish(done: asyncio.Future[Any], result: Any) -> None:
    """Resolves the future, in the event loop, unless its request was cancelled."""
    if done.done():
        return
    if isinstance(result, ApiError):
        done.set_exception(result)
    else:
        done.set_result(result)


@asynccontextmanager
async def _cancel_on_disconnect(request: Request, job: RequestJob) -> AsyncGenerator[None]:
    """Cancels the job when the client disconnects before it is done."""
    task = asyncio.current_task()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        request.scope["disconnected"] = True
        job.cancelled = True
        if task is not None:
            task.cancel()

    watcher = asyncio.ensure_future(watch())
    try:
        yield
    except asyncio.CancelledError:
        job.cancelled = True
        if request.scope.get("disconnected"):
            raise ClientDisconnected from None
        raise
    finally:
        watcher.cancel()
