"""Pictures: files to pixels, what models do to pixels, augmentations, and patches."""

from clearhead.vision.augment import AugmentConfig, Mixed, augment, mix
from clearhead.vision.patches import PatchConfig, Patches
from clearhead.vision.picture_files import UnreadablePicture, open_picture, read_picture
from clearhead.vision.preprocessing import PictureProcessor

__all__ = [
    "AugmentConfig", "Mixed", "PatchConfig", "Patches", "PictureProcessor", "UnreadablePicture", "augment", "mix",
    "open_picture", "read_picture",
]  # fmt: skip
