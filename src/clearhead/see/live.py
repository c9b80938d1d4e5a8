"""The live page: a small web application over a scene, which computes what is looked at when it is looked at.

It is a plain ASGI application, to be served alone (`serve`) or mounted in a larger one.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import ceil, log2
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from clearhead.see.page import asset, live_page
from clearhead.see.records import Record
from clearhead.see.scene import Scene, described, to_json

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

TILE = 256  # cells on a side of a tile
HELD = 2**28  # bytes of tiles and overviews that are kept
LARGEST = 4096  # tokens up to which a head may be asked for whole
LOCAL = ["127.0.0.1", "localhost", "[::1]", "testserver"]


class Desk:
    """Answers questions about a scene; tiles are kept, the least recently used go first."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._held: OrderedDict[tuple[Any, ...], Tensor] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()  # one computation at a time: each uses all cores

    def record(self, sequence: int, name: str) -> Record:
        """The attention of an input by its name."""
        if not 0 <= sequence < len(self.scene.inputs):
            raise LookupError(f"there is no input {sequence}: there are 0 to {len(self.scene.inputs) - 1}")
        return self.scene.inputs[sequence].layer(name).record

    def weights(self, sequence: int, name: str, head: int) -> Tensor:
        """All weights of a head, (T, S)."""
        record = self.record(sequence, name)
        if max(record.shape) > LARGEST:
            raise ValueError(f"{record.shape[0]} x {record.shape[1]} weights are too many at once: ask for tiles")
        return self._kept(("weights", sequence, name, head), lambda: record.head(head))

    def norms(self, sequence: int, name: str, head: int) -> Tensor:
        """What each key would move; nothing where that is not known."""
        found = self.record(sequence, name).norms(head)
        return torch.zeros(0) if found is None else found

    def step(self, sequence: int, name: str, head: int, query: int) -> Tensor:
        """A query, all keys, all values and its weights, one after another."""
        record = self.record(sequence, name)
        vectors = record.vectors(head)
        if vectors is None:
            raise ValueError("this attention is not softmax(q·k) alone")
        weights = record.tile(head, slice(query, query + 1), slice(None), (1, record.shape[1]), "max")
        parts = vectors.queries[query], vectors.keys, vectors.values, weights
        return torch.cat([part.float().reshape(-1) for part in parts])

    def tile(self, sequence: int, name: str, head: int, level: int, row: int, column: int, pool: str) -> Tensor:
        """At most 256 x 256 cells of 2^level tokens each way, (rows, columns)."""
        record = self.record(sequence, name)
        top = top_level(record.shape)
        if not 0 <= level <= top + 1 or row < 0 or column < 0:
            raise ValueError(f"there is no tile {level}/{row}/{column}: levels are 0 to {top + 1}")
        if pool not in ("max", "mean"):
            raise ValueError(f"pool {pool!r}: choose 'max' or 'mean'")
        if level >= top:  # the overview holds them all
            whole = self._kept(("top", sequence, name, head, pool), lambda: _pooled(record, head, top, pool))
            if level > top:
                whole = _halved(whole, pool)
            return whole[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]
        key = "tile", sequence, name, head, level, row, column, pool
        return self._kept(key, lambda: _pooled(record, head, level, pool, row, column))

    def _kept(self, key: tuple[Any, ...], make: Callable[[], Tensor]) -> Tensor:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
            with torch.inference_mode():
                found = self._held[key] = make().cpu()
            self._size += found.nbytes
            while self._size > HELD and len(self._held) > 1:
                self._size -= self._held.popitem(last=False)[1].nbytes
            return found


def top_level(shape: tuple[int, int]) -> int:
    """The level at which the whole map is at most two tiles a side."""
    return max(0, ceil(log2(max(*shape, 1) / (2 * TILE))))


