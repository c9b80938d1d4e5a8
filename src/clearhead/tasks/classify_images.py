"""Image classification: one label or several labels for an image."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.attention import Layout
from clearhead.data import Columns, InMemoryColumns, Integers, Ragged, Rows
from clearhead.hub.families import FAMILIES, OWN
from clearhead.hub.folder import LoadedModel
from clearhead.models import ModelConfig
from clearhead.models.model import Model
from clearhead.tasks.classify import Classification, Classify
from clearhead.tasks.encoder_task import head_labels
from clearhead.tasks.image_inputs import ImageInput, decode_images, processor_file, read_image_processor, resize_image
from clearhead.tasks.labels import Labels
from clearhead.tasks.model_presets import image_encoder
from clearhead.tasks.task import Batch, SaveFormat, Skipped, TaskConfig, TaskSpec
from clearhead.tasks.windows import CHUNK
from clearhead.text import Tokenizer
from clearhead.vision import ImageProcessor, augment, mix


@dataclass(frozen=True, eq=False)
class ClassifyImages(Classify):
    """Classifies images. They are decoded and resized once, and augmented anew in every epoch."""

    tokenizer: Tokenizer | None  # type: ignore[assignment]  # always None: images have patches
    processor: ImageProcessor = field(default_factory=ImageProcessor)

    features: ClassVar[None] = None  # it reads pixels
    suffix: ClassVar[str] = "ImageClassification"
    texts: ClassVar[tuple[str, ...]] = ("image",)
    spec: ClassVar[TaskSpec] = replace(
        Classify.spec,
        column_sets=(("image", "label"), ("image", "labels")),
        split_by=("image", lambda values: str(values.get("label", values.get("labels")))),
        template=None,
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
        decoded = Rows(lambda: decode_images(rows, self.processor))
        columns, skipped = super().encode(decoded)
        if decoded.num_skipped:
            reason = decoded.skipped[0].reason
            skipped.append(Skipped(decoded.num_skipped, decoded.num_rows + decoded.num_skipped, reason))
        return columns, skipped

    def read(self, texts: Sequence[Sequence[Any]]) -> InMemoryColumns:
        flat = torch.stack([resize_image(image, self.processor) for image in texts[0]]).flatten(1).numpy()
        return {"ids": Ragged.from_rows(flat)}

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
        files = processor_file(self.processor)
        if config.patches is not None and config.patches.stem_layers:
            return SaveFormat(OWN["clearhead-cct"], "CctForImageClassification", files=files)
        return SaveFormat(FAMILIES["vit"], "ViTForImageClassification", files=files)
