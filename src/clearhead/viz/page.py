"""The viewer page: one self-contained HTML file that makes no network requests."""

import base64
import hashlib
import html
from functools import cache
from importlib import resources
from typing import Any

from clearhead.viz.scene import Scene, to_dict, to_json


def page(scene: Scene) -> str:
    """Return a self-contained page for a scene; its policy forbids network access and any other script."""
    return embedded_page("viewer", scene.title, to_dict(scene, live=False))


def embedded_page(name: str, title: str, data: dict[str, Any]) -> str:
    """Return a self-contained page of the script and style sheet `name`, with its data."""
    script, style = asset(f"{name}.js"), asset(f"{name}.css")
    policy = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:"
    inside = f'<script type="application/json" id="scene">{to_json(data)}</script>'
    return _document(title, policy, f"<style>{style}</style>", inside, f'<script type="module">{script}</script>')


def live_page(title: str) -> str:
    """Return the page for a live server, which provides the script, the style sheet and the data."""
    policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data: blob:; connect-src 'self'"
    head = '<link rel="stylesheet" href="viewer.css">'
    return _document(title, policy, head, "", '<script type="module" src="viewer.js"></script>', live=True)


def _document(title: str, policy: str, head: str, data: str, script: str, live: bool = False) -> str:
    root = '<div id="clearhead" data-live=""></div>' if live else '<div id="clearhead"></div>'
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{html.escape(title or 'clearhead')}</title>",
            head,
            root,
            data,
            script,
            "</html>\n",
        )
    )


@cache
def asset(name: str) -> str:
    """Return a file of the viewer that is built from `web/`."""
    file = resources.files("clearhead.viz") / "asset" / name
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ValueError(f"the viewer's {name} is missing here: run `make web` in a source checkout") from None


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
