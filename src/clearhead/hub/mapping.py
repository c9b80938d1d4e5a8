"""Mapping between Hugging Face folders and clearhead models, in both directions.

A `Family` maps config keys (`config`), tensor names (`weights`) and architectures (`heads`). Reading gives a
`ModelConfig`; writing gives the Hugging Face config back, with unknown keys unchanged.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from clearhead.hub.tensor_map import TensorMap
from clearhead.models.heads import POOLS, HeadConfig, HeadKind
from clearhead.models.model import ModelConfig
from clearhead.models.recurrent import RecurrentConfig
from clearhead.models.transformer import TransformerConfig

Raw = Mapping[str, Any]
"""The content of a Hugging Face `config.json`."""


@dataclass(frozen=True)
class ConfigKey:
    """A setting stored under one key: the first of `names` that is present and not null, else `default`."""

    names: str | tuple[str, ...]
    default: Any = None
    read: Callable[[Any], Any] = lambda value: value
    write: Callable[[Any], Any] = lambda value: value

    def of(self, raw: Raw) -> Any:
        names = (self.names,) if isinstance(self.names, str) else self.names
        value = next((raw[n] for n in names if raw.get(n) is not None), None)
        return self.default if value is None else self.read(value)

    def to(self, value: Any, raw: Raw) -> dict[str, Any]:
        name = self.names if isinstance(self.names, str) else self.names[0]
        return {name: None if value is None else self.write(value)}


@dataclass(frozen=True)
class DerivedKey:
    """A setting derived from several keys: a function that reads it and one that writes it.

    The writer receives the config written so far; settings are written in the order of the table.
    """

    of: Callable[[Raw], Any]
    to: Callable[[Any, Raw], dict[str, Any]] = lambda value, raw: {}


def in_section(section: str, key: ConfigKey | DerivedKey, written: Mapping[str, Any] | None = None) -> DerivedKey:
    """Returns a key that is read from and written to a section of the config; `written` is always in that section."""

    def to(value: Any, raw: Raw) -> dict[str, Any]:
        inner = {**(written or {}), **raw.get(section, {})}
        return {section: {**inner, **key.to(value, inner)}}

    return DerivedKey(lambda raw: key.of(raw.get(section, {})), to)


Weights = Mapping[str, str | TensorMap]
"""Hugging Face name to clearhead name: of a parameter, or of a module with weight and bias; {} is the layer.

