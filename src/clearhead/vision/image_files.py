"""Images from files: decoded by Pillow, upright, in RGB, within limits; a file that cannot be read is named."""

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # no EPS or PDF, which start other programs
SUFFIXES = frozenset((".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm"))
MAX_PIXELS = 50_000_000
MAX_BYTES = 64 * 2**20


class UnreadableImage(ValueError):
    """An image that is refused: what it is called, and why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name, self.reason = name, reason


def read_image(source: Path | bytes, *, name: str | None = None, max_pixels: int = MAX_PIXELS) -> Tensor:
    """Return the pixels of an image, (3, height, width) of uint8, as a viewer shows it.

    It is turned upright (EXIF), transparent parts become white, 16 bits become 8, and of an animation the first frame
    is taken. Raises UnreadableImage for anything else than a whole image of at most `max_pixels`.
    """
    return to_tensor(open_image(source, name=name, max_pixels=max_pixels))


def open_image(source: Path | bytes, *, name: str | None = None, max_pixels: int = MAX_PIXELS) -> "Image.Image":
    """Return an image as Pillow's image in RGB; see `read_image`."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    name = name or (str(source) if isinstance(source, Path) else "image")
    content = _content(source, name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow: about sizes, which are checked here, and about odd metadata
            with Image.open(io.BytesIO(content), formats=FORMATS) as opened:
                width, height = opened.size
                if width * height > max_pixels:
                    raise UnreadableImage(name, f"{width:,} x {height:,} pixels are more than {max_pixels:,}")
                opened.load()
                return _rgb(ImageOps.exif_transpose(opened))
    except UnreadableImage:
        raise
    except UnidentifiedImageError:
        raise UnreadableImage(name, f"it is no image in {', '.join(FORMATS)}") from None
    except Image.DecompressionBombError:
        raise UnreadableImage(name, "it has too many pixels") from None
    except (OSError, ValueError, SyntaxError, EOFError, OverflowError, MemoryError, ArithmeticError) as error:
        raise UnreadableImage(name, f"it is damaged: {error}") from None


def _content(source: Path | bytes, name: str) -> bytes:
    if isinstance(source, bytes):
        size = len(source)
    elif source.is_file():
        size = source.stat().st_size
    else:
        raise UnreadableImage(name, "there is no such file")
    if size > MAX_BYTES:
        raise UnreadableImage(name, f"{size:,} bytes are more than {MAX_BYTES:,}")
    return source if isinstance(source, bytes) else source.read_bytes()


def _rgb(image: "Image.Image") -> "Image.Image":
    from PIL import Image

    if image.mode == "RGB":
        return image.copy() if image.info.get("transparency") is None else _on_white(image.convert("RGBA"))
    if image.mode.startswith(("I", "F")):  # 16 bits or more: Pillow's own conversion cuts off at 255
        return Image.fromarray(_eight_bits(np.asarray(image))).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        return _on_white(image.convert("RGBA"))
    return image.convert("RGB")


def _eight_bits(values: np.ndarray) -> np.ndarray:
    """Return gray values of up to 16 bits as 8 bits; those beyond are spread from the least to the greatest."""
    values = values.astype("f8")
    lowest, highest = float(values.min()), float(values.max())
    if lowest < 0 or highest > 65535 or not np.isfinite(highest - lowest):
        values = np.nan_to_num(values, nan=lowest if np.isfinite(lowest) else 0.0, posinf=65535, neginf=0)
        lowest, highest = float(values.min()), float(values.max())
        values = (values - lowest) * (65535 / ((highest - lowest) or 1.0))
    return np.round(values / 257).astype("u1")


def _on_white(image: "Image.Image") -> "Image.Image":
    from PIL import Image

    white = Image.new("RGBA", image.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, image).convert("RGB")


def to_tensor(image: "Image.Image") -> Tensor:
    """Return the pixels of an RGB image, (3, height, width) of uint8."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()


def to_pil(pixels: Tensor) -> "Image.Image":
    """Return pixels (3, height, width) of uint8 as Pillow's image."""
    from PIL import Image

    return Image.fromarray(pixels.permute(1, 2, 0).contiguous().cpu().numpy())
