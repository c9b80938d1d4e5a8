"""Pictures into tokens."""

from clearhead.vision.patches import PatchConfig, Patches

__all__ = ["PatchConfig", "Patches"]
