"""Image grid: several images as one."""

from torch import Tensor

GAP = 2  # white pixels between images


def image_grid(images: Tensor, columns: int) -> Tensor:
    """Return images (n, 3, H, W) of uint8, row by row, as one image (3, height, width)."""
    count, _, height, width = images.shape
    rows = -(-count // columns)
    out = images.new_full((3, rows * (height + GAP) - GAP, columns * (width + GAP) - GAP), 255)
    for i, image in enumerate(images):
        top, left = i // columns * (height + GAP), i % columns * (width + GAP)
        out[:, top : top + height, left : left + width] = image
    return out
