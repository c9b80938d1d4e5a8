"""Live server: a small web application over a scene that computes attention tiles on request.

`application` is a plain ASGI application, to be mounted in a larger one; `LiveServer` serves it alone.
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

from clearhead.viz.page import asset, live_page
from clearhead.viz.scene import Scene, to_dict, to_json
from clearhead.viz.sources import AttentionSource

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

TILE = 256  # cells on a side of a tile
CACHE_BYTES = 2**28  # tiles and overviews kept in memory
MAX_FULL_TOKENS = 4096  # tokens up to which all weights of a head are sent at once
LOCAL_HOSTS = ["127.0.0.1", "localhost", "[::1]", "testserver"]


class TileStore:
    """Computes weights and tiles of a scene, with a least-recently-used cache."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._cache: OrderedDict[tuple[Any, ...], Tensor] = OrderedDict()
        self._cached_bytes = 0
        self._lock = threading.Lock()  # one computation at a time: each uses all cores

    def record(self, sequence: int, name: str) -> AttentionSource:
        if not 0 <= sequence < len(self.scene.inputs):
            raise LookupError(f"there is no input {sequence}: choose 0 to {len(self.scene.inputs) - 1}")
        return self.scene.inputs[sequence].layer(name).attention

    def weights(self, sequence: int, name: str, head: int) -> Tensor:
        record = self.record(sequence, name)
        if max(record.shape) > MAX_FULL_TOKENS:
            raise ValueError(
                f"{record.shape[0]} x {record.shape[1]} weights are too many for one response "
                f"(at most {MAX_FULL_TOKENS} tokens): request tiles"
            )
        return self._cached(("weights", sequence, name, head), lambda: record.head(head))

    def norms(self, sequence: int, name: str, head: int) -> Tensor:
        """Return the norm of each projected value vector, (S,); empty where it is not known."""
        norms = self.record(sequence, name).norms(head)
        return torch.zeros(0) if norms is None else norms

    def step(self, sequence: int, name: str, head: int, query: int) -> Tensor:
        """Return one query, all keys, all values and the query's weights, concatenated."""
        record = self.record(sequence, name)
        vectors = record.vectors(head)
        if vectors is None:
            raise ValueError(f"{name} is not plain dot-product attention: its steps cannot be shown")
        weights = record.tile(head, slice(query, query + 1), slice(None), (1, record.shape[1]), "max")
        parts = vectors.queries[query], vectors.keys, vectors.values, weights
        return torch.cat([part.float().reshape(-1) for part in parts])

    def tile(self, sequence: int, name: str, head: int, level: int, row: int, column: int, pool: str) -> Tensor:
        """Return at most 256 x 256 cells, each pooled over 2^level x 2^level weights."""
        record = self.record(sequence, name)
        top = top_level(record.shape)
        if not 0 <= level <= top + 1 or row < 0 or column < 0:
            raise ValueError(f"there is no tile {level}/{row}/{column}: levels are 0 to {top + 1}")
        if pool not in ("max", "mean"):
            raise ValueError(f"unknown pool {pool!r}: choose 'max' or 'mean'")
        if level >= top:  # the overview contains these tiles
            overview = self._cached(("top", sequence, name, head, pool), lambda: _pooled(record, head, top, pool))
            if level > top:
                pool2d = torch.nn.functional.max_pool2d if pool == "max" else torch.nn.functional.avg_pool2d
                overview = pool2d(overview[None, None], 2, ceil_mode=True)[0, 0]
            return overview[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]
        key = "tile", sequence, name, head, level, row, column, pool
        return self._cached(key, lambda: _pooled(record, head, level, pool, row, column))

    def _cached(self, key: tuple[Any, ...], compute: Callable[[], Tensor]) -> Tensor:
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
            with torch.inference_mode():
                result = self._cache[key] = compute().cpu()
            self._cached_bytes += result.nbytes
            while self._cached_bytes > CACHE_BYTES and len(self._cache) > 1:
                self._cached_bytes -= self._cache.popitem(last=False)[1].nbytes
            return result