`{stack}` is the last stack of an architecture, where it may be the encoder or the decoder.
"""


@dataclass(frozen=True)
class HeadMapping:
    """One architecture: the settings and weights of its head.

    A setting is a value, a `ConfigKey`, or a function of the stack config that the head reads. In `weights`, clearhead
    names are relative to the head, and `~` in Hugging Face names is the body's prefix.
    """

    kind: HeadKind | None
    weights: Weights = field(default_factory=dict[str, "str | TensorMap"])
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    prefixed: bool = True  # Hugging Face names of the body start with the family's prefix
    stacks: tuple[str, ...] | None = None  # None: the family's
    # settings of the stacks in place of the family's
    config: Mapping[str, ConfigKey | DerivedKey] = field(default_factory=dict[str, "ConfigKey | DerivedKey"])
    required_values: Mapping[str, Any] = field(default_factory=dict[str, Any])  # of keys of the config


def check_pooling(name: Any) -> str:
    """Return a pooling that config.json names; ValueError if there is no such."""
    if name not in POOLS:
        raise ValueError(f"config.json sets pooling to {name!r:.100}: choose {', '.join(POOLS)}")
    return name


# A clearhead head for any text encoder. `transformers` does not have it: it opens only the body of such a folder.
POOLED = "PooledForSequenceClassification"
POOLED_HEAD = HeadMapping(
    "sequence",
    {"pooled.attention": "attention", "pooled.output": "output"},
    {"pool": ConfigKey("pooling", "mean", check_pooling), "dropout": ConfigKey("pooling_dropout", 0.1)},
)


METHODS = "attention_methods"  # the key of config.json that names methods in place of exact attention, by stack


@dataclass(frozen=True)
class WeightPair:
    """A Hugging Face tensor and the clearhead parameters it stores."""

    hf_name: str
    params: tuple[str, ...]
    tensor_map: TensorMap
    in_head: bool  # belongs to the head: a folder may lack it
    prefixed: bool  # belongs to the body: its prefix may be missing or superfluous


@dataclass(frozen=True, kw_only=True)
class Family:
    """A model family: its mapping tables, and reading and writing by them."""

    model_type: str
    title: str
    prefix: str
    stacks: tuple[str, ...]  # "encoder", "decoder" or both
    config: Mapping[str, ConfigKey | DerivedKey]  # by setting, of every stack, or "encoder.…" or "decoder.…" only
    constants: Mapping[str, Any]  # fixed settings of the family
    weights: Weights  # empty: all names are clearhead's own
    heads: Mapping[str, HeadMapping]  # by architecture; the first is the default
    stack: Callable[..., TransformerConfig | RecurrentConfig] = TransformerConfig  # its configuration, by settings
    encoder: Callable[..., TransformerConfig | RecurrentConfig] | None = None  # the encoder's, if it is another
    # settings of ModelConfig outside the stacks
    model: Mapping[str, ConfigKey | DerivedKey] = field(default_factory=dict[str, "ConfigKey | DerivedKey"])
    required_values: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])
    tied: bool = True  # default of tie_word_embeddings
    ignored: tuple[str, ...] = ()  # patterns of tensors without parameters
    duplicated: Mapping[str, str] = field(default_factory=dict[str, str])  # tensors that an untied head stores twice
    # other names of a tensor
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def architecture(self, raw: Raw, kind: HeadKind | None = None) -> str:
        """Returns the architecture that a config names, or the one with this kind of head."""
        own = (POOLED,) if self.pools else ()
        named = [name for name in raw.get("architectures") or [] if name in (*self.heads, *own)]
        if kind is not None:
            matching = [name for name in (*named, *self.heads) if self.head(name).kind == kind]
            if not matching and kind == "pooler":  # the smallest model without a head
                bare = [name for name, head in self.heads.items() if head.kind is None]
                matching = sorted(bare, key=lambda name: len(self.heads[name].stacks or self.stacks))
            if not matching:
                kinds = ", ".join(dict.fromkeys(str(h.kind) for h in self.heads.values() if h.kind))
                raise ValueError(f"{self.title} has no {kind!r} head: choose one of {kinds}")
            return matching[0]
        return next(iter((*named, *self.heads)))

    @property
    def pools(self) -> bool:
        """Whether the family supports the pooled head: text encoders do."""
        return self.stacks == ("encoder",) and "vocab_size" in self.config

    def head(self, architecture: str) -> HeadMapping:
        return POOLED_HEAD if architecture == POOLED else self.heads[architecture]

    def architecture_of(self, config: ModelConfig) -> str:
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
        """Converts a Hugging Face config to a ModelConfig; `labels` override its labels."""
        head = self.head(architecture)
        required = {**self.required_values, **{name: (value,) for name, value in head.required_values.items()}}
        for name, allowed in required.items():
            if name in raw and raw[name] is not None and raw[name] not in allowed:
                raise ValueError(
                    f"config.json sets {name} to {raw[name]!r}: {self.title} is supported only with "
                    f"{' or '.join(map(repr, allowed))}"
                )
        names = head.stacks or self.stacks
        kinds = {"encoder": self.encoder or self.stack, "decoder": self.stack}
        stacks = {stack: kinds[stack](**self._settings(raw, stack, head)) for stack in names}
        last = stacks[names[-1]]
        config = self._head(head, raw, last, labels)
        settings = {name: key.of(raw) for name, key in self.model.items()}
        return ModelConfig(encoder=stacks.get("encoder"), decoder=stacks.get("decoder"), head=config, **settings)

    def write(self, config: ModelConfig, architecture: str, raw: Raw | None = None) -> dict[str, Any]:
        """Converts a ModelConfig to a Hugging Face config; keeps the other keys and spellings of `raw`, its source."""
        own = self.head(architecture)
        out: dict[str, Any] = {"model_type": self.model_type, **own.required_values, **(raw or {})}
        for stack in self.stacks:
            settings = getattr(config, stack)
            if settings is None:
                continue
            for name, key in {**self.config, **own.config}.items():
                scope, _, setting = name.rpartition(".")
                if scope in ("", stack) and key.of(out) != getattr(settings, setting):
                    out.update(key.to(getattr(settings, setting), out))
        out.pop(METHODS, None)
        methods: dict[str, list[dict[str, Any]]] = {}
        for name in self.stacks:
            used = getattr(config, name)
            usual = self._settings(out, name, own).get("attention", ())
            if isinstance(used, TransformerConfig) and used.attention != usual:
                methods[name] = [dict(method) for method in used.attention]
        out |= {METHODS: methods} if methods else {}
        for name, key in self.model.items():
            if key.of(out) != getattr(config, name):
                out.update(key.to(getattr(config, name), out))
        for name, key in own.settings.items():
            if isinstance(key, (ConfigKey, DerivedKey)) and key.of(out) != getattr(config.head, name):
                out.update(key.to(getattr(config.head, name), out))
        kind, head = (None, None) if config.head is None else (config.head.kind, config.head)
        if head is not None and kind in ("lm", "pretraining"):
            if self._head(own, out, config.stack, None) != head:
                out["tie_word_embeddings"] = head.tied
        elif head is not None and kind in ("sequence", "token") and read_labels(out) != head.labels:
            out.pop("num_labels", None)
            out["id2label"] = {str(i): name for i, name in enumerate(head.labels)}
            out["label2id"] = {name: i for i, name in enumerate(head.labels)}
        out["architectures"] = [architecture]
        return out

    def with_dropout(self, raw: Raw, values: Mapping[str, float]) -> dict[str, Any]:
        """Changes probabilities of dropout in a Hugging Face config; `dropout` is also that of a head that has one."""
        architecture = self.architecture(raw)
        own, out = self.head(architecture), dict(raw)
        for name, key in (*self.config.items(), *own.config.items(), *own.settings.items()):
            setting = name.rpartition(".")[2]
            if setting in values and isinstance(key, (ConfigKey, DerivedKey)):
                out.update(key.to(values[setting], out))
        changed = self.read(out, architecture)
        stacks = [stack for stack in (changed.encoder, changed.decoder) if stack is not None]
        for name, value in values.items():
            if any(getattr(stack, name, None) != value for stack in stacks):
                raise ValueError(
                    f"{name} is {value!r}, but {self.title} has no such dropout, or the same one for several places: "
                    "remove it, or give all of them one value"
                )
        return out

    def pairs(self, names: Iterable[str], architecture: str) -> list[WeightPair]:
        """Returns the tensors that store these parameters, in order; every parameter must have a mapping."""
        if not self.weights:
            return [WeightPair(name, (name,), TensorMap((name,)), name.startswith("head."), False) for name in names]
        head = self.head(architecture)
        prefix = f"{self.prefix}." if head.prefixed and self.prefix else ""
        names = list(names)
        table = [(name, TensorMap((name,)), False, False) for name in names if ".core.method." in name]
        last = (head.stacks or self.stacks)[-1]
        table += [
            (prefix + hf_name, _to_map(params).of_stack(last), False, True) for hf_name, params in self.weights.items()
        ]
        for hf_name, params in head.weights.items():
            tensor_map = _to_map(params)
            tensor_map = replace(tensor_map, names=tuple(f"head.{n}" for n in tensor_map.names))
            table.append((hf_name.replace("~", prefix), tensor_map, True, "~" in hf_name))
        layers = _block_indices(names)
        pairs = {pair.params[0]: pair for line in table for pair in _match(*line, names, layers)}
        covered = {name for pair in pairs.values() for name in pair.params}
        assert covered == set(names), f"{self.model_type}: no mapping for {sorted(set(names) - covered)}"
        return [pairs[name] for name in names if name in pairs]

    def vocabulary(self, architecture: str) -> str | None:
        """Returns the Hugging Face name of the LM head's own weight, which a tied model does not need."""
        lines = self.head(architecture).weights.items()
        names = {"output": ".weight", "output.weight": "", "words.output.weight": ""}
        has_lm_head = self.head(architecture).kind in ("lm", "pretraining")
        return next((t + names[o] for t, o in lines if has_lm_head and isinstance(o, str) and o in names), None)

    def _settings(self, raw: Raw, stack: str, head: HeadMapping) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for table in (self.constants, self.config, head.config):
            for name, value in table.items():
                scope, _, setting = name.rpartition(".")
                if scope in ("", stack):
                    out[setting] = value.of(raw) if isinstance(value, (ConfigKey, DerivedKey)) else value
        if (methods := (raw.get(METHODS) or {}).get(stack)) is not None:  # only Transformers write them
            out["attention"] = tuple(methods)
        return out

    def _head(
        self, head: HeadMapping, raw: Raw, stack: TransformerConfig | RecurrentConfig, labels: Iterable[str] | None
    ) -> HeadConfig | None:
        if head.kind is None:
            return None
        out: dict[str, Any] = {"kind": head.kind, "width": stack.width, "vocab_size": stack.vocab_size}
        out["tied"] = bool(raw.get("tie_word_embeddings", self.tied))
        if head.kind in ("sequence", "token"):
            out["labels"] = tuple(labels) if labels is not None else read_labels(raw)
        for name, value in head.settings.items():
            value = value.of(raw) if isinstance(value, (ConfigKey, DerivedKey)) else value
            out[name] = value(stack) if callable(value) else value
        return HeadConfig(**out)


