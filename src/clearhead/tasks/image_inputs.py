"""Images as a task reads them: decoded and resized by the processor of its model."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from clearhead.data import Row
from clearhead.data.image_rows import ImageFile
from clearhead.data.rows import SkippedRow
from clearhead.vision import ImageProcessor, UnreadableImage, read_image
from clearhead.vision.image_files import MAX_PIXELS
from clearhead.vision.image_processor import PROCESSOR_FILE, find_image_processor


@dataclass(frozen=True, eq=False)
class ResizedImage:
    """Pixels (3, H, W) of uint8 in the size that a model reads."""

    pixels: Tensor
    source: str = ""  # equal for equal files

    def __str__(self) -> str:
        return self.source


ImageInput = str | Path | bytes | ImageFile | Tensor | ResizedImage
"""The path of a file, its content, or pixels (3, H, W) of uint8."""


def decode_images(rows: Iterable[Row | SkippedRow], processor: ImageProcessor) -> Iterator[Row | SkippedRow]:
    """Decode and resize the image of each row; a row whose image cannot be read is skipped."""
    for row in rows:
        if isinstance(row, SkippedRow):
            yield row
            continue
        try:
            yield replace(row, values={**row.values, "image": resized(row.values["image"], processor)})
        except UnreadableImage as error:
            yield SkippedRow(row.file, row.line, str(error), {n: v for n, v in row.values.items() if n != "image"})


def resized(image: ImageInput, processor: ImageProcessor, *, max_pixels: int = MAX_PIXELS) -> ResizedImage:
    """Decode an image and bring it to the size that the model reads; UnreadableImage if that is not possible."""
    return ResizedImage(resize_image(image, processor, max_pixels), str(image) if isinstance(image, ImageFile) else "")


def resize_image(image: ImageInput, processor: ImageProcessor, max_pixels: int = MAX_PIXELS) -> Tensor:
    """Return the pixels of an image in the size that a model reads, (3, H, W) of uint8."""
    if isinstance(image, ResizedImage):
        return image.pixels
    if isinstance(image, ImageFile):
        image = read_image(image.content, name=image.name, max_pixels=max_pixels)
    elif not isinstance(image, Tensor):
        image = read_image(Path(image) if isinstance(image, str) else image, max_pixels=max_pixels)
    return processor.resize(image)


def read_image_processor(files: Mapping[str, bytes]) -> ImageProcessor:
    """Return the image processor in the files of a folder; ValueError if there is none."""
    found = find_image_processor(files)
    if found is None:
        raise ValueError(f"this folder has no {PROCESSOR_FILE}: add it, it defines the size and scale of images")
    return found


def processor_file(processor: ImageProcessor) -> dict[str, bytes]:
    """Return the file of a model folder that holds an image processor."""
    return {PROCESSOR_FILE: (json.dumps(processor.to_config(), indent=2) + "\n").encode()}
