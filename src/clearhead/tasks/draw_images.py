"""Drawing: an encoder-decoder reads a text and writes the codes of an image."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from clearhead.attention import Layout
from clearhead.data import Columns, InMemoryColumns, Integers, Ragged, Row, Rows
from clearhead.decode import SamplingParams, TextGenerator, generation_config
from clearhead.decode.draw import draw_codes
from clearhead.hub.families import FAMILIES
from clearhead.hub.folder import LoadedModel
from clearhead.hub.image_codec_file import codec_file, find_codec
from clearhead.models import ModelConfig
from clearhead.tasks.image_inputs import processor_file, resize_image
from clearhead.tasks.model_presets import encoder_decoder, is_recurrent
from clearhead.tasks.task import Batch, SaveFormat, Skipped, TaskConfig, TaskSpec
from clearhead.tasks.translate import Translate
from clearhead.text import Tokenizer
from clearhead.vision import ImageProcessor, UnreadableImage
from clearhead.vision.image_codec import ImageCodec, ImageCodecConfig, to_pixels
from clearhead.vision.random_numbers import uniform

CHUNK = 64  # images coded at a time
NO_TEXT = 0.1  # share of the training examples without their text, for guidance


@dataclass(frozen=True, eq=False)
class DrawImages(Translate):
    """Models p(codes of an image | text). A code is a token after those of the text in the vocabulary.

    A tenth of the examples has no text in training: the difference that the text makes can then be enlarged when an
    image is drawn (classifier-free guidance, Ho and Salimans 2022).
    """

    codec: ImageCodec = field(default_factory=lambda: ImageCodec(ImageCodecConfig()))

    spec: ClassVar[TaskSpec] = TaskSpec(
        name="draw",
        column_sets=(("image", "text"),),
        metrics=("loss", "perplexity"),
        template="marian",
        split_by=("text", lambda values: ""),
    )

    @property
    def features(self) -> None:
        return None

    @property
    def processor(self) -> ImageProcessor:
        size = self.codec.config.image_size
        return ImageProcessor(height=size, width=size)

    @property
    def first_code(self) -> int:
        """The token of code 0."""
        return self.tokenizer.vocab_size

    @classmethod
    def from_recipe(cls, tokenizer: Tokenizer, settings: TaskConfig, data_info: Mapping[str, Any]) -> Self:
        """Create the task with a recipe's limits and a trained codec."""
        assert settings.image_codec is not None
        return cls(tokenizer, settings.max_len, settings.label_smoothing, settings.image_codec)

    @classmethod
    def from_model(cls, loaded: LoadedModel) -> Self:
        codec = find_codec(loaded.extra_files)
        if codec is None:
            raise ValueError(f"{loaded.architecture} does not draw: train a model of the task draw")
        return cls(loaded.require_tokenizer, 128, 0.0, codec)

    def encode(self, rows: Rows) -> tuple[InMemoryColumns, list[Skipped]]:
        """Tokenize texts and code images; images that cannot be read and texts longer than `max_len` are skipped."""
        eos = self.tokenizer.require_eos_id
        sources: list[list[int]] = []
        targets: list[Integers] = []
        total, reasons, stream = 0, dict[str, int](), iter(rows)
        while chunk := list(islice(stream, CHUNK)):
            total += len(chunk)
            read: list[tuple[Row, Tensor]] = []
            for row in chunk:
                try:
                    read.append((row, resize_image(row.values["image"], self.processor)))
                except UnreadableImage as error:
                    reasons[str(error)] = reasons.get(str(error), 0) + 1
            if not read:
                continue
            texts = self._ids([row.values["text"] for row, _ in read])
            for ids, codes in zip(texts, self._codes([pixels for _, pixels in read]), strict=True):
                if len(ids) > self.max_len:
                    reason = f"a text has more than {self.max_len} tokens (data.max_len)"
                    reasons[reason] = reasons.get(reason, 0) + 1
                    continue
                sources.append(ids)
                targets.append(np.append(codes + self.first_code, eos))
        skipped = [Skipped(count, total, reason) for reason, count in reasons.items()]
        return {"source": Ragged.from_lists(sources), "target": Ragged.from_lists(targets)}, skipped

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Return texts, and codes shifted right by one; in training, some texts are left out."""
        batch = super().collate(columns, examples, draw)
        if not draw:
            return batch
        without = uniform(0, draw, examples, 1)[:, 0] < NO_TEXT
        rows = list(batch.layout.split(batch.ids))
        end = torch.tensor([self.tokenizer.require_eos_id])
        rows = [end if gone else row for row, gone in zip(rows, without, strict=True)]
        layout = Layout.from_lengths([len(row) for row in rows])
        return Batch(torch.cat(rows), layout, batch.labels, batch.target, batch.target_layout)

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        if is_recurrent(settings):
            raise ValueError(f"model.kind is {settings['kind']!r}: images are drawn by a transformer")
        vocab_size = self.first_code + self.codec.config.num_codes
        return encoder_decoder(settings, vocab_size, max(self.max_len, self.codec.config.grid**2 + 1))

    def score(self, loaded: LoadedModel, rows: Rows, beam: int = 1) -> dict[str, float]:
        return {}

    def finalize(self, loaded: LoadedModel, rows: Rows) -> tuple[LoadedModel, dict[str, Any]]:
        return loaded, {}

    def save_format(self, config: ModelConfig) -> SaveFormat:
        """Return Marian's format, with the codec beside it."""
        eos = self.tokenizer.require_eos_id
        length = self.codec.config.grid**2 + 1
        generation = generation_config("marian", eos=eos, pad=self.start, max_len=length, beam=1)
        return SaveFormat(
            FAMILIES["marian"], "MarianMTModel", generation, processor_file(self.processor) | codec_file(self.codec)
        )

    def draw(
        self, loaded: LoadedModel, texts: Sequence[str], sampling: Sequence[SamplingParams], guidance: float
    ) -> Tensor:
        """Return an image for each text, as bytes (n, 3, S, S)."""
        eos, grid, first = self.tokenizer.require_eos_id, self.codec.config.grid, self.first_code
        codes = draw_codes(
            TextGenerator.from_model(loaded), self._ids(list(texts)), sampling, empty=[eos], length=grid**2,
            codes=range(first, first + self.codec.config.num_codes), guidance=guidance,
        )  # fmt: skip
        return to_pixels(self.codec.decode(codes.view(-1, grid, grid)))

    def _codes(self, pixels: list[Tensor]) -> Integers:
        return self.codec.encode(self.processor.normalize(torch.stack(pixels))).flatten(1).numpy()
