"""The widget: the page inside a notebook's cell."""

from __future__ import annotations

from typing import Any

from clearhead.see.page import asset
from clearhead.see.scene import Scene, described, to_json


def widget(scene: Scene) -> Any:
    """An anywidget of a scene, with all its weights inside; it needs no server and survives the kernel."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise ValueError("a notebook's widget needs anywidget: pip install 'clearhead[see]'") from None

    class Viewer(anywidget.AnyWidget):
        _esm = asset("viewer.js")
        _css = asset("viewer.css")
        scene = traitlets.Unicode().tag(sync=True)

    return Viewer(scene=to_json(described(scene, live=False)))