def read_labels(raw: Raw) -> tuple[str, ...]:
    names = raw.get("id2label")
    if not isinstance(names, dict) or not names:
        count = raw.get("num_labels", raw.get("_num_labels", 2))
        if not isinstance(count, int) or not 1 <= count <= 2**20:
            raise ValueError(f"num_labels is {count!r}: it must be an integer from 1 to {2**20}")
        return tuple(f"LABEL_{i}" for i in range(count))
    by_id: dict[int, str] = {}
    for number, name in names.items():
        if not str(number).isdecimal() or not isinstance(name, str):
            raise ValueError(f"id2label holds {number!r}: {name!r}; it must map numbers to names")
        by_id[int(number)] = name
    if sorted(by_id) != list(range(len(by_id))):
        raise ValueError(f"id2label numbers its {len(by_id)} labels {sorted(by_id)[:5]}…: ids must count from 0")
    return tuple(by_id[i] for i in range(len(by_id)))


# Hugging Face names of activations. Others are refused when the layer is built.
ACTIVATION = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "quick_gelu": "quick_gelu",
}


def activation(name: str, default: str) -> ConfigKey:
    """Returns a config key of an activation; `default` is its Hugging Face name."""
    inverse = {"gelu_tanh": "gelu_new"}
    return ConfigKey(name, ACTIVATION[default], lambda v: ACTIVATION.get(v, v), lambda v: inverse.get(v, v))


