"""Notebook widget: the viewer page in a cell."""

from typing import Any

from clearhead.viz.page import asset
from clearhead.viz.scene import Scene, to_dict, to_json


def widget(scene: Scene) -> Any:
    """Return an anywidget of a scene; it contains all weights, so it needs neither a server nor the kernel."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise ValueError("the notebook widget needs anywidget: pip install 'clearhead[see]'") from None

    class Viewer(anywidget.AnyWidget):
        _esm = asset("viewer.js")
        _css = asset("viewer.css")
        scene = traitlets.Unicode().tag(sync=True)

    return Viewer(scene=to_json(to_dict(scene, live=False)))
