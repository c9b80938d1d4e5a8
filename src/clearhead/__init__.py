"""clearhead: attention models with nothing hidden."""

from clearhead.app import App, load
from clearhead.attention import Layout, attend
from clearhead.models.live import without
from clearhead.see import look

__version__ = "0.1.0"

__all__ = ["App", "Layout", "attend", "load", "look", "without"]
