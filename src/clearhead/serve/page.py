"""The web pages: / to try every task or to ask an index, /docs as API reference. All files are built from web/."""

from functools import cache
from importlib import resources

import orjson
from fastapi import FastAPI
from starlette.responses import Response

FILES = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/search.js": ("search.js", "text/javascript"),
    "/search.css": ("search.css", "text/css"),
    "/page.css": ("page.css", "text/css"),
    "/docs": ("docs.html", "text/html"),
    "/docs.js": ("docs.js", "text/javascript"),
    "/shared.js": ("shared.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/favicon.ico": ("icon.svg", "image/svg+xml"),  # requested by browsers, also for the attention pages
}


def add_page(app: FastAPI, start: str = "page.html") -> None:
    """Adds the pages; `start` is the one at /."""
    for path, (name, media_type) in {**FILES, "/": (start, "text/html")}.items():
        app.add_api_route(path, _sender(name, media_type), include_in_schema=False)

    @cache
    def description() -> bytes:
        return orjson.dumps(app.openapi())

    async def openapi() -> Response:
        return Response(description(), media_type="application/json")

    app.add_api_route("/openapi.json", openapi, include_in_schema=False)


def _sender(name: str, media_type: str):
    async def send() -> Response:
        return Response(asset(name), media_type=media_type)

    return send


@cache
def asset(name: str) -> str:
    return (resources.files("clearhead.serve") / "asset" / name).read_text(encoding="utf-8")
