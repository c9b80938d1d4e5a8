"""Captured run: the attention that `look` records, with token labels, ready to be drawn and shown."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor, nn

from clearhead.attention import AttentionCapture, AttentionMap, Layout
from clearhead.attention.capture.look import capture_depth
from clearhead.attention.multihead import AttentionKind
from clearhead.files import write_atomic
from clearhead.hub.image_features import ImageFeatures
from clearhead.integrations.transformers import capture as live
from clearhead.layers.efficientnet import STRIDE
from clearhead.models.model import Model
from clearhead.vision import ImageProcessor, Patches
from clearhead.vision.image_processor import find_image_processor
from clearhead.viz.figures import plot
from clearhead.viz.image_figures import plot_image
from clearhead.viz.image_scene import CaptionWords, ImageInput, ImageScene, image_page, shown_pixels
from clearhead.viz.live_server import LiveServer
from clearhead.viz.page import page
from clearhead.viz.scene import Scene, SceneAnswer, SceneAxis, SceneInput, SceneLayer
from clearhead.viz.sources import AttentionSource, Captured, CapturedSteps
from clearhead.viz.style import DARK, LIGHT
from clearhead.viz.token_labels import TokenLabels, token_labels
from clearhead.viz.widget import widget

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_PAGE_TOKENS = 1024  # tokens up to which a page contains all weights; longer inputs need the live server

TokenSpec = Sequence[str] | Sequence[Sequence[str]] | Any
"""The tokens of one input or of several, or a tokenizer (from clearhead or transformers) that decodes them."""


class InputLog:
    """The token ids that each stack received in one run, with their layouts, or the images."""

    def __init__(self) -> None:
        self.calls: dict[str, list[tuple[Tensor, Layout | None]]] = {}
        self.images: list[ImageInput] = []  # of a model that reads images

    def append(self, stack: str, ids: Tensor, layout: Layout | None) -> None:
        self.calls.setdefault(stack, []).append((ids.detach().clone(), layout))

    def append_images(self, pixels: Tensor | Sequence[Tensor], patch_size: int) -> None:
        self.images += [ImageInput(image.detach().clone(), patch_size) for image in pixels]

    def sequences(self, stack: str) -> list[Tensor]:
        """Return the ids of each sequence, concatenated over all calls."""
        parts = [_split(ids, layout) for ids, layout in self.calls.get(stack, [])]
        count = len(parts[-1]) if parts else 0
        same_size = [part for part in parts if len(part) == count]
        return [torch.cat([part[i] for part in same_size]) for i in range(count)]


def _split(ids: Tensor, layout: Layout | None) -> list[Tensor]:
    return list(ids.unbind(0)) if layout is None else list(layout.split(ids))


class CapturedRun(Mapping[str, AttentionMap]):
    """Captured attention by layer name; `show` opens it as a page, `plot` draws a figure."""

    def __init__(
        self,
        capture: AttentionCapture,
        inputs: InputLog,
        tokenizer: Any = None,
        model: str = "",
        processor: ImageProcessor | None = None,
    ) -> None:
        self.capture = capture
        self.inputs = inputs
        self.model = model
        self._tokenizer = tokenizer
        self._processor = processor

    def __getitem__(self, name: str) -> AttentionMap:
        return self.capture[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.capture)

    def __len__(self) -> int:
        return len(self.capture)

    def __repr__(self) -> str:
        return repr(self.capture)

    def calls(self, name: str) -> list[AttentionMap]:
        """The maps of all calls of an attention, in order."""
        return self.capture.calls(name)

    def rollout(self, *args: Any, **options: Any) -> Tensor:
        """Return the attention rollout (Abnar and Zuidema 2020): see `AttentionCapture.rollout`."""
        return self.capture.rollout(*args, **options)

    def scene(
        self,
        words: TokenSpec | None = None,
        source: TokenSpec | None = None,
        *,
        title: str = "",
        answers: Sequence[SceneAnswer | None] = (),
    ) -> Scene:
        """Return the captured attention with token labels.

        `words` labels the text (for an encoder-decoder: the target), `source` labels the encoder's input; a tokenizer
        labels both.
        """
        layers = [name for name in self.capture if self.capture.has(name)]
        if not layers:
            raise LookupError("no attention was captured: run the model inside the `look` context")
        encoder_decoder = any(self.capture[name].kind == "cross" for name in layers)
        inputs: list[SceneInput] = []
        for i in range(self.capture[layers[0]].num_sequences):
            axes = (
                self._axes(i, words, source)
                if encoder_decoder
                else [SceneAxis("text", self._labels(_stack(layers[0]), words, i))]
            )
            scene_layers = tuple(self._layer(name, i, encoder_decoder) for name in layers)
            label = _label(axes[0].names)
            inputs.append(SceneInput(label, tuple(axes), scene_layers, answers[i] if i < len(answers) else None))
        return Scene(tuple(inputs), title or inputs[0].label, self.model)

    @property
    def of_images(self) -> bool:
        """Whether the model read images: pages and figures then show their patches."""
        return bool(self.inputs.images)

    def image_scene(self, sequence: int = 0, *, title: str = "") -> ImageScene:
        """Return an image with the captured attention of its patches, and of the words of its caption."""
        ran = [name for name in self.capture if self.capture.has(name)]
        layers = [name for name in ran if _reads_patches(name)]
        cross = [name for name in ran if self.capture[name].kind == "cross"]
        if not (layers or cross) or not self.of_images:
            raise LookupError("no attention of images was captured: run a vision model inside the `look` context")
        sizes = [view.num_sequences for view in self.capture.calls((layers or cross)[0])]
        if not 0 <= sequence < sum(sizes):
            raise ValueError(f"there is no image {sequence}: choose 0 to {sum(sizes) - 1}")
        call, place = 0, sequence
        while place >= sizes[call]:
            place -= sizes[call]
            call += 1
        image = self.inputs.images[sequence]
        found = (SceneLayer(name, "self", 0, 0, Captured(self.capture.calls(name)[call], place)) for name in layers)
        mean, std = (None, None) if self._processor is None else (self._processor.mean, self._processor.std)
        pixels = shown_pixels(image.pixels, mean, std)
        words = self._words(cross, call, place, sequence) if cross else None
        title = title or (" ".join(words.words) if words else "Attention of an image")
        return ImageScene(pixels, image.grid, tuple(found), title, self.model, words)

    def _words(self, cross: Sequence[str], call: int, place: int, sequence: int) -> CaptionWords | None:
        """Return the words of a caption with their attention to the image; None where they are not known."""
        rows = [ids for part in self.inputs.calls.get("decoder", []) for ids in _split(*part)]
        if self._tokenizer is None or sequence >= len(rows):
            return None
        weights = {name: self.capture.calls(name)[call].heads(place) for name in cross}
        read = token_labels(self._tokenizer.tokens(rows[sequence].tolist()), set(self._tokenizer.specials.values()))
        end = next(iter(weights.values())).shape[1] - (len(read) - 1)  # the last step writes a token that none reads
        return CaptionWords.join(
            TokenLabels(read.words[1:], read.special[1:], read.joined[1:]),
            {name: one[:, : one.shape[1] - end] for name, one in weights.items()},
        )

    def _axes(self, sequence: int, words: TokenSpec | None, source: TokenSpec | None) -> list[SceneAxis]:
        """Return the axes of an encoder-decoder: encoder input, decoder input and decoder output."""
        source_spec = source if source is not None or isinstance(words, Sequence) else words
        decoder_input = self._labels("decoder", words, sequence)
        specials = getattr(self._tokenizer, "specials", {})
        end = specials.get("eos", "</s>") if isinstance(specials, Mapping) else "</s>"
        decoder_output = TokenLabels(
            (*decoder_input.words[1:], end), (*decoder_input.special[1:], True), (*decoder_input.joined[1:], False)
        )
        encoder_input = self._labels("encoder", source_spec, sequence)
        axes = {"source": encoder_input, "decoder input": decoder_input, "decoder output": decoder_output}
        return [SceneAxis(name, labels) for name, labels in axes.items()]

    def show(self, words: TokenSpec | None = None, source: TokenSpec | None = None, *, title: str = "",
             path: str | Path | None = None, open: bool = True) -> str:  # fmt: skip
        """Open the captured attention in a browser and return the page's address.

        Up to 1,024 tokens, the page is one self-contained HTML file, at `path` if given. Longer inputs use a live page,
        which this process serves on loopback while it runs. The page of a model of images shows the first image;
        `image_page(run.image_scene(1))` is that of another.
        """
        if self.of_images:
            address = _write_page(image_page(self.image_scene(title=title)), path)
        else:
            address = show(self.scene(words, source, title=title), path)
        if open:
            webbrowser.open(address)
        return address

    def widget(self, words: TokenSpec | None = None, source: TokenSpec | None = None, *, title: str = "") -> Any:
        """Return the page as a notebook widget, for up to 1,024 tokens."""
        scene = self.scene(words, source, title=title)
        if scene.longest > MAX_PAGE_TOKENS:
            raise ValueError(
                f"{scene.longest:,} tokens are too many for a widget (at most {MAX_PAGE_TOKENS:,}): use `show`"
            )
        return widget(scene)

    def plot(self, kind: str = "alignment", words: TokenSpec | None = None, source: TokenSpec | None = None, *,
             sequence: int = 0, layer: str | int | None = None, head: int | None = None,
             word: str | int | None = None, patch: str | tuple[int, int] | None = None,
             dark: bool = False) -> Figure:  # fmt: skip
        """Return a matplotlib figure; `kind` is alignment, heads, model, word, head_stats or rollout.

        Of images it is heads, rollout, distance or words; `patch` is the row and column of the patch that looks.
        """
        theme = DARK if dark else LIGHT
        if self.of_images:
            return plot_image(self.image_scene(sequence), kind, layer=layer, patch=patch, theme=theme)
        scene = self.scene(words, source)
        return plot(scene, kind, sequence=sequence, layer=layer, head=head, word=word, theme=theme)

    def _layer(self, name: str, sequence: int, encoder_decoder: bool) -> SceneLayer:
        calls = [view for view in self.capture.calls(name) if sequence < view.num_sequences]
        steps = [Captured(view, sequence) for view in calls]
        record: AttentionSource = steps[-1] if len(steps) == 1 else CapturedSteps(steps)
        kind: Literal["self", "cross"] = calls[-1].kind
        if not encoder_decoder:
            return SceneLayer(name, kind, 0, 0, record)
        if kind == "cross":
            return SceneLayer(name, kind, 2, 0, record)
        axis = 0 if _stack(name) == "encoder" else 1
        return SceneLayer(name, kind, axis, axis, record)

    def _labels(self, stack: str, spec: TokenSpec | None, sequence: int) -> TokenLabels:
        if isinstance(spec, Sequence) and spec:
            tokens = spec if isinstance(spec[0], str) else spec[sequence]
            return token_labels([str(token) for token in tokens])
        tokenizer = spec if spec is not None and not isinstance(spec, Sequence) else self._tokenizer
        sequences = self.inputs.sequences(stack)
        if tokenizer is not None and sequence < len(sequences):
            ids = sequences[sequence].tolist()
            if hasattr(tokenizer, "convert_ids_to_tokens"):  # a tokenizer from transformers
                return token_labels(tokenizer.convert_ids_to_tokens(ids), set(tokenizer.all_special_tokens))
            return token_labels(tokenizer.tokens(ids), set(tokenizer.specials.values()))
        return token_labels([str(i) for i in range(self._length(stack, sequence))], ())

    def _length(self, stack: str, sequence: int) -> int:
        """Return the number of tokens a stack received, from the shapes of its attention maps."""
        for name in filter(self.capture.has, self.capture):
            queries, keys = self.capture[name].shape(sequence)
            if _stack(name) == stack:
                return queries
            if stack == "encoder" and self.capture[name].kind == "cross":
                return keys
        return 0


def show(scene: Scene, path: str | Path | None = None) -> str:
    """Return the address of a page for the scene: an HTML file up to 1,024 tokens, otherwise a live page."""
    if scene.longest > MAX_PAGE_TOKENS:
        if path is not None:
            raise ValueError(
                f"{scene.longest:,} tokens are too many for a file (at most {MAX_PAGE_TOKENS:,}): "
                "omit `path` to use a live page"
            )
        return LiveServer(scene).address
    return _write_page(page(scene), path)


def _write_page(content: str, path: str | Path | None) -> str:
    file = Path(path) if path is not None else Path(tempfile.mkdtemp(prefix="clearhead-")) / "attention.html"
    write_atomic(file, content.encode())
    return file.resolve().as_uri()


@contextmanager
def look(
    model: Any,
    *,
    layers: Iterable[str | int] | None = None,
    kinds: Iterable[AttentionKind] = ("self", "cross"),
    tokenizer: Any = None,
) -> Generator[CapturedRun]:
    """Capture the attention of a clearhead model or `Pipeline`, or of a transformers model, with any kernel.

    `layers` selects attention layers by name (default: all; a number selects that layer of every stack), `kinds`
    selects self-attention, cross-attention or both. A `tokenizer` labels the tokens.
    """
    module, inputs = live.module_of(model), InputLog()
    loaded: Any = None if isinstance(model, nn.Module) else getattr(model, "loaded", None)
    name, processor, features = type(module).__name__, None, None
    if loaded is not None:
        name, tokenizer = loaded.architecture, tokenizer or loaded.tokenizer
        processor = find_image_processor(loaded.extra_files)
        if loaded.config.patches is not None and loaded.config.decoder is not None:
            features = cast(Any, model).captioner.features
    with ExitStack() as stack:
        capture = stack.enter_context(live.look(model, layers=layers, kinds=kinds))
        _log_inputs(module, inputs, stack, features)
        yield CapturedRun(capture, inputs, tokenizer, name, processor)


def _log_inputs(module: nn.Module, inputs: InputLog, stack: ExitStack, features: ImageFeatures | None) -> None:
    """Register hooks that log the token ids of each stack, and images where they come in: of features, before them."""
    depth = capture_depth()
    if features is not None:

        def log_images(_: nn.Module, args: tuple[Any, ...]) -> None:
            inputs.append_images(args[0], STRIDE)

        stack.callback(features.network.register_forward_pre_hook(log_images).remove)
    if isinstance(module, Model):
        for name in ("encoder", "decoder"):
            part = getattr(module, name, None)
            if part is not None:

                def log_stack(embedding: nn.Module, args: tuple[Any, ...], name: str = name) -> None:
                    if capture_depth() > depth or len(args) < 2 or not isinstance(args[1], Layout):
                        return
                    if isinstance(embedding, Patches):
                        if features is None:
                            inputs.append_images(args[0], embedding.config.patch_size)
                    else:
                        inputs.append(name, args[0], args[1])

                stack.callback(part.embedding.register_forward_pre_hook(log_stack).remove)
        return

    def log_call(_: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        pixels, patch_size = options.get("pixel_values"), _patch_size(module)
        if pixels is None and args and isinstance(args[0], Tensor) and args[0].ndim == 4:
            pixels = args[0]
        if pixels is not None and patch_size is not None:
            inputs.append_images(pixels, patch_size)
            return
        input_ids = options.get("input_ids", args[0] if args and isinstance(args[0], Tensor) else None)
        decoder_ids = options.get("decoder_input_ids")
        decoder_only = all(_stack(name) == "decoder" for name in live.attentions(module))
        first = "encoder" if decoder_ids is not None or not decoder_only else "decoder"
        for name, ids in ((first, input_ids), ("decoder", decoder_ids)):
            if isinstance(ids, Tensor) and ids.ndim == 2:
                inputs.append(name, ids, None)

    stack.callback(module.register_forward_pre_hook(log_call, with_kwargs=True).remove)


def _patch_size(module: nn.Module) -> int | None:
    """Return the sides of the patches of a transformers model; None where it reads no images."""
    config = getattr(module, "config", None)
    size = getattr(config, "patch_size", getattr(getattr(config, "vision_config", None), "patch_size", None))
    return size if isinstance(size, int) else None


def _reads_patches(name: str) -> bool:
    """Return whether a layer is of the encoder of images: not of a decoder, nor of the encoder of texts beside it."""
    return "encoder" in name.split(".") and _stack(name) != "text"


def _stack(name: str) -> str:
    return name.partition(".")[0]


def _label(labels: TokenLabels) -> str:
    text = ""
    for word, special, joined in zip(labels.words, labels.special, labels.joined, strict=True):
        if not special:
            text += word if joined or not text else f" {word}"
        if len(text) > 60:
            return text[:59] + "…"
    return text
