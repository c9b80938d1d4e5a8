"""What a family's table is made of, and how it is read both ways.

`config` says which Hugging Face key each of our settings comes from, `weights` which tensor each of our parameters,
`heads` which architectures there are. Reading gives a `ModelConfig`; writing gives the Hugging Face config back, with
every key the table does not know left as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from clearhead.models.heads import POOLS, HeadConfig, Kind
from clearhead.models.model import ModelConfig
from clearhead.models.recurrent import RecurrentConfig
from clearhead.models.transformer import TransformerConfig

Raw = Mapping[str, Any]
"""A Hugging Face config as it stands in `config.json`."""


@dataclass(frozen=True)
class Key:
    """A setting that is one key of theirs: the first of `names` that is there and not null, else `default`."""

    names: str | tuple[str, ...]
    default: Any = None
    read: Callable[[Any], Any] = lambda value: value
    write: Callable[[Any], Any] = lambda value: value

    def of(self, raw: Raw) -> Any:
        """Our value."""
        names = (self.names,) if isinstance(self.names, str) else self.names
        found = next((raw[n] for n in names if raw.get(n) is not None), None)
        return self.default if found is None else self.read(found)

    def to(self, value: Any, raw: Raw) -> dict[str, Any]:
        """Their key with our value."""
        name = self.names if isinstance(self.names, str) else self.names[0]
        return {name: None if value is None else self.write(value)}


@dataclass(frozen=True)
class Derived:
    """A setting that takes more than one key of theirs: two functions, there and back.

    The way back is given what has been written so far: settings are written in the order of the table.
    """

    of: Callable[[Raw], Any]
    to: Callable[[Any, Raw], dict[str, Any]] = lambda value, raw: {}


@dataclass(frozen=True)
class Ours:
    """Parameters of ours that are one tensor of theirs: joined along the outputs, transposed, or as one row."""

    names: tuple[str, ...]
    transposed: bool = False
    row: bool = False
    beside: str | None = None  # the line counts only in a model that has this parameter too

    def read(self, tensor: Tensor, shapes: list[torch.Size]) -> list[Tensor]:
        """Their tensor as ours, which have these shapes."""
        tensor = tensor.squeeze(0) if self.row else tensor.T if self.transposed else tensor
        if len(self.names) == 1:
            return [tensor]
        return list(tensor.split([shape[0] for shape in shapes]))

    def write(self, tensors: list[Tensor]) -> Tensor:
        """Ours as their tensor."""
        tensor = tensors[0] if len(tensors) == 1 else torch.cat(tensors)
        return (tensor.unsqueeze(0) if self.row else tensor.T if self.transposed else tensor).contiguous()

    def shape(self, shapes: list[torch.Size]) -> tuple[int, ...]:
        """The shape of theirs, where ours have these."""
        whole = (sum(shape[0] for shape in shapes), *shapes[0][1:])
        return (1, *whole) if self.row else whole[::-1] if self.transposed else whole


def joined(*names: str, transposed: bool = False) -> Ours:
    """Several of ours, one after another in one of theirs."""
    return Ours(names, transposed)


def transposed(name: str) -> Ours:
    """A matrix they keep as (inputs, outputs)."""
    return Ours((name,), transposed=True)


def row(name: str) -> Ours:
    """A vector they keep as a matrix of one row."""
    return Ours((name,), row=True)


Weights = Mapping[str, str | Ours]
"""Their name to ours. A name is a parameter's, or a module's that has a weight and perhaps a bias; {} is the layer."""


@dataclass(frozen=True)
class Head:
    """One architecture: what its head is made of, and where its weights are.

    A setting is a value, a `Key` of their config, or a function of the stack that the head reads. In `weights` our
    names are relative to the head, and `~` in theirs stands for the body's prefix.
    """

    kind: Kind | None
    weights: Weights = field(default_factory=dict[str, "str | Ours"])
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    prefixed: bool = True  # their names of the body start with the family's prefix
    stacks: tuple[str, ...] | None = None  # the stacks it has; None: the family's


def _known_pooling(name: Any) -> str:
    if name not in POOLS:
        raise ValueError(f"config.json sets pooling to {name!r:.100}: choose {', '.join(POOLS)}")
    return name


# A head of our own on any encoder of text. `transformers` does not know it: in such a folder it finds the body alone.
POOLED = "PooledForSequenceClassification"
POOLED_HEAD = Head(
    "sequence",
    {"pooled.attention": "attention", "pooled.output": "output"},
    {"pool": Key("pooling", "mean", _known_pooling), "dropout": Key("pooling_dropout", 0.1)},
)


@dataclass(frozen=True)
class Pair:
    """One tensor of theirs and the parameters of ours that it holds."""

    theirs: str
    ours: tuple[str, ...]
    how: Ours
    in_head: bool  # ours belongs to the head: a folder may lack it
    prefixed: bool  # theirs belongs to the body: its prefix may be missing, or be there where none is due


@dataclass(frozen=True, kw_only=True)
class Family:
    """A family of models: its tables, and the two directions."""

    model_type: str
    title: str
    prefix: str
    stacks: tuple[str, ...]  # "encoder", "decoder" or both
    config: Mapping[str, Key | Derived]  # our setting, of every stack or of "encoder.…" or "decoder.…" alone
    constants: Mapping[str, Any]  # settings that the family always has
    weights: Weights  # none at all: the names are ours, a head's too
    heads: Mapping[str, Head]  # by architecture; the first is the plain model
    stack: Callable[..., TransformerConfig | RecurrentConfig] = TransformerConfig
    model: Mapping[str, Key | Derived] = field(default_factory=dict[str, "Key | Derived"])  # settings beside the stacks
    needs: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])
    tied: bool = True  # default of tie_word_embeddings
    ignored: tuple[str, ...] = ()  # their names that hold nothing of their own
    copies: Mapping[str, str] = field(default_factory=dict[str, str])  # an untied head keeps this tensor twice
    aliases: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]]
    )  # other names of a tensor

    def architecture(self, raw: Raw, kind: Kind | None = None) -> str:
        """The architecture a config names, or the one with this kind of head."""
        own = (POOLED,) if self.pools else ()
        named = [name for name in raw.get("architectures") or [] if name in (*self.heads, *own)]
        if kind is not None:
            found = [name for name in (*named, *self.heads) if self.head(name).kind == kind]
            if not found:
                kinds = ", ".join(dict.fromkeys(str(h.kind) for h in self.heads.values() if h.kind))
                raise ValueError(f"{self.title} has no {kind!r} head: choose one of {kinds}")
            return found[0]
        return next(iter((*named, *self.heads)))

    @property
    def pools(self) -> bool:
        """Can the pooled head of our own stand on it? On an encoder of text."""
        return self.stacks == ("encoder",) and "vocab_size" in self.config

    def head(self, architecture: str) -> Head:
        """The head of an architecture."""
        return POOLED_HEAD if architecture == POOLED else self.heads[architecture]

    def architecture_of(self, config: ModelConfig) -> str:
        """The architecture that a model of this configuration is."""
        stacks = tuple(stack for stack in ("encoder", "decoder") if getattr(config, stack) is not None)
        kind = None if config.head is None else config.head.kind
        for name, head in self.heads.items():
            if head.kind == kind and (head.stacks or self.stacks) == stacks:
                return name
        raise ValueError(
            f"{self.title} has no architecture of {' and '.join(stacks)} with "
            f"{'no head' if kind is None else f'a {kind!r} head'}: there are {', '.join(self.heads)}"
        )

    def read(self, raw: Raw, architecture: str, *, labels: Iterable[str] | None = None) -> ModelConfig:
        """Their config as ours; `labels` overrule it."""
        for name, allowed in self.needs.items():
            if name in raw and raw[name] is not None and raw[name] not in allowed:
                raise ValueError(
                    f"config.json sets {name} to {raw[name]!r}: {self.title} is read here with "
                    f"{' or '.join(map(repr, allowed))} only"
                )
        head = self.head(architecture)
        wanted = head.stacks or self.stacks
        stacks = {stack: self.stack(**self._settings(raw, stack)) for stack in wanted}
        last = stacks[wanted[-1]]
        config = self._head(head, raw, last, labels)
        beside = {name: key.of(raw) for name, key in self.model.items()}
        return ModelConfig(encoder=stacks.get("encoder"), decoder=stacks.get("decoder"), head=config, **beside)

    def write(self, config: ModelConfig, architecture: str, raw: Raw | None = None) -> dict[str, Any]:
        """Our config as theirs; `raw` is what it was read from, whose other keys and own spellings are kept."""
        out: dict[str, Any] = {"model_type": self.model_type, **(raw or {})}
        for stack in self.stacks:
            ours = getattr(config, stack)
            if ours is None:
                continue
            for name, key in self.config.items():
                scope, _, setting = name.rpartition(".")
                if scope in ("", stack) and key.of(out) != getattr(ours, setting):
                    out.update(key.to(getattr(ours, setting), out))
        for name, key in self.model.items():
            if key.of(out) != getattr(config, name):
                out.update(key.to(getattr(config, name), out))
        for name, key in self.head(architecture).settings.items():
            if isinstance(key, (Key, Derived)) and key.of(out) != getattr(config.head, name):
                out.update(key.to(getattr(config.head, name), out))
        kind, head = (None, None) if config.head is None else (config.head.kind, config.head)
        if head is not None and kind in ("vocabulary", "pretraining"):
            if self._head(self.head(architecture), out, config.stack, None) != head:
                out["tie_word_embeddings"] = head.tied
        elif head is not None and kind in ("sequence", "token") and read_labels(out) != head.labels:
            out.pop("num_labels", None)
            out["id2label"] = {str(i): name for i, name in enumerate(head.labels)}
            out["label2id"] = {name: i for i, name in enumerate(head.labels)}
        out["architectures"] = [architecture]
        return out

    def pairs(self, names: Iterable[str], architecture: str) -> list[Pair]:
        """Their tensors for these parameters of ours, in order; a parameter without a line is our own mistake."""
        if not self.weights:
            return [Pair(name, (name,), Ours((name,)), name.startswith("head."), False) for name in names]
        head = self.head(architecture)
        prefix = f"{self.prefix}." if head.prefixed and self.prefix else ""
        names = list(names)
        table = [(prefix + theirs, _lines(ours), False, True) for theirs, ours in self.weights.items()]
        for theirs, ours in head.weights.items():
            lines = _lines(ours)
            lines = Ours(tuple(f"head.{n}" for n in lines.names), lines.transposed, lines.row)
            table.append((theirs.replace("~", prefix), lines, True, "~" in theirs))
        layers = _ranks(names)
        found = {pair.ours[0]: pair for line in table for pair in _match(*line, names, layers)}
        covered = {name for pair in found.values() for name in pair.ours}
        assert covered == set(names), f"{self.model_type}: no line for {sorted(set(names) - covered)}"
        return [found[name] for name in names if name in found]

    def vocabulary(self, architecture: str) -> str | None:
        """Their name of the vocabulary's own vectors, which a tied model does not need."""
        lines = self.head(architecture).weights.items()
        names = {"output": ".weight", "output.weight": "", "words.output.weight": ""}
        wanted = self.head(architecture).kind in ("vocabulary", "pretraining")
        return next((t + names[o] for t, o in lines if wanted and isinstance(o, str) and o in names), None)

    def _settings(self, raw: Raw, stack: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for table in (self.constants, self.config):
            for name, value in table.items():
                scope, _, setting = name.rpartition(".")
                if scope in ("", stack):
                    out[setting] = value.of(raw) if isinstance(value, (Key, Derived)) else value
        return out

    def _head(
        self, head: Head, raw: Raw, stack: TransformerConfig | RecurrentConfig, labels: Iterable[str] | None
    ) -> HeadConfig | None:
        if head.kind is None:
            return None
        out: dict[str, Any] = {"kind": head.kind, "width": stack.width, "vocab_size": stack.vocab_size}
        out["tied"] = bool(raw.get("tie_word_embeddings", self.tied))
        if head.kind in ("sequence", "token"):
            out["labels"] = tuple(labels) if labels is not None else read_labels(raw)
        for name, value in head.settings.items():
            value = value.of(raw) if isinstance(value, (Key, Derived)) else value
            out[name] = value(stack) if callable(value) else value
        return HeadConfig(**out)


def read_labels(raw: Raw) -> tuple[str, ...]:
    """The names of the classes, by number."""
    names = raw.get("id2label")
    if not isinstance(names, dict) or not names:
        count = raw.get("num_labels", raw.get("_num_labels", 2))
        if not isinstance(count, int) or not 1 <= count <= 2**20:
            raise ValueError(f"num_labels is {count!r}: it must be a whole number from 1 to {2**20}")
        return tuple(f"LABEL_{i}" for i in range(count))
    by_number: dict[int, str] = {}
    for number, name in names.items():
        if not str(number).isdecimal() or not isinstance(name, str):
            raise ValueError(f"id2label holds {number!r}: {name!r}; it maps numbers to names")
        by_number[int(number)] = name
    if sorted(by_number) != list(range(len(by_number))):
        raise ValueError(f"id2label numbers its {len(by_number)} labels {sorted(by_number)[:5]}…: they count from 0")
    return tuple(by_number[i] for i in range(len(by_number)))


# Their names of activations. What is not here is refused by name when the layer is built.
ACTIVATION = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}