def _to_map(target: str | TensorMap) -> TensorMap:
    return TensorMap((target,)) if isinstance(target, str) else target


_LAYER = re.compile(r"^(encoder|decoder)\.blocks\.(\d+)\.")


def _block_indices(names: list[str]) -> dict[tuple[str, int], int]:
    """Returns the index of each block among those with weights: shared blocks count once."""
    blocks = sorted({(m[1], int(m[2])) for m in map(_LAYER.match, names) if m})
    return {key: sum(1 for other in blocks if other[0] == key[0] and other[1] < key[1]) for key in blocks}


def _match(
    hf_name: str,
    tensor_map: TensorMap,
    in_head: bool,
    prefixed: bool,
    names: list[str],
    layers: dict[tuple[str, int], int],
) -> Iterable[WeightPair]:
    """Yields the pairs of one table line in a model with these parameters."""
    pattern = re.escape(tensor_map.names[0]).replace(r"\{\}", r"(?P<layer>\d+)")
    line = re.compile(pattern + r"(?P<suffix>\.weight|\.bias)?")
    for name in names:
        if (m := line.fullmatch(name)) is None:
            continue
        layer, suffix = m.groupdict().get("layer"), m["suffix"] or ""
        params = tuple(n.replace("{}", layer or "") + suffix for n in tensor_map.names)
        if tensor_map.requires is not None and tensor_map.requires.replace("{}", layer or "") + suffix not in names:
            continue
        number = "" if layer is None else str(layers[name.partition(".")[0], int(layer)])
        is_transposed = tensor_map.transposed and suffix != ".bias"
        stored = replace(tensor_map, transposed=is_transposed)
        yield WeightPair(hf_name.replace("{}", number) + suffix, params, stored, in_head, prefixed)
