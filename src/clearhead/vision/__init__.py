"""Images: files to pixels, what models do to pixels, augmentations, and patches."""

from clearhead.vision.augment import AugmentConfig, Mixed, augment, mix
from clearhead.vision.image_files import UnreadableImage, open_image, read_image
from clearhead.vision.image_processor import ImageProcessor
from clearhead.vision.patches import PatchConfig, Patches

__all__ = [
    "AugmentConfig",
    "ImageProcessor",
    "Mixed",
    "PatchConfig",
    "Patches",
    "UnreadableImage",
    "augment",
    "mix",
    "open_image",
    "read_image",
]  # fmt: skip
