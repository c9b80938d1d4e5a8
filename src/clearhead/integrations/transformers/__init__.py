"""Live `transformers` models: attention capture, head ablation, and acceleration without padding."""

from typing import TYPE_CHECKING

__all__ = ["accelerate"]

if TYPE_CHECKING:
    from clearhead.integrations.transformers.packing import accelerate
else:

    def __getattr__(name):
        """Import `accelerate` on first use: capture does not need transformers itself."""
        if name != "accelerate":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from clearhead.integrations.transformers.packing import accelerate

        return accelerate
