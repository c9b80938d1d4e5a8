"""The training of an image codec: images in, restored images out."""

from dataclasses import dataclass, field
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.attention import Layout
from clearhead.data import Columns, InMemoryColumns, Integers, Ragged, Rows
from clearhead.tasks.image_inputs import resize_image
from clearhead.tasks.task import Batch, TaskSpec
from clearhead.vision import ImageProcessor, UnreadableImage
from clearhead.vision.image_codec import ImageCodec, ImageCodecConfig, psnr


@dataclass(frozen=True, eq=False)
class CodeImages:
    """Restores images from their codes. An example is an image."""

    config: ImageCodecConfig = field(default_factory=ImageCodecConfig)

    spec: ClassVar[TaskSpec] = TaskSpec(
        name="image_codec", column_sets=(("image",),), metrics=("loss", "psnr"), template=None
    )

    @property
    def processor(self) -> ImageProcessor:
        return ImageProcessor(height=self.config.image_size, width=self.config.image_size)

    def read(self, rows: Rows) -> InMemoryColumns:
        """Decode and resize every image once; those that cannot be read are left out."""
        found = {str(row.values["image"]): row.values["image"] for row in rows}
        pixels: list[np.ndarray] = []
        for image in found.values():
            try:
                pixels.append(resize_image(image, self.processor).flatten().numpy())
            except UnreadableImage:
                continue
        flat = np.stack(pixels) if pixels else np.zeros((0, 3 * self.config.image_size**2), dtype=np.uint8)
        return {"image": Ragged.from_rows(flat)}

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        return np.full(len(columns["image"] if examples is None else examples), self.config.grid**2, dtype=np.int64)

    def num_targets(self, columns: Columns, examples: Integers | None = None) -> Integers:
        return np.ones(len(columns["image"] if examples is None else examples), dtype=np.int64)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        size = self.config.image_size
        pixels = torch.from_numpy(cast(Ragged, columns["image"]).stack(examples)).view(-1, 3, size, size)
        layout = Layout.uniform(len(pixels), self.config.grid**2)
        return Batch(self.processor.normalize(pixels), layout, torch.zeros(len(pixels)))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the error of the restored images (absolute and squared) and that of the codes, summed over images."""
        return self.loss_and_metrics(model, batch)[0]

    def loss_and_metrics(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, tuple[float, float]]]:
        restored, codes = cast(ImageCodec, model)(batch.ids)
        error = restored.float() - batch.ids
        loss = (error.abs().mean((1, 2, 3)) + error.square().mean((1, 2, 3)) + codes.float()).sum()
        return loss, {"psnr": (float(psnr(batch.ids, restored.detach().float()).sum()), float(len(batch.ids)))}
