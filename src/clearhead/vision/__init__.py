"""Image patch embeddings."""

from clearhead.vision.patches import PatchConfig, Patches

__all__ = ["PatchConfig", "Patches"]
