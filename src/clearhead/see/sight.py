"""Sight: what `look` saw, with the words it was seen of, ready to be drawn and shown."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from clearhead.attention import Layout, Seen, View
from clearhead.attention.look import depth
from clearhead.attention.multihead import Kind
from clearhead.files import write_atomic
from clearhead.models import live
from clearhead.models.model import Model
from clearhead.see.figures import plot
from clearhead.see.live import Served
from clearhead.see.page import page
from clearhead.see.paper import DARK, LIGHT
from clearhead.see.records import Record, Stepped, Watched
from clearhead.see.scene import Answer, Axis, Input, Layer, Scene
from clearhead.see.tokens import Names, names
from clearhead.see.widget import widget

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WHOLE = 1024  # tokens up to which a page carries all weights; beyond, it is live


Words = Sequence[str] | Sequence[Sequence[str]] | Any
"""Pieces of one input, or of several, or a tokenizer (clearhead's, or that of transformers) to name them."""


class Read:
    """What each stack read in one run: ids and where each sequence lies."""

    def __init__(self) -> None:
        self.calls: dict[str, list[tuple[Tensor, Layout | None]]] = {}

    def keep(self, stack: str, ids: Tensor, layout: Layout | None) -> None:
        self.calls.setdefault(stack, []).append((ids.detach().clone(), layout))

    def sequences(self, stack: str) -> list[Tensor]:
        """The ids of each sequence, those of all calls one after another."""
        parts = [_split(ids, layout) for ids, layout in self.calls.get(stack, [])]
        count = len(parts[-1]) if parts else 0
        same = [part for part in parts if len(part) == count]
        return [torch.cat([part[i] for part in same]) for i in range(count)]


def _split(ids: Tensor, layout: Layout | None) -> list[Tensor]:
    return list(ids.unbind(0)) if layout is None else list(layout.split(ids))


class Sight(Mapping[str, View]):
    """What was seen, by the names of the attentions; `show` opens it as a page, `plot` draws it."""

    def __init__(self, seen: Seen, read: Read, tokenizer: Any = None, model: str = "") -> None:
        self.seen = seen
        self.read = read
        self.model = model
        self._tokenizer = tokenizer

    def __getitem__(self, name: str) -> View:
        return self.seen[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.seen)

    def __len__(self) -> int:
        return len(self.seen)

    def __repr__(self) -> str:
        return repr(self.seen)

    def calls(self, name: str) -> list[View]:
        """Every call of this attention, in order."""
        return self.seen.calls(name)

    def rollout(self, *args: Any, **options: Any) -> Tensor:
        """How much of each input token reaches these outputs through all layers: see `Seen.rollout`."""
        return self.seen.rollout(*args, **options)

    def scene(
        self,
        words: Words | None = None,
        source: Words | None = None,
        *,
        title: str = "",
        answers: Sequence[Answer | None] = (),
    ) -> Scene:
        """All that was seen, with names. `words` are those of the stack that reads the text (of a translator: the
        target), `source` those of its encoder; a tokenizer names both.
        """
        layers = [name for name in self.seen if self.seen.has(name)]
        if not layers:
            raise LookupError("nothing was seen: run the model inside `look` first")
        both = any(self.seen[name].kind == "cross" for name in layers)
        inputs: list[Input] = []
        for i in range(self.seen[layers[0]].num_sequences):
            axes = self._axes(i, words, source) if both else [Axis("text", self._names(_stack(layers[0]), words, i))]
            found = tuple(self._layer(name, i, both) for name in layers)
            label = _label(axes[0].names)
            inputs.append(Input(label, tuple(axes), found, answers[i] if i < len(answers) else None))
        return Scene(tuple(inputs), title or inputs[0].label, self.model)

    def _axes(self, sequence: int, words: Words | None, source: Words | None) -> list[Axis]:
        """Of an encoder-decoder: what is read, what the decoder reads of itself, and what it writes then."""
        named = source if source is not None or isinstance(words, Sequence) else words
        read = self._names("decoder", words, sequence)
        specials = getattr(self._tokenizer, "specials", {})
        end = specials.get("eos", "</s>") if isinstance(specials, Mapping) else "</s>"
        written = Names((*read.words[1:], end), (*read.special[1:], True), (*read.joined[1:], False))
        first = self._names("encoder", named, sequence)
        return [Axis("source", first), Axis("read", read), Axis("written", written)]

    def show(self, words: Words | None = None, source: Words | None = None, *, title: str = "",
             path: str | Path | None = None, open: bool = True) -> str:  # fmt: skip
        """Open what was seen in a browser, and give its address.

        Up to 1,024 tokens it is one HTML file with all in it, at `path` if given; more come from a live page that this
        process serves on loopback while it runs.
        """
        scene = self.scene(words, source, title=title)
        address = show(scene, path)
        if open:
            webbrowser.open(address)
        return address

    def widget(self, words: Words | None = None, source: Words | None = None, *, title: str = "") -> Any:
        """The page as a widget of a notebook, for up to 1,024 tokens."""
        scene = self.scene(words, source, title=title)
        if scene.longest > WHOLE:
            raise ValueError(f"{scene.longest:,} tokens are too many for a cell (at most {WHOLE:,}): use `show`")
        return widget(scene)

    def plot(self, kind: str = "alignment", words: Words | None = None, source: Words | None = None, *,
             sequence: int = 0, layer: str | int | None = None, head: int | None = None,
             word: str | int | None = None, dark: bool = False) -> Figure:  # fmt: skip
        """A figure of what was seen: alignment, heads, model, word, facts or rollout."""
        scene = self.scene(words, source)
        theme = DARK if dark else LIGHT
        return plot(scene, kind, sequence=sequence, layer=layer, head=head, word=word, theme=theme)

    def _layer(self, name: str, sequence: int, both: bool) -> Layer:
        calls = [view for view in self.seen.calls(name) if sequence < view.num_sequences]
        steps = [Watched(view, sequence) for view in calls]
        record: Record = steps[-1] if len(steps) == 1 else Stepped(steps)
        kind: Literal["self", "cross"] = calls[-1].kind
        if not both:
            return Layer(name, kind, 0, 0, record)
        own = 0 if _stack(name) == "encoder" else 1
        return Layer(name, kind, 2, 0, record) if kind == "cross" else Layer(name, kind, own, own, record)

    def _names(self, stack: str, given: Words | None, sequence: int) -> Names:
        reader = given if given is not None and not isinstance(given, Sequence) else self._tokenizer
        if isinstance(given, Sequence) and given:
            first = given[0]
            pieces = given if isinstance(first, str) else given[sequence]
            return names([str(piece) for piece in pieces])
        found = self.read.sequences(stack)
        if reader is not None and sequence < len(found):
            ids = found[sequence].tolist()
            if hasattr(reader, "convert_ids_to_tokens"):
                return names(reader.convert_ids_to_tokens(ids), set(reader.all_special_tokens))
            return names(reader.tokens(ids), set(reader.specials.values()))
        return names([str(i) for i in range(self._size(stack, sequence))], ())

    def _size(self, stack: str, sequence: int) -> int:
        """How many tokens a stack read, as the attentions over it tell."""
        for name in filter(self.seen.has, self.seen):
            queries, keys = self.seen[name].shape(sequence)
            if _stack(name) == stack:
                return queries
            if stack == "encoder" and self.seen[name].kind == "cross":
                return keys
        return 0


def show(scene: Scene, path: str | Path | None = None) -> str:
    """The address of a scene: a file where it can carry all weights, a live page of this process otherwise."""
    if scene.longest > WHOLE:
        if path is not None:
            raise ValueError(f"{scene.longest:,} tokens are too many for a file (at most {WHOLE:,}): leave `path` out")
        return Served(scene).address
    where = Path(path) if path is not None else Path(tempfile.mkdtemp(prefix="clearhead-")) / "attention.html"
    write_atomic(where, page(scene).encode())
    return where.resolve().as_uri()


@contextmanager
def look(
    model: Any,
    *,
    layers: Iterable[str | int] | None = None,
    kinds: Iterable[Kind] = ("self", "cross"),
    tokenizer: Any = None,
) -> Generator[Sight]:
    """Watch the attention of a model of clearhead (or an `App`), or of transformers, on the kernel it runs.

    `layers` names the attentions to keep (all by default; a number is that layer of every stack), `kinds` keeps
    self-attention, cross-attention or both. With a `tokenizer`, what is seen is shown with its words.
    """
    module, read = live.module_of(model), Read()
    opened: Any = None if isinstance(model, nn.Module) else getattr(model, "opened", None)
    name = type(module).__name__
    if opened is not None:
        name, tokenizer = opened.architecture, tokenizer or opened.tokenizer
    with ExitStack() as stack:
        seen = stack.enter_context(live.look(model, layers=layers, kinds=kinds))
        _listen(module, read, stack)
        yield Sight(seen, read, tokenizer, name)


def _listen(module: nn.Module, read: Read, stack: ExitStack) -> None:
    """Keep the ids that each stack reads."""
    here = depth()
    if isinstance(module, Model):
        for name in ("encoder", "decoder"):
            part = getattr(module, name, None)
            if part is not None:

                def keep(_: nn.Module, args: tuple[Any, ...], name: str = name) -> None:
                    if depth() <= here and len(args) > 1 and isinstance(args[1], Layout):
                        read.keep(name, args[0], args[1])

                stack.callback(part.embedding.register_forward_pre_hook(keep).remove)
        return

    def heard(_: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        ids = options.get("input_ids", args[0] if args and isinstance(args[0], Tensor) else None)
        written = options.get("decoder_input_ids")
        own = "encoder" if written is not None or not _decodes(module) else "decoder"
        for name, found in ((own, ids), ("decoder", written)):
            if isinstance(found, Tensor) and found.ndim == 2:
                read.keep(name, found, None)

    stack.callback(module.register_forward_pre_hook(heard, with_kwargs=True).remove)


def _decodes(module: nn.Module) -> bool:
    """Is it a decoder alone, as the names of its attentions will say?"""
    return all(_stack(name) == "decoder" for name in live.attentions(module))


def _stack(name: str) -> str:
    return name.partition(".")[0]


def _label(names: Names) -> str:
    """The words as a text, cut where it is long."""
    text = ""
    for word, special, joined in zip(names.words, names.special, names.joined, strict=True):
        if not special:
            text += word if joined or not text else f" {word}"
        if len(text) > 60:
            return text[:59] + "…"
    return text
