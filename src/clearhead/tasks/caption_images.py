"""Captions: a decoder writes a text about an image."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.attention import AttentionCore, AttentionInputs, Layout
from clearhead.data import Columns, InMemoryColumns, Integers, Ragged, Rows
from clearhead.decode import BeamConfig, TextGenerator, generation_config
from clearhead.decode.caption import Caption, caption
from clearhead.hub.families import FAMILIES, OWN
from clearhead.hub.folder import LoadedModel
from clearhead.hub.image_features import ImageFeatures, features_file, find_features
from clearhead.metrics.caption_metrics import evaluate_captions
from clearhead.metrics.evaluation import Evaluation
from clearhead.models import ModelConfig
from clearhead.models.recurrent import RecurrentConfig
from clearhead.tasks.image_inputs import ImageInput, processor_file, read_image_processor, resize_image
from clearhead.tasks.model_presets import captioner, is_recurrent
from clearhead.tasks.task import Batch, SaveFormat, Skipped, TaskConfig, TaskSpec
from clearhead.tasks.translate import Translate, shifted
from clearhead.text import Tokenizer
from clearhead.vision import AugmentConfig, ImageProcessor, PatchConfig, UnreadableImage, augment

CHUNK = 16  # images decoded at a time
BEAM_SIZE = 5
LENGTH_PENALTY = 0.8  # captions of beam search are too long without


@dataclass(frozen=True, eq=False)
class CaptionImages(Translate):
    """Models p(caption | image). An example is an image with all its captions: it is encoded once for all of them.

    With a frozen network, its features are computed once, and the model reads them in place of pixels.
    """

    processor: ImageProcessor = field(default_factory=ImageProcessor)
    features: ImageFeatures | None = None
    patches: PatchConfig = field(default_factory=PatchConfig)
    doubly_stochastic: float = 0.0  # weight of `unattended` in the loss
    augment: AugmentConfig = field(default_factory=AugmentConfig)

    spec: ClassVar[TaskSpec] = TaskSpec(
        name="caption",
        column_sets=(("image", "caption"),),
        metrics=("loss", "perplexity", "bleu", "cider", "chrf"),
        template="marian",
        split_by=("image", lambda values: ""),
    )
    texts: ClassVar[tuple[str, ...]] = ("image",)

    @classmethod
    def from_recipe(cls, tokenizer: Tokenizer, settings: TaskConfig, data_info: Mapping[str, Any]) -> Self:
        """Create the task with a recipe's limits and the way its images are read."""
        assert settings.image_processor is not None and settings.patches is not None
        read = settings.image_processor, settings.image_features, settings.patches
        only_flips = settings.augment == AugmentConfig(flip=settings.augment.flip)
        if settings.augment.mixes or (settings.image_features is not None and not only_flips):
            raise ValueError(
                "data.augment: images with captions are not mixed, and of frozen features only `flip` is possible, "
                "which exchanges their left and right; remove the others"
            )
        penalty = settings.doubly_stochastic
        return cls(tokenizer, settings.max_len, settings.label_smoothing, *read, penalty, settings.augment)

    @classmethod
    def from_model(cls, loaded: LoadedModel) -> Self:
        if loaded.config.patches is None or loaded.config.decoder is None:
            raise ValueError(
                f"{loaded.architecture} does not write captions: `clearhead new caption --data FILE` starts a model "
                "that does"
            )
        limit = loaded.config.decoder.max_positions or 128
        processor = read_image_processor(loaded.extra_files)
        features = find_features(loaded.extra_files, processor.output_size[0])
        return cls(loaded.require_tokenizer, limit, 0.0, processor, features, loaded.config.patches)

    def encode(self, rows: Rows) -> tuple[InMemoryColumns, list[Skipped]]:
        """Read every image once and tokenize its captions; images that cannot be read are skipped and reported."""
        numbers: dict[str, int] = {}  # of the images that are read, by content
        unreadable: dict[str, str] = {}
        images: list[np.ndarray] = []
        waiting: list[Tensor] = []
        texts: list[str] = []
        owners: list[int] = []
        total = 0
        for row in rows:
            total, key = total + 1, str(row.values["image"])
            if key not in numbers and key not in unreadable:
                try:
                    waiting.append(resize_image(row.values["image"], self.processor))
                    numbers[key] = len(numbers)
                except UnreadableImage as error:
                    unreadable[key] = str(error)
            if key in unreadable:
                continue
            if len(waiting) == CHUNK:
                images.append(self._stored(waiting))
                waiting = []
            texts.append(row.values["caption"])
            owners.append(numbers[key])
        if waiting:
            images.append(self._stored(waiting))
        skipped: list[Skipped] = []
        if unreadable:
            skipped.append(Skipped(total - len(texts), total, next(iter(unreadable.values()))))
        captions: list[list[int]] = [[] for _ in numbers]
        too_long = 0
        for owner, ids in zip(owners, self._ids(texts), strict=True):
            if len(ids) > self.max_len:
                too_long += 1
            else:
                captions[owner] += ids
        if too_long:
            reason = f"a caption has more than {self.max_len} tokens (data.max_len)"
            skipped.append(Skipped(too_long, len(texts), reason))
        flat = np.concatenate(images) if images else np.zeros((0, 1), dtype=np.uint8)
        kept = np.array([bool(ids) for ids in captions], dtype=bool)
        flat = flat if kept.all() else flat[kept]
        return {"image": Ragged.from_rows(flat), "caption": Ragged.from_lists(filter(None, captions))}, skipped

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        return columns["caption"].lengths(examples) + self.patches.num_tokens

    def num_targets(self, columns: Columns, examples: Integers | None = None) -> Integers:
        return columns["caption"].lengths(examples)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Return images, augmented with `draw`, and all their captions shifted right by one as the decoder's input."""
        images = self._grids(torch.from_numpy(cast(Ragged, columns["image"]).stack(examples)))
        if draw:
            images = augment(images, self.augment, seed=0, epoch=draw, examples=examples)
        labels, sizes = columns["caption"].take(examples)
        ends = np.flatnonzero(labels == self.tokenizer.eos_id)
        lengths = np.diff(ends, prepend=-1)
        target, target_layout = shifted(labels, lengths, self.start)
        sources = torch.from_numpy(np.searchsorted(np.cumsum(sizes), ends, side="right"))
        layout = Layout.uniform(len(images), self.patches.num_tokens)
        return Batch(self._read(images), layout, torch.from_numpy(labels), target, target_layout, sources=sources)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        if not (self.doubly_stochastic and model.training):
            return super().loss(model, batch)
        with cross_attention_inputs(model) as calls:
            loss = super().loss(model, batch)
        return loss + self.doubly_stochastic * sum((unattended(inputs) for inputs in calls), start=loss.new_zeros(()))

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        if self.doubly_stochastic and not is_recurrent(settings):
            raise ValueError("train.doubly_stochastic is of recurrent decoders: set model.kind to gru or lstm")
        return captioner(settings, self.patches, self.tokenizer.vocab_size, self.max_len)

    def input_from(self, values: Mapping[str, Any]) -> ImageInput:
        return values["image"]

    def answer(  # type: ignore[override]
        self, loaded: LoadedModel, inputs: Sequence[ImageInput], beam: BeamConfig | None = None, *,
        max_new_tokens: int | None = None,
    ) -> Iterator[Caption]:  # fmt: skip
        """Yield the caption of each image, in order."""
        generator = TextGenerator.from_model(loaded)
        beam = beam or BeamConfig(size=BEAM_SIZE, length_penalty=LENGTH_PENALTY)
        for lo in range(0, len(inputs), CHUNK):
            resized = [resize_image(image, self.processor) for image in inputs[lo : lo + CHUNK]]
            read = self._read(self._grids(torch.from_numpy(self._stored(resized))))
            yield from caption(generator, list(read), beam, max_new_tokens=max_new_tokens)

    def evaluate(self, loaded: LoadedModel, rows: Rows, beam: int = BEAM_SIZE) -> Evaluation:
        """Compare captions with all those that the rows have of their image."""
        images: dict[str, ImageInput] = {}
        references: dict[str, list[str]] = {}
        for row in rows:
            key = str(row.values["image"])
            images.setdefault(key, row.values["image"])
            references.setdefault(key, []).append(row.values["caption"])
        results = self.answer(loaded, list(images.values()), BeamConfig(size=beam, length_penalty=LENGTH_PENALTY))
        return evaluate_captions([result.text for result in results], list(references.values()))

    def score(self, loaded: LoadedModel, rows: Rows, beam: int = 1) -> dict[str, float]:
        return self.evaluate(loaded, rows, beam).scores()

    def save_format(self, config: ModelConfig) -> SaveFormat:
        """Return the format of ViT with GPT-2; a recurrent decoder has clearhead's own. Features are kept with it."""
        eos = self.tokenizer.require_eos_id
        generation = generation_config(
            "marian", eos=eos, pad=self.start, max_len=self.max_len, beam=BEAM_SIZE, length_penalty=LENGTH_PENALTY
        )
        files = processor_file(self.processor) | ({} if self.features is None else features_file(self.features))
        if isinstance(config.stack, RecurrentConfig):
            return SaveFormat(OWN["clearhead-captioner"], "CaptionerForConditionalGeneration", generation, files)
        return SaveFormat(FAMILIES["vision-encoder-decoder/vit/gpt2"], "VisionEncoderDecoderModel", generation, files)

    def _stored(self, resized: Sequence[Tensor]) -> np.ndarray:
        """Return what is kept of resized images, a row for each: pixels of uint8, or features of float16."""
        if self.features is None:
            return torch.stack(list(resized)).flatten(1).numpy()
        return self.features(resized).flatten(1).half().numpy()

    def _grids(self, stored: Tensor) -> Tensor:
        """Return stored images in their shape, (n, C, H, W)."""
        if self.features is not None:
            return stored.view(-1, self.features.width, self.features.grid, self.features.grid)
        return stored.view(-1, 3, *self.processor.output_size)

    def _read(self, images: Tensor) -> Tensor:
        """Return what the model reads of pixels or features (n, C, H, W)."""
        return images.float() if self.features is not None else self.processor.normalize(images)


@contextmanager
def cross_attention_inputs(model: nn.Module) -> Generator[list[AttentionInputs]]:
    """Collect the inputs of the cross-attention of a model, with their gradient."""
    calls: list[AttentionInputs] = []
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, AttentionCore) and module.kind == "cross":
                hook = module.register_forward_pre_hook(lambda _, args: calls.append(args[0]))
                stack.callback(hook.remove)
        yield calls


def unattended(inputs: AttentionInputs) -> Tensor:
    """Return how unevenly the words of each caption attend to an image: (1 - the sum over words)**2 of all patches.

    The doubly stochastic attention of Xu et al. (2015, 4.2.1). All images have the same number of patches.
    """
    q, k = (layout.pad(x).transpose(1, 2) for layout, x in ((inputs.layout_q, inputs.q), (inputs.layout_k, inputs.k)))
    weights = torch.softmax(inputs.score.pair(q, k).float(), -1)  # (B, H, T, S)
    is_word = torch.arange(q.shape[2], device=q.device) < inputs.layout_q.lengths[:, None]
    received = (weights * is_word[:, None, :, None]).sum(2)  # (B, H, S)
    return ((1 - received) ** 2).mean(1).sum()
