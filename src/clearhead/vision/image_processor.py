"""What a model does to an image before it reads it: read from and written to `preprocessor_config.json`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clearhead.vision.image_files import to_pil

PROCESSOR_FILE = "preprocessor_config.json"
HALF = (0.5, 0.5, 0.5)
RESAMPLE = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}  # as Pillow numbers them
_UNSUPPORTED = ("do_pad", "do_flip_channel_order", "do_reduce_labels", "do_thumbnail", "do_align_long_axis")


@dataclass(frozen=True, kw_only=True)
class ImageProcessor:
    """Resizes, crops, rescales and normalizes an image, as the image processors of transformers do."""

    height: int | None = 224  # resized to; None: not resized to a fixed size
    width: int | None = 224
    shortest_edge: int | None = None  # resized so that the shorter side has it; the sides keep their ratio
    resample: int = RESAMPLE["bilinear"]
    crop: tuple[int, int] | None = None  # height and width of the center that is kept
    rescale_factor: float | None = 1 / 255
    mean: tuple[float, ...] | None = HALF
    std: tuple[float, ...] | None = HALF
    kind: str = "ViTImageProcessor"  # of transformers, which opens what is saved
    other: Mapping[str, Any] = field(default_factory=dict[str, Any])  # keys that are kept as they were

    def __post_init__(self) -> None:
        if (self.height is None) != (self.width is None):
            raise ValueError(f"height is {self.height} and width {self.width}: give both or none")
        sides = (self.height, self.width, self.shortest_edge, *(self.crop or ()))
        for side in sides:
            if side is not None and not 1 <= side <= 2**14:
                raise ValueError(f"a side of {side} pixels: it must be from 1 to {2**14:,}")
        if (self.mean is None) != (self.std is None):
            raise ValueError("mean and std belong together: give both or none")

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> "ImageProcessor":
        """Read a `preprocessor_config.json`, of old versions too."""
        for key in _UNSUPPORTED:
            if config.get(key):
                raise ValueError(f"preprocessor_config.json has {key}: this is not supported")
        known = dict(config)
        kind = known.pop("image_processor_type", None) or known.pop("feature_extractor_type", None)
        kind = str(kind or "ViTImageProcessor").removesuffix("Fast").replace("FeatureExtractor", "ImageProcessor")
        values: dict[str, Any] = {"height": None, "width": None}
        size = known.pop("size", None)
        if known.pop("do_resize", True) and size is not None:
            values |= _size(size, square=not kind.startswith("CLIP"))
        crop = known.pop("crop_size", None)
        if known.pop("do_center_crop", crop is not None and "CLIP" in kind) and crop is not None:
            side = _size(crop, square=True)
            values["crop"] = (side["height"], side["width"])
        factor = known.pop("rescale_factor", 1 / 255)
        values["rescale_factor"] = factor if known.pop("do_rescale", True) else None
        mean, std = known.pop("image_mean", HALF), known.pop("image_std", HALF)
        if known.pop("do_normalize", True):
            values |= {"mean": _three(mean), "std": _three(std)}
        else:
            values |= {"mean": None, "std": None}
        resample = known.pop("resample", None)
        values["resample"] = RESAMPLE["bilinear"] if resample is None else int(resample)
        return ImageProcessor(kind=kind, other=known, **values)

    def to_config(self) -> dict[str, Any]:
        """Return the content of `preprocessor_config.json`."""
        size: dict[str, int | None] = {"height": self.height, "width": self.width}
        if self.shortest_edge is not None:
            size = {"shortest_edge": self.shortest_edge}
        sized = self.height is not None or self.shortest_edge is not None
        crop = None if self.crop is None else {"height": self.crop[0], "width": self.crop[1]}
        return {
            **self.other,
            "image_processor_type": self.kind,
            "do_resize": sized, "size": size if sized else None, "resample": self.resample,
            "do_center_crop": crop is not None, "crop_size": crop,
            "do_rescale": self.rescale_factor is not None, "rescale_factor": self.rescale_factor,
            "do_normalize": self.mean is not None,
            "image_mean": None if self.mean is None else list(self.mean),
            "image_std": None if self.std is None else list(self.std),
        }  # fmt: skip

    @property
    def output_size(self) -> tuple[int, int]:
        """Height and width of every image; ValueError where they depend on the image."""
        if self.crop is not None:
            return self.crop
        if self.height is None or self.width is None:
            raise ValueError("this image processor keeps the ratio of sides: give it a size or a crop")
        return self.height, self.width

    def resize(self, pixels: Tensor) -> Tensor:
        """Return an image (3, H, W) of uint8 resized and cropped: what can be kept between epochs."""
        height, width = self._target(*pixels.shape[1:])
        if (height, width) != tuple(pixels.shape[1:]):
            image = to_pil(pixels).resize((width, height), resample=self.resample)  # pyright: ignore[reportArgumentType]
            pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
        return (pixels if self.crop is None else center_crop(pixels, *self.crop)).contiguous()

    def normalize(self, pixels: Tensor) -> Tensor:
        """Return pixels (..., 3, H, W) of uint8 as what the model reads."""
        x = pixels.float()
        if self.rescale_factor is not None:
            x = x * self.rescale_factor
        if self.mean is not None and self.std is not None:
            mean, std = (torch.tensor(values, device=x.device).view(3, 1, 1) for values in (self.mean, self.std))
            x = (x - mean) / std
        return x

    def __call__(self, images: Sequence[Tensor]) -> list[Tensor]:
        """Return what the model reads of images (3, H, W) of uint8."""
        return [self.normalize(self.resize(image)) for image in images]

    def _target(self, height: int, width: int) -> tuple[int, int]:
        if self.shortest_edge is not None:
            short, long = min(height, width), max(height, width)
            longer = int(self.shortest_edge * long / short)
            return (self.shortest_edge, longer) if height <= width else (longer, self.shortest_edge)
        if self.height is not None and self.width is not None:
            return self.height, self.width
        return height, width


def center_crop(pixels: Tensor, height: int, width: int) -> Tensor:
    """Return the center of an image (C, H, W); where it is smaller, it is surrounded by black."""
    h, w = pixels.shape[1:]
    pad_h, pad_w = max(0, height - h), max(0, width - w)
    if pad_h or pad_w:
        # as in transformers: of an odd rest the larger part is before the image
        before_h, before_w = -(-pad_h // 2), -(-pad_w // 2)
        pads = (before_w, pad_w - before_w, before_h, pad_h - before_h)
        pixels = torch.nn.functional.pad(pixels, pads)
        h, w = pixels.shape[1:]
    top, left = (h - height) // 2, (w - width) // 2
    return pixels[:, top : top + height, left : left + width]


def _size(size: Any, *, square: bool) -> dict[str, int | None]:
    if isinstance(size, int):
        return {"height": size, "width": size} if square else {"shortest_edge": size}
    if isinstance(size, (list, tuple)):
        return {"height": int(size[0]), "width": int(size[-1])}
    if set(size) == {"shortest_edge"}:
        return {"shortest_edge": int(size["shortest_edge"])}
    if set(size) == {"height", "width"}:
        return {"height": int(size["height"]), "width": int(size["width"])}
    raise ValueError(f"size in preprocessor_config.json is {size}: height and width or shortest_edge are supported")


def _three(values: Any) -> tuple[float, ...]:
    return (float(values),) * 3 if isinstance(values, (int, float)) else tuple(float(v) for v in values)


def find_image_processor(files: Mapping[str, bytes]) -> ImageProcessor | None:
    """Return the image processor in the files of a model folder; None if there is none."""
    content = files.get(PROCESSOR_FILE)
    return None if content is None else ImageProcessor.from_config(json.loads(content))
