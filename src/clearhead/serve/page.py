"""The page at /, on which every task can be tried, and the page at /docs: their own files, nobody else's."""

from __future__ import annotations

from functools import cache
from importlib import resources

import orjson
from fastapi import FastAPI
from starlette.responses import Response

FILES = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
    "/docs": ("docs.html", "text/html"),
    "/docs.js": ("docs.js", "text/javascript"),
    "/ask.js": ("ask.js", "text/javascript"),
    "/dom.js": ("dom.js", "text/javascript"),
    "/shown.js": ("shown.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/favicon.ico": ("icon.svg", "image/svg+xml"),  # where browsers look, also for the pages of attention
}


def add(app: FastAPI) -> None:
    """Put the pages where browsers look for them."""
    for path, (name, kind) in FILES.items():
        app.add_api_route(path, _sender(name, kind), include_in_schema=False)

    @cache
    def description() -> bytes:
        return orjson.dumps(app.openapi())

    async def describe() -> Response:
        return Response(description(), media_type="application/json")

    app.add_api_route("/openapi.json", describe, include_in_schema=False)


def _sender(name: str, kind: str):
    async def send() -> Response:
        return Response(asset(name), media_type=kind)

    return send


@cache
def asset(name: str) -> str:
    """A file of the page."""
    return (resources.files("clearhead.serve") / "asset" / name).read_text(encoding="utf-8")
