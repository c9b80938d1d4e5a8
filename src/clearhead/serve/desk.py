"""The desk: from a request in the event loop to the engine's thread and back, and away when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.requests import Request

from clearhead.serve.engine import Engine
from clearhead.serve.faults import Fault
from clearhead.serve.growing import Asked, Said
from clearhead.serve.jobs import WRITE, Group, Job
from clearhead.serve.shelf import Shelf, Shelved

CHARACTERS = 4  # of a token, about: only the line is measured by it


class Left(Exception):
    """The client is gone; nobody reads what is answered."""


class Desk:
    """Hands requests in and results out."""

    def __init__(self, engine: Engine, shelf: Shelf) -> None:
        self.engine, self.shelf = engine, shelf

    async def answers(
        self, request: Request, model: Shelved, work: str, values: Sequence[Any], options: tuple[Any, ...] = ()
    ) -> list[Any]:
        """What becomes of each value, in order; the first fault where there is one."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[Any]] = loop.create_future()
        results: list[Any] = [None] * len(values)
        left = len(values)

        def tell(place: int, what: Any) -> None:  # in the engine's thread
            nonlocal left
            results[place] = what
            left -= 1
            if isinstance(what, Fault):
                job.cancelled = True
                loop.call_soon_threadsafe(_finish, done, what)
            elif not left:
                loop.call_soon_threadsafe(_finish, done, results)

        job = Job(_client(request), self.engine.limits.deadline, tell)
        self.engine.put(Group(model, work, options), job, values, [_size(value) for value in values])
        async with _watched(request, job):
            return await done

    async def pieces(self, request: Request, model: Shelved, asked: Asked) -> AsyncIterator[Said]:
        """What is written, piece by piece."""
        if model.app.writer.translates:  # it reads the turns as its source: whole answers
            for said in (await self.answers(request, model, "reply", [asked]))[0]:
                yield said
            return
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Said | Fault] = asyncio.Queue()

        def tell(_: int, what: Said | Fault) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, what)

        job = self._write(request, model, asked, tell)
        try:
            while True:
                said = await queue.get()
                if isinstance(said, Fault):
                    raise said
                yield said
                if said.reason is not None:
                    return
        finally:
            job.cancelled = True

    async def whole(self, request: Request, model: Shelved, asked: Asked) -> list[Said]:
        """All that is written; the event loop has nothing to do with it before its end."""
        if model.app.writer.translates:
            return (await self.answers(request, model, "reply", [asked]))[0]
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[Said]] = loop.create_future()
        pieces: list[Said] = []

        def tell(_: int, what: Said | Fault) -> None:
            if isinstance(what, Fault):
                loop.call_soon_threadsafe(_finish, done, what)
                return
            pieces.append(what)
            if what.reason is not None:
                loop.call_soon_threadsafe(_finish, done, pieces)

        async with _watched(request, self._write(request, model, asked, tell)):
            return await done

    def _write(self, request: Request, model: Shelved, asked: Asked, tell: Callable[[int, Any], None]) -> Job:
        """A text that joins those which the model is writing."""
        job = Job(_client(request), self.engine.limits.deadline, tell)
        self.engine.put(Group(model, WRITE), job, [asked], [_size(asked)])
        return job


def _finish(done: asyncio.Future[Any], what: Any) -> None:
    """In the event loop: who waits for it goes on, if anybody still does."""
    if done.done():
        return
    if isinstance(what, Fault):
        done.set_exception(what)
    else:
        done.set_result(what)


@asynccontextmanager
async def _watched(request: Request, job: Job) -> AsyncGenerator[None]:
    """Stop the work when the client leaves before it is done."""
    here = asyncio.current_task()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        request.scope["left"] = True
        job.cancelled = True
        if here is not None:
            here.cancel()

    watcher = asyncio.ensure_future(watch())
    try:
        yield
    except asyncio.CancelledError:
        job.cancelled = True
        if request.scope.get("left"):
            raise Left from None
        raise
    finally:
        watcher.cancel()


def _client(request: Request) -> str:
    """Whom a request is counted to: the name of the key it came with, else where it came from."""
    return request.scope.get("caller") or (request.client.host if request.client is not None else "")


def _size(value: Any) -> int:
    """Tokens of a value, about."""
    if isinstance(value, str):
        return 2 + len(value) // CHARACTERS
    if isinstance(value, tuple):
        return sum(_size(one) for one in value)
    return len(value.row) + value.max_new if isinstance(value, Asked) else 1
