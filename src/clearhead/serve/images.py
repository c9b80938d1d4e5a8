"""Images in requests: files in base64, decoded within limits."""

import base64
import binascii

from clearhead.serve.errors import ApiError
from clearhead.serve.model_registry import ServedModel
from clearhead.tasks.image_inputs import ResizedImage, read_image_processor, resized
from clearhead.vision import UnreadableImage

MAX_PIXELS = 25_000_000  # of an image: 75 MB while it is decoded


def decode_image(model: ServedModel, content: str, number: int) -> ResizedImage:
    """Returns an image as the model reads it; the error names its place in the request."""
    if content.startswith("data:"):
        head, comma, content = content.partition(",")
        if not comma or not head.endswith(";base64"):
            raise _invalid(number, "a data URL has the form data:image/png;base64,...")
    try:
        data = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise _invalid(number, "it is not valid base64: send the bytes of the file in base64") from None
    try:
        return resized(data, read_image_processor(model.pipeline.loaded.extra_files), max_pixels=MAX_PIXELS)
    except UnreadableImage as error:
        raise _invalid(number, error.reason) from None


def _invalid(number: int, reason: str) -> ApiError:
    return ApiError(422, "invalid", f"image {number + 1}: {reason}", param="image")
