"""clearhead: attention models with nothing hidden."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0"

__all__ = ["Layout", "Pipeline", "ablate_heads", "attend", "load", "load_image_text", "look"]

if TYPE_CHECKING:
    from clearhead.attention import Layout, attend
    from clearhead.image_text import load_image_text
    from clearhead.integrations.transformers.capture import ablate_heads
    from clearhead.pipeline import Pipeline, load
    from clearhead.viz import look
else:
    _MODULES = {
        "Layout": "clearhead.attention",
        "Pipeline": "clearhead.pipeline",
        "ablate_heads": "clearhead.integrations.transformers.capture",
        "attend": "clearhead.attention",
        "load": "clearhead.pipeline",
        "load_image_text": "clearhead.image_text",
        "look": "clearhead.viz",
    }

    def __getattr__(name):
        """Import a public name on first use, so that `import clearhead` and `clearhead --help` do not load torch."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
