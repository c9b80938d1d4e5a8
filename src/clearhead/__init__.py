"""clearhead: attention models with nothing hidden."""

from clearhead.attention import Layout, attend, look, without

__version__ = "0.1.0"

__all__ = ["Layout", "attend", "look", "without"]
