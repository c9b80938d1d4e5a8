"""`load_image_text`: images and texts as vectors of one space, and labels for images without training."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import overload

import torch
from torch import Tensor

from clearhead.attention import Layout
from clearhead.hub.folder import LoadedModel, open_folder
from clearhead.hub.model_folder import open_towers
from clearhead.hub.weight_files import WeightReader
from clearhead.models.precision import choose_device, choose_dtype
from clearhead.tasks.classify import Classification
from clearhead.tasks.image_inputs import ImageInput, read_image_processor, resize_image

BATCH_IMAGES = 32
TEMPLATE = "a photo of a {}"


class ImageTextPipeline:
    """Both models of CLIP or SigLIP: `images` and `texts`.

    The score of an image and a text is their cosine times `scale`. With a `bias`, as SigLIP has one, a sigmoid makes
    it a probability, and each label is true or not by itself; without, a softmax over the labels does (CLIP).
    """

    def __init__(self, images: LoadedModel, texts: LoadedModel, scale: float, bias: float | None = None) -> None:
        self.images, self.texts, self.scale, self.bias = images, texts, scale, bias
        self.processor = read_image_processor(images.extra_files)

    @torch.inference_mode()
    def encode_images(self, images: Sequence[ImageInput]) -> Tensor:
        """Return the vector of each image, of length 1, (len(images), D)."""
        found: list[Tensor] = []
        for lo in range(0, len(images), BATCH_IMAGES):
            pixels = torch.stack([resize_image(image, self.processor) for image in images[lo : lo + BATCH_IMAGES]])
            patches = self.images.config.patches
            assert patches is not None
            model = self.images.model
            first = next(model.parameters())
            layout = Layout.uniform(len(pixels), patches.num_tokens).to(first.device)
            found.append(model(self.processor.normalize(pixels).to(first), layout).float())
        return _unit(torch.cat(found)) if found else torch.zeros(0, self._width)

    @torch.inference_mode()
    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return the vector of each text, of length 1, (len(texts), D)."""
        if not texts:
            return torch.zeros(0, self._width)
        device = next(self.texts.model.parameters()).device
        batch = self.texts.require_tokenizer(list(texts), max_len=self.texts.max_len)
        ids, layout = batch.ids, batch.layout
        if self.bias is not None:  # SigLIP reads texts of the full length
            ids, layout = self._filled(ids, layout)
        return _unit(self.texts.model(ids.to(device), layout.to(device)).float())

    def _filled(self, ids: Tensor, layout: Layout) -> tuple[Tensor, Layout]:
        """Fill texts up to the full length with the padding token, which is read like any other."""
        length, padding = self.texts.max_len, self.texts.require_tokenizer.pad_id
        if length is None or padding is None:
            raise ValueError("the texts of SigLIP are filled up, but this tokenizer has no padding token: add one")
        padded = layout.pad(ids, padding)
        full = torch.nn.functional.pad(padded, (0, length - padded.shape[1]), value=padding)
        return full.flatten(), Layout.uniform(len(full), length)

    @overload
    def classify(self, images: str | Path | bytes | Tensor, labels: Sequence[str], *,
                 template: str = TEMPLATE) -> Classification: ...  # fmt: skip

    @overload
    def classify(self, images: Sequence[ImageInput], labels: Sequence[str], *,
                 template: str = TEMPLATE) -> list[Classification]: ...  # fmt: skip

    def classify(
        self, images: ImageInput | Sequence[ImageInput], labels: Sequence[str], *, template: str = TEMPLATE
    ) -> Classification | list[Classification]:
        """Return which of the labels fits each image best; a label is read as the template with it."""
        if not isinstance(images, Sequence) or isinstance(images, str | bytes):
            return self.classify([images], labels, template=template)[0]
        if len(set(labels)) != len(labels) or not labels:
            raise ValueError(f"{len(labels)} labels, {len(set(labels))} of them different: give each once")
        if "{}" not in template:
            raise ValueError(f"the template {template!r} has no {{}}, the place of the label: write one")
        texts = self.encode_texts([template.replace("{}", label) for label in labels])
        logits = self.scale * self.encode_images(images) @ texts.T
        scores = logits.softmax(1) if self.bias is None else (logits + self.bias).sigmoid()
        rows = [dict(zip(labels, row, strict=True)) for row in scores.tolist()]
        return [Classification(max(row, key=lambda label: row[label]), row) for row in rows]

    @property
    def _width(self) -> int:
        head = self.images.config.head
        assert head is not None
        return head.projection or head.width


def _unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors, dim=-1)


def load_image_text(
    source: str | Path,
    *,
    dtype: str | torch.dtype | None = None,
    device: torch.device | str = "cpu",
    revision: str | None = None,
) -> ImageTextPipeline:
    """Load CLIP or SigLIP: a folder, or a name on the Hugging Face hub."""
    target = choose_device(device)
    precision = choose_dtype(dtype, target)
    images, texts, raw = open_towers(source, revision)
    weights = WeightReader(images.path, images.headers)
    start = raw.get("logit_scale_init_value", 2.6592)
    scale = float(weights.read("logit_scale")) if "logit_scale" in weights.files else start
    bias = float(weights.read("logit_bias")) if "logit_bias" in weights.files else None
    opened = (open_folder(tower, dtype=precision, device=target) for tower in (images, texts))
    return ImageTextPipeline(*opened, scale=math.exp(scale), bias=bias)
