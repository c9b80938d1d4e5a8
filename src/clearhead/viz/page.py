"""The viewer page: one self-contained HTML file that makes no network requests."""

import base64
import hashlib
import html
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from clearhead.viz.scene import Scene, to_dict, to_json


@dataclass(frozen=True, kw_only=True)
class Preface:
    """HTML before the viewer, in which every text is escaped already, and its style sheet.

    A link to a fragment such as `#lines.0.3.1` selects the view, the input, the layer and the head of the viewer;
    `.vs1-3-1` after it compares with that head of input 1.
    """

    html: str
    style: str
    start: str = ""  # fragment of what the viewer shows first


def page(scene: Scene, preface: Preface | None = None) -> str:
    """Return a self-contained page for a scene; its policy forbids network access and any other script."""
    return embedded_page("viewer", scene.title, to_dict(scene, live=False), preface)


def embedded_page(name: str, title: str, data: dict[str, Any], preface: Preface | None = None) -> str:
    """Return a self-contained page of the script and style sheet `name`, with its data."""
    script, styles = asset(f"{name}.js"), [asset(f"{name}.css"), *([preface.style] if preface else [])]
    policy = f"default-src 'none'; script-src {_hashes([script])}; style-src {_hashes(styles)}; img-src data: blob:"
    inside = f'<script type="application/json" id="scene">{to_json(data)}</script>'
    head = "\n".join(f"<style>{style}</style>" for style in styles)
    before = f'<article class="preface">{preface.html}</article>' if preface else ""
    start = f' data-start="{html.escape(preface.start)}"' if preface and preface.start else ""
    root = f'<div id="clearhead"{start}></div>'
    return _document(title, policy, head, inside, f'<script type="module">{script}</script>', before=before, root=root)


def static_page(title: str, content: Preface) -> str:
    """Return a page of HTML and its style sheet alone; its policy forbids scripts and network access."""
    policy = f"default-src 'none'; style-src {_hashes([content.style])}"
    head = f"<style>{content.style}</style>"
    return _document(title, policy, head, "", "", before=content.html, root="")


def live_page(title: str) -> str:
    """Return the page for a live server, which provides the script, the style sheet and the data."""
    policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data: blob:; connect-src 'self'"
    head = '<link rel="stylesheet" href="viewer.css">'
    root = '<div id="clearhead" data-live=""></div>'
    return _document(title, policy, head, "", '<script type="module" src="viewer.js"></script>', root=root)


def _document(
    title: str,
    policy: str,
    head: str,
    data: str,
    script: str,
    *,
    before: str = "",
    root: str,
) -> str:
    parts = (part for part in (head, before, root, data, script) if part)
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{html.escape(title or 'clearhead')}</title>",
            *parts,
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


def _hashes(contents: Sequence[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() for content in contents)
    return " ".join(f"'sha256-{digest}'" for digest in digests)