def _pooled(record: Record, head: int, level: int, pool: Any, row: int | None = None, column: int = 0) -> Tensor:
    """One tile of a level, or the whole level where no row is named."""
    span = TILE * 2**level
    ranges = [(0, n) for n in record.shape]
    if row is not None:
        ranges = [(i * span, min((i + 1) * span, n)) for i, n in zip((row, column), record.shape, strict=True)]
        if any(begin >= end for begin, end in ranges):
            raise ValueError(f"there is no tile {level}/{row}/{column} of a {record.shape[0]} x {record.shape[1]} map")
    size = ceil((ranges[0][1] - ranges[0][0]) / 2**level), ceil((ranges[1][1] - ranges[1][0]) / 2**level)
    return record.tile(head, slice(*ranges[0]), slice(*ranges[1]), size, pool)


def _halved(whole: Tensor, pool: str) -> Tensor:
    """One level up from cells at hand."""
    kind = torch.nn.functional.max_pool2d if pool == "max" else torch.nn.functional.avg_pool2d
    return kind(whole[None, None], 2, ceil_mode=True)[0, 0]


def application(scene: Scene, hosts: Sequence[str] = LOCAL) -> Starlette:
    """The ASGI application of a scene; `hosts` are the names under which it may be asked."""
    try:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.responses import HTMLResponse, PlainTextResponse, Response
        from starlette.routing import Route
    except ImportError:
        raise ValueError("the live page needs a web server: pip install 'clearhead[see]'") from None
    desk = Desk(scene)
    text = to_json(described(scene, live=True))

    def numbers(of: Callable[..., Tensor], *more: str) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            asked = request.query_params
            try:
                where = int(asked["sequence"]), asked["map"], int(asked["head"])
                found = of(*where, *(asked[m] if m == "pool" else int(asked[m]) for m in more))
            except (KeyError, ValueError, LookupError, IndexError) as error:
                return PlainTextResponse(str(error), 400)
            content = found.float().reshape(-1).numpy().astype("<f4")
            if of == desk.tile:
                content = np.concatenate([np.array(found.shape, "<f4"), content])
            return Response(content.tobytes(), media_type="application/octet-stream")

        return answer

    async def without(request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool

        try:
            asked = json.loads(await request.body())
            heads = {str(name): [int(h) for h in which] for name, which in dict(asked["heads"]).items()}
            if scene.without is None:
                raise ValueError("nobody can answer here: the model is not at hand")
            found = await run_in_threadpool(scene.without, int(asked["sequence"]), heads)
        except (KeyError, TypeError, ValueError, LookupError, IndexError) as error:
            return PlainTextResponse(str(error), 400)
        return Response(json.dumps(asdict(found)), media_type="application/json")

    def fixed(content: str, kind: str) -> Callable[[Request], Response]:
        return lambda request: Response(content, media_type=kind, headers={"X-Content-Type-Options": "nosniff"})

    routes = [
        Route("/", lambda request: HTMLResponse(live_page(scene.title))),
        Route("/viewer.js", fixed(asset("viewer.js"), "text/javascript")),
        Route("/viewer.css", fixed(asset("viewer.css"), "text/css")),
        Route("/scene", fixed(text, "application/json")),
        Route("/weights", numbers(desk.weights)),
        Route("/norms", numbers(desk.norms)),
        Route("/step", numbers(desk.step, "query")),
        Route("/tile", numbers(desk.tile, "level", "row", "column", "pool")),
        Route("/without", without, methods=["POST"]),
    ]
    return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))])


class Served:
    """A live page on this machine, in a thread of this process."""

    def __init__(self, scene: Scene, port: int = 0) -> None:
        import socket

        try:
            import uvicorn
        except ImportError:
            raise ValueError("the live page needs a web server: pip install 'clearhead[see]'") from None
        self.scene = scene
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
        except OSError as error:
            raise ValueError(f"port {port} cannot be had ({error.strerror}): give another, or 0 for any") from None
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        config = uvicorn.Config(application(scene), log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)

    def stop(self) -> None:
        """Close it; who is being answered has a second."""
        self._server.should_exit = True
        self._thread.join()

    def wait(self) -> None:
        """Stay until it is stopped."""
        while self._thread.is_alive():
            self._thread.join(timeout=0.5)