def activation(name: str, default: str) -> Key:
    """A key that names an activation, `default` in their words."""
    back = {"gelu_tanh": "gelu_new"}
    return Key(name, ACTIVATION[default], lambda v: ACTIVATION.get(v, v), lambda v: back.get(v, v))


def _lines(ours: str | Ours) -> Ours:
    return Ours((ours,)) if isinstance(ours, str) else ours


_LAYER = re.compile(r"^(encoder|decoder)\.blocks\.(\d+)\.")


def _ranks(names: list[str]) -> dict[tuple[str, int], int]:
    """The number of each block among those with weights of their own: shared ones count once."""
    found = sorted({(m[1], int(m[2])) for m in map(_LAYER.match, names) if m})
    return {key: sum(1 for other in found if other[0] == key[0] and other[1] < key[1]) for key in found}


def _match(
    theirs: str, how: Ours, in_head: bool, prefixed: bool, names: list[str], layers: dict[tuple[str, int], int]
) -> Iterable[Pair]:
    """The pairs that one line of a table stands for in a model with these parameters."""
    line = re.compile(re.escape(how.names[0]).replace(r"\{\}", r"(?P<layer>\d+)") + r"(?P<suffix>\.weight|\.bias)?")
    for name in names:
        if (m := line.fullmatch(name)) is None:
            continue
        layer, suffix = m.groupdict().get("layer"), m["suffix"] or ""
        ours = tuple(n.replace("{}", layer or "") + suffix for n in how.names)
        if how.beside is not None and how.beside.replace("{}", layer or "") + suffix not in names:
            continue
        number = "" if layer is None else str(layers[name.partition(".")[0], int(layer)])
        turned = how.transposed and suffix != ".bias"
        yield Pair(theirs.replace("{}", number) + suffix, ours, replace(how, transposed=turned), in_head, prefixed)
