"""Image classification: one label or several labels for an image."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.attention import Layout
from clearhead.data import Columns, InMemoryColumns, Integers, Ragged, Row, Rows
from clearhead.data.image_rows import ImageFile
from clearhead.data.rows import SkippedRow
from clearhead.hub.families import FAMILIES, OWN
from clearhead.hub.folder import LoadedModel
from clearhead.models import ModelConfig
from clearhead.models.model import Model
from clearhead.tasks.classify import Classification, Classify
from clearhead.tasks.encoder_task import head_labels
from clearhead.tasks.labels import Labels
from clearhead.tasks.model_presets import image_encoder
from clearhead.tasks.task import Batch, SaveFormat, Skipped, TaskConfig, TaskSpec
from clearhead.tasks.windows import CHUNK
from clearhead.text import Tokenizer
from clearhead.vision import ImageProcessor, UnreadableImage, augment, mix, read_image
from clearhead.vision.image_files import MAX_PIXELS
from clearhead.vision.image_processor import PROCESSOR_FILE, find_image_processor


@dataclass(frozen=True, eq=False)
class ResizedImage:
    """Pixels (3, H, W) of uint8 in the size that a model reads."""

    pixels: Tensor


ImageInput = str | Path | bytes | ImageFile | Tensor | ResizedImage
"""The path of a file, its content, or pixels (3, H, W) of uint8."""


@dataclass(frozen=True, eq=False)
class ClassifyImages(Classify):
    """Classifies images. They are decoded and resized once, and augmented anew in every epoch."""

    tokenizer: Tokenizer | None  # type: ignore[assignment]  # always None: images have patches
    processor: ImageProcessor = field(default_factory=ImageProcessor)

    suffix: ClassVar[str] = "ImageClassification"
    texts: ClassVar[tuple[str, ...]] = ("image",)
    spec: ClassVar[TaskSpec] = replace(
        Classify.spec,
        column_sets=(("image", "label"), ("image", "labels")),
        split_by=("image", lambda values: str(values.get("label", values.get("labels")))),
    )

    @classmethod
    def from_recipe(cls, tokenizer: Tokenizer | None, settings: TaskConfig, data_info: Mapping[str, Any]) -> Self:
        """Create the task with the labels of the training rows."""
        assert settings.image_processor is not None
        return cls(None, Labels.from_dict(data_info), settings, processor=settings.image_processor)

    @classmethod
    def from_model(cls, loaded: LoadedModel) -> Self:
        names = head_labels(loaded, "sequence", "classify images", "classify")
        multiple = loaded.hf_config.get("problem_type") == "multi_label_classification"
        labels = Labels("multi_label" if multiple else "single_label", names)
        thresholds = tuple(loaded.metadata.get("answers", {}).get("thresholds", ()))
        patches = loaded.config.patches
        assert patches is not None
        settings = TaskConfig(image_tokens=patches.num_tokens)
        return cls(None, labels, settings, thresholds, read_image_processor(loaded.extra_files))

    def encode(self, rows: Rows) -> tuple[InMemoryColumns, list[Skipped]]:
        """Decode and resize images; those that cannot be read are skipped and reported, as are unknown labels."""
        decoded = Rows(lambda: self.decode(rows))
        columns, skipped = super().encode(decoded)
        if decoded.num_skipped:
            reason = decoded.skipped[0].reason
            skipped.append(Skipped(decoded.num_skipped, decoded.num_rows + decoded.num_skipped, reason))
        return columns, skipped

    def decode(self, rows: Iterable[Row | SkippedRow]) -> Iterator[Row | SkippedRow]:
        """Decode and resize the image of each row; a row whose image cannot be read is skipped."""
        for row in rows:
            if isinstance(row, SkippedRow):
                yield row
                continue
            try:
                yield replace(row, values={**row.values, "image": self.resized(row.values["image"])})
            except UnreadableImage as error:
                yield SkippedRow(row.file, row.line, str(error), {n: v for n, v in row.values.items() if n != "image"})

    def resized(self, image: ImageInput, *, max_pixels: int = MAX_PIXELS) -> ResizedImage:
        """Decode an image and bring it to the size that the model reads; UnreadableImage if that is not possible."""
        return ResizedImage(resize_image(image, self.processor, max_pixels))

    def read(self, texts: Sequence[Sequence[Any]]) -> InMemoryColumns:
        flat = torch.stack([self.resized(image).pixels for image in texts[0]]).flatten(1).numpy()
        offsets = np.arange(len(flat) + 1, dtype=np.int64) * flat.shape[1]
        return {"ids": Ragged(flat.reshape(-1), offsets)}

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        count = len(columns["ids"] if examples is None else examples)
        return np.full(count, self.settings.image_tokens, dtype=np.int64)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Return images (n, 3, H, W) as the model reads them; augmented with `draw`, and mixed labels are shares."""
        height, width = self.processor.output_size
        pixels = torch.from_numpy(cast(Ragged, columns["ids"]).stack(examples)).view(-1, 3, height, width)
        labels = self.label_tensor(columns, examples)
        config = self.settings.augment
        if draw:
            pixels = augment(pixels, config, seed=0, epoch=draw, examples=examples)
            if config.mixes:
                mixed = mix(pixels, config, seed=0, epoch=draw, examples=examples)
                pixels, own = mixed.pixels, mixed.shares.unsqueeze(1)
                if self.labels.kind == "single_label":
                    labels = torch.nn.functional.one_hot(labels, len(self.labels.names)).float()
                labels = own * labels + (1 - own) * labels[mixed.partners]
        layout = Layout.uniform(len(pixels), self.settings.image_tokens)
        return Batch(self.processor.normalize(pixels), layout, labels)

    def _scores(self, model: nn.Module, batch: Batch, count: int) -> Tensor:
        assert isinstance(model, Model)
        return model(batch.ids, batch.layout).float()

    def input_from(self, values: Mapping[str, Any]) -> ImageInput:  # type: ignore[override]
        return values["image"]

    def answer(self, loaded: LoadedModel, inputs: Sequence[ImageInput]) -> Iterator[Classification]:  # type: ignore[override]
        for lo in range(0, len(inputs), CHUNK):
            columns = self.read([inputs[lo : lo + CHUNK]])
            yield from map(self._classification, self.outputs(loaded.model, columns))

    def config(self, settings: Mapping[str, object]) -> ModelConfig:
        height, width = self.processor.output_size
        if height != width:
            raise ValueError(f"images are {height} x {width}: a new model reads squares, set data.image_size")
        return image_encoder(settings, height, *self.head)

    def save_format(self, config: ModelConfig) -> SaveFormat:
        """Return ViT's format; models with a convolutional stem have clearhead's own."""
        files = {PROCESSOR_FILE: (json.dumps(self.processor.to_config(), indent=2) + "\n").encode()}
        if config.patches is not None and config.patches.stem_layers:
            return SaveFormat(OWN["clearhead-cct"], "CctForImageClassification", files=files)
        return SaveFormat(FAMILIES["vit"], "ViTForImageClassification", files=files)


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
