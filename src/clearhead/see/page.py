"""The page: one HTML file with everything in it, which asks nobody for anything."""

from __future__ import annotations

import base64
import hashlib
import html
from functools import cache
from importlib import resources

from clearhead.see.scene import Scene, described, to_json


def page(scene: Scene) -> str:
    """A self-contained page of a scene: no network, no code but its own, names only ever as text."""
    script, style = asset("viewer.js"), asset("viewer.css")
    policy = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:"
    data = f'<script type="application/json" id="scene">{to_json(described(scene, live=False))}</script>'
    return _document(scene.title, policy, f"<style>{style}</style>", data, f'<script type="module">{script}</script>')


def live_page(title: str) -> str:
    """The same page for a server that has the numbers: script, style and data come from beside it."""
    policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data: blob:; connect-src 'self'"
    head = '<link rel="stylesheet" href="viewer.css">'
    return _document(title, policy, head, "", '<script type="module" src="viewer.js"></script>', live=True)


def _document(title: str, policy: str, head: str, data: str, script: str, live: bool = False) -> str:
    place = '<div id="clearhead" data-live=""></div>' if live else '<div id="clearhead"></div>'
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{html.escape(title or 'clearhead')}</title>",
            head,
            place,
            data,
            script,
            "</html>\n",
        )
    )


@cache
def asset(name: str) -> str:
    """A file of the viewer as it was built from `web/`."""
    found = resources.files("clearhead.see") / "asset" / name
    try:
        return found.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ValueError(f"the viewer's {name} is not in this installation: run `make web` in a clone") from None


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