def top_level(shape: tuple[int, int]) -> int:
    """Return the level at which the full map is at most two tiles on a side."""
    return max(0, ceil(log2(max(*shape, 1) / (2 * TILE))))


def _pooled(
    record: AttentionSource, head: int, level: int, pool: Any, row: int | None = None, column: int = 0
) -> Tensor:
    """Return one tile of a level, or the full level if `row` is None."""
    span = TILE * 2**level
    ranges = [(0, n) for n in record.shape]
    if row is not None:
        ranges = [(i * span, min((i + 1) * span, n)) for i, n in zip((row, column), record.shape, strict=True)]
        if any(begin >= end for begin, end in ranges):
            raise ValueError(f"there is no tile {level}/{row}/{column} in a {record.shape[0]} x {record.shape[1]} map")
    size = ceil((ranges[0][1] - ranges[0][0]) / 2**level), ceil((ranges[1][1] - ranges[1][0]) / 2**level)
    return record.tile(head, slice(*ranges[0]), slice(*ranges[1]), size, pool)


def application(scene: Scene, hosts: Sequence[str] = LOCAL_HOSTS) -> Starlette:
    """Return the ASGI application of a scene; `hosts` are the accepted values of the Host header."""
    try:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.responses import HTMLResponse, PlainTextResponse, Response
        from starlette.routing import Route
    except ImportError:
        raise ValueError("the live page needs a web server: pip install 'clearhead[see]'") from None
    store = TileStore(scene)
    text = to_json(to_dict(scene, live=True))

    def numbers(compute: Callable[..., Tensor], *extra: str) -> Callable[[Request], Response]:
        """Return a route that parses the query, calls `compute` and sends float32 bytes."""

        def respond(request: Request) -> Response:
            query = request.query_params
            try:
                where = int(query["sequence"]), query["map"], int(query["head"])
                values = compute(*where, *(query[name] if name == "pool" else int(query[name]) for name in extra))
            except (KeyError, ValueError, LookupError, IndexError) as error:
                return PlainTextResponse(str(error), 400)
            content = values.float().reshape(-1).numpy().astype("<f4")
            if compute == store.tile:
                content = np.concatenate([np.array(values.shape, "<f4"), content])
            return Response(content.tobytes(), media_type="application/octet-stream")

        return respond

    async def ablate(request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool

        try:
            body = json.loads(await request.body())
            heads = {str(name): [int(h) for h in indices] for name, indices in dict(body["heads"]).items()}
            if scene.ablated is None:
                raise ValueError("this scene has no model to run: heads cannot be ablated")
            answer = await run_in_threadpool(scene.ablated, int(body["sequence"]), heads)
        except (KeyError, TypeError, ValueError, LookupError, IndexError) as error:
            return PlainTextResponse(str(error), 400)
        return Response(json.dumps(asdict(answer)), media_type="application/json")

    def fixed(content: str, media_type: str) -> Callable[[Request], Response]:
        return lambda request: Response(content, media_type=media_type, headers={"X-Content-Type-Options": "nosniff"})

    routes = [
        Route("/", lambda request: HTMLResponse(live_page(scene.title))),
        Route("/viewer.js", fixed(asset("viewer.js"), "text/javascript")),
        Route("/viewer.css", fixed(asset("viewer.css"), "text/css")),
        Route("/scene", fixed(text, "application/json")),
        Route("/weights", numbers(store.weights)),
        Route("/norms", numbers(store.norms)),
        Route("/step", numbers(store.step, "query")),
        Route("/tile", numbers(store.tile, "level", "row", "column", "pool")),
        Route("/ablate", ablate, methods=["POST"]),
    ]
    return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))])


class LiveServer:
    """Serves the live page on loopback, in a thread of this process."""

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
            raise ValueError(f"port {port} is not available ({error.strerror}): choose another, or 0 for any") from None
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        config = uvicorn.Config(application(scene), log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop the server; running requests get one second to finish."""
        self._server.should_exit = True
        self._thread.join()

    def wait(self) -> None:
        while self._thread.is_alive():
            self._thread.join(timeout=0.5)
