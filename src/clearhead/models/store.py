"""Store: model folders as the Hugging Face world has them, opened and saved.

Nothing in a folder is run or trusted: weights are safetensors, sizes are checked before memory is taken, and a folder
that clearhead saved is held against its manifest to the last byte.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from clearhead.files import MARKER, admit, inside, new_folder, read_config, weight_headers, write_manifest
from clearhead.files.safe import Missing, read_bytes
from clearhead.models.families import FAMILIES, OWN, Family
from clearhead.models.families.table import POOLED, Pair, Raw
from clearhead.models.heads import Kind
from clearhead.models.hub import locate
from clearhead.models.int8 import Int8, is_int8, to_int8
from clearhead.models.model import Model, ModelConfig, build
from clearhead.models.recurrent import RecurrentConfig
from clearhead.models.shards import SHARD, write_weights
from clearhead.text import Tokenizer

# Files of a folder that belong to the model, are not written anew, and travel with it.
CARRIED = (
    "generation_config.json",
    "preprocessor_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
)


@dataclass(frozen=True, eq=False)
class Opened:
    """A model with everything its folder says of it."""

    model: Model
    config: ModelConfig
    family: Family
    architecture: str
    raw: dict[str, Any]  # config.json as it was read
    tokenizer: Tokenizer | None = None
    carried: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])  # what the manifest says of its origin
    fresh: tuple[str, ...] = ()  # parameters of the head that the folder did not hold: newly initialised
    unused: tuple[str, ...] = ()  # tensors of the folder that this architecture does not read
    beside: Mapping[str, Opened] = field(default_factory=dict[str, "Opened"])  # models that were trained with it

    @property
    def words(self) -> Tokenizer:
        """The tokenizer; an error that says what is missing where the folder has none."""
        if self.tokenizer is None:
            raise ValueError("this folder has no tokenizer that can be read: tokenizer.json, or vocab.txt, is missing")
        return self.tokenizer

    @property
    def max_len(self) -> int | None:
        """The most tokens of a text that are read: the least of what tokenizer and model say; None: no end."""
        stack = self.config.encoder or self.config.stack
        return min((n for n in (self.words.max_len, stack.limit) if n is not None), default=None)

    @property
    def has_segments(self) -> bool:
        """Does the model tell the sentences of a pair apart?"""
        return getattr(self.config.stack, "num_segments", 0) > 0


def open_folder(
    source: str | Path,
    *,
    head: Kind | None = None,
    labels: Iterable[str] | None = None,
    pool: str | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
    revision: str | None = None,
) -> Opened:
    """Open a model folder, or a name on the Hugging Face hub.

    `head` puts another head on the body (with `labels`, where it has any); what the folder does not hold of it is
    initialised and listed in `fresh`. `pool` is how such a head makes one vector of a text, where that is not to be the
    family's way. `dtype` is the folder's own unless given.
    """
    folder = locate(source, revision)
    manifest = admit(folder)
    raw = read_config(folder)
    family = family_of(raw, folder)
    architecture = family.architecture(raw, head)
    if pool is not None:
        if head != "sequence" or not family.pools:
            raise ValueError(f"pool {pool!r}: an encoder whose head labels whole texts is pooled, and this is none")
        raw, architecture = {**raw, "pooling": pool}, POOLED
    weights = _Weights(folder)
    config = read_model_config(family, raw, architecture, labels)
    if config.head is not None and config.head.tied and not _ties(family, architecture, weights):
        config = replace(config, head=replace(config.head, tied=False))
    for stack in (config.encoder, config.decoder):
        shares = stack is None or (not isinstance(stack, RecurrentConfig) and stack.num_groups is not None)
        if stack is not None and not shares and stack.num_layers > len(weights.files):
            raise ValueError(
                f"{folder}: config.json speaks of {stack.num_layers} layers, but there are only "
                f"{len(weights.files)} tensors in the folder"
            )
    with torch.device("meta"):
        model = build(config)
        if weights.is_int8:
            to_int8(model)
    fresh, unused = weights.fill(model, family, architecture, dtype, device, raw)
    facts = {} if manifest is None else manifest.facts
    tokenizer = tokenizer_of(folder)
    if tokenizer is not None and tokenizer.vocab_size > config.stack.vocab_size:
        raise ValueError(
            f"{folder}: the tokenizer gives ids up to {tokenizer.vocab_size - 1}, but the model has vectors for "
            f"{config.stack.vocab_size} only: they do not belong together"
        )
    if facts.get("tokenizer") is not None:
        if tokenizer is None:
            raise ValueError(f"{folder} was saved with a tokenizer, and has none now")
        tokenizer.check(facts["tokenizer"])
    return Opened(
        model.eval(),
        config,
        family,
        architecture,
        raw,
        tokenizer,
        carried_files(folder),
        facts,
        tuple(fresh),
        tuple(unused),
    )


def save_folder(
    opened: Opened,
    folder: str | Path,
    *,
    overwrite: bool = False,
    facts: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    write: Callable[[Mapping[str, Tensor], Path], None] | None = None,
) -> None:
    """Write a folder that `transformers` opens, or for what it has not, `open_folder`: whole, or not at all.

    `facts` go into the manifest, `settings` into config.json; `write` puts tensors, by their names, into the folder.
    """
    family, model = opened.family, opened.model
    if is_int8(model):
        raise ValueError("this model is int8, and is not saved anew: copy its folder, or save the one it was made from")
    raw = {**family.write(opened.config, opened.architecture, opened.raw), **(settings or {})}
    dtype = next(iter(model.parameters())).dtype
    raw["torch_dtype" if "torch_dtype" in raw and "dtype" not in raw else "dtype"] = str(dtype).removeprefix("torch.")
    params = {name: p.detach().cpu() for name, p in model.named_parameters()}
    tensors = {
        pair.theirs: pair.how.write([params[n] for n in pair.ours])
        for pair in family.pairs(params, opened.architecture)
    }
    if opened.config.head is not None and not opened.config.head.tied:
        tensors |= {copy: tensors[name].clone() for name, copy in family.copies.items() if name in tensors}
    with new_folder(folder, overwrite=overwrite) as target:
        if write is None:
            write_weights(tensors, target, SHARD)
        else:
            write(tensors, target)
        config = json.dumps({**raw, **MARKER}, indent=2, sort_keys=True, ensure_ascii=False)
        (target / "config.json").write_text(config + "\n", encoding="utf-8")
        for name, data in opened.carried.items():
            (target / name).parent.mkdir(exist_ok=True)
            (target / name).write_bytes(data)
        told: dict[str, Any] = {**opened.facts, **(facts or {}), "architecture": opened.architecture}
        if opened.config.head is not None:
            told |= {"head": opened.config.head.kind, "labels": list(opened.config.head.labels)}
        if opened.tokenizer is not None:
            opened.tokenizer.save(target)
            told["tokenizer"] = opened.tokenizer.fingerprint()
        write_manifest(target, told)


def family_of(raw: Raw, folder: Path) -> Family:
    """The table for a config, or an error that lists those there are."""
    kind = raw.get("model_type")
    known = FAMILIES | OWN
    if not isinstance(kind, str) or kind not in known:
        raise ValueError(
            f"{folder} holds a model of type {kind!r}, for which there is no table here; there are: "
            f"{', '.join(known)}. `clearhead.look` works on a live transformers model of nearly any type"
        )
    return known[kind]


def _check_ids(raw: Raw) -> None:
    for name, value in raw.items():
        if name.endswith("_token_id") and isinstance(value, int) and not -1 <= value < 2**31:
            raise ValueError(f"config.json: {name} is {value}, which no vocabulary holds")


def read_model_config(family: Family, raw: Raw, architecture: str, labels: Iterable[str] | None = None) -> ModelConfig:
    """A config by its table; whatever a wrong value breaks is a ValueError."""
    _check_ids(raw)
    try:
        return family.read(raw, architecture, labels=labels)
    except (TypeError, KeyError, AttributeError, OverflowError, ZeroDivisionError) as error:
        raise ValueError(f"config.json cannot be read as {family.title}: {error!r}") from error


def _ties(family: Family, architecture: str, weights: _Weights) -> bool:
    """Can the vocabulary's vectors be those of the tokens? Not where the folder holds others for it."""
    own = family.vocabulary(architecture)
    tokens = next((theirs for theirs, ours in family.weights.items() if str(ours).endswith("embedding.tokens")), None)
    table = weights.found(f"{tokens}.weight", family)
    if own is None or own not in weights.files or table is None:
        return True
    return weights.shapes[own] == weights.shapes[table] and torch.equal(weights.read(own), weights.read(table))


# The files a tokenizer is read from. A folder with none of the first three has none that can be read here.
_TOKENIZER = ("tokenizer.json", "vocab.txt", "vocab.json")
_BESIDE = ("merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")


def tokenizer_of(folder: Path) -> Tokenizer | None:
    """The tokenizer in a folder, or None where it has no file that can be read as one."""
    if not any(os.path.lexists(folder / name) for name in _TOKENIZER):
        return None
    for name in (*_TOKENIZER, *_BESIDE):
        if os.path.lexists(folder / name):
            inside(folder, name)
    return Tokenizer.load(folder)


def carried_files(folder: Path) -> dict[str, bytes]:
    """Those of the carried files that a folder has."""
    out: dict[str, bytes] = {}
    for name in CARRIED:
        try:
            out[name] = read_bytes(folder, name)
        except Missing:
            continue
    return out


class _Weights:
    """The tensors of a folder, read one by one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        headers = weight_headers(folder)
        self.files = {_modern(name): (name, file) for file, header in headers.items() for name in header}
        self.shapes = {new: headers[file][old].shape for new, (old, file) in self.files.items()}
        self.dtypes = {new: headers[file][old].dtype for new, (old, file) in self.files.items()}
        self.is_int8 = any(old.endswith("._weight_qdata") for old, _ in self.files.values())

    def read(self, name: str) -> Tensor:
        """One tensor by its modern name."""
        old, file = self.files[name]
        with safe_open(inside(self.folder, file), "pt") as opened:
            return opened.get_tensor(old)

    def found(self, name: str, family: Family) -> str | None:
        """A body's name as it stands in this folder: with the family's prefix or without, or under another name."""
        bare = name.removeprefix(f"{family.prefix}.")
        for candidate in (bare, *family.aliases.get(bare, ())):
            for full in (f"{family.prefix}.{candidate}", candidate):
                if full in self.files:
                    return full
        return None

    def fill(
        self,
        model: Model,
        family: Family,
        architecture: str,
        dtype: torch.dtype | None,
        device: torch.device | str,
        raw: Raw,
    ) -> tuple[list[str], list[str]]:
        """Give a model on the meta device its weights; returns the parameters without any and the tensors unused."""
        params = dict(model.named_parameters())
        scales = {f"{n}.weight": f"{n}.scale" for n, m in model.named_modules() if isinstance(m, Int8)}
        pairs = family.pairs([n for n in params if n not in scales.values()], architecture)
        names = {p.theirs: self._name(p, family) for p in pairs}
        missing = [p.theirs for p in pairs if names[p.theirs] is None]
        if lost := [p.theirs for p in pairs if names[p.theirs] is None and not p.in_head]:
            raise ValueError(f"{self.folder} lacks {len(lost)} of the weights of {architecture}: {_some(lost)}")
        values: dict[str, Tensor] = {}
        with ExitStack() as stack:
            files = {f: stack.enter_context(safe_open(inside(self.folder, f), "pt")) for _, f in self.files.values()}
            for pair in pairs:
                name = names[pair.theirs]
                if name is None:
                    continue
                self._check(name, pair, params)
                old, file = self.files[name]
                tensor = files[file].get_tensor(old)
                shapes = [params[n].shape for n in pair.ours]
                for ours, part in zip(pair.ours, pair.how.read(tensor, shapes), strict=True):
                    kind = (dtype or part.dtype) if part.is_floating_point() else part.dtype
                    values[ours] = part.to(device=device, dtype=kind, copy=True).contiguous()
                if pair.ours[0] in scales:
                    parts = pair.how.read(self._scale(name), shapes)
                    values |= {scales[n]: part.to(device) for n, part in zip(pair.ours, parts, strict=True)}
        fresh = [n for p in pairs if p.theirs in missing for n in p.ours]
        kind = dtype or next((v.dtype for v in values.values()), torch.float32)
        for name in fresh:
            values[name] = _initial(name, params[name].shape, float(raw.get("initializer_range", 0.02)), kind, device)
        _assign(model, params, values)
        model.to(device)
        used = {name for name in names.values() if name is not None} | {family.vocabulary(architecture)}
        used |= {f"{name}{end}" for name in used for end in (_SCALE, _ZERO)}
        used |= set(family.copies) | set(family.copies.values())
        used |= {n for many in family.aliases.values() for a in many for n in (a, f"{family.prefix}.{a}")}
        ignored = re.compile("|".join((*family.ignored, "(?!)")))
        return fresh, [n for n in self.files if n not in used and not ignored.fullmatch(n)]

    def _name(self, pair: Pair, family: Family) -> str | None:
        copy = family.copies.get(pair.theirs)
        if copy in self.files:  # where the two differ, this is the one that counts
            return copy
        if pair.theirs in self.files:
            return pair.theirs
        return self.found(pair.theirs, family) if pair.prefixed else None

    def _check(self, name: str, pair: Pair, params: Mapping[str, nn.Parameter]) -> None:
        due = pair.how.shape([params[n].shape for n in pair.ours])
        if self.shapes[name] != due:
            raise ValueError(
                f"{self.folder}: {name} is {list(self.shapes[name])} where config.json makes it {list(due)}"
            )
        if params[pair.ours[0]].dtype == torch.int8:
            if self.dtypes[name] != "I8":
                raise ValueError(f"{self.folder}: {name} holds {self.dtypes[name]}, among int8 layers: I8 is due")
        elif not self.dtypes[name].startswith(("F", "BF")):
            raise ValueError(f"{self.folder}: {name} holds {self.dtypes[name]}, not floating-point numbers")

    def _scale(self, name: str) -> Tensor:
        """The scales of an int8 tensor, (outputs, 1)."""
        scale = f"{name}{_SCALE}"
        due = (self.shapes[name][0], 1)
        if scale not in self.files or self.shapes[scale] != due or not self.dtypes[scale].startswith(("F", "BF")):
            raise ValueError(f"{self.folder}: {name} is int8 and needs {scale}, {list(due)} floating-point numbers")
        if f"{name}{_ZERO}" in self.files and self.read(f"{name}{_ZERO}").any():
            raise ValueError(f"{self.folder}: {name} is rounded around another number than 0, which is not read here")
        return self.read(scale).float()


_SCALE, _ZERO = "_scale", "_zero_point"  # behind the name of an int8 tensor
_INT8 = {"qdata": "", "scale": _SCALE, "zero_point": _ZERO}


def _modern(name: str) -> str:
    """Names of norms as they were before 2019, brought up to date; torchao's of int8 tensors, made plain."""
    name = re.sub(r"\._weight_(qdata|scale|zero_point)$", lambda m: f".weight{_INT8[m[1]]}", name)
    return re.sub(r"LayerNorm\.(gamma|beta)$", lambda m: f"LayerNorm.{'weight' if m[1] == 'gamma' else 'bias'}", name)


def _initial(name: str, shape: torch.Size, std: float, dtype: torch.dtype, device: torch.device | str) -> Tensor:
    """A new parameter of a head: small random weights, norms of one, biases of zero."""
    if name.endswith(".bias"):
        return torch.zeros(shape, dtype=dtype, device=device)
    if name.endswith("norm.weight"):
        return torch.ones(shape, dtype=dtype, device=device)
    return torch.empty(shape, dtype=dtype, device=device).normal_(std=std)


def _assign(model: nn.Module, params: Mapping[str, nn.Parameter], values: Mapping[str, Tensor]) -> None:
    """Put real tensors in place of the sketched ones; what was one parameter under two names stays one."""
    owners: dict[int, list[tuple[nn.Module, str]]] = defaultdict(list)
    for module in model.modules():
        for name, param in module._parameters.items():
            if param is not None:
                owners[id(param)].append((module, name))
    for name, old in params.items():
        new = nn.Parameter(values[name], requires_grad=values[name].is_floating_point())
        for module, attribute in owners[id(old)]:
            module._parameters[attribute] = new


def _some(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
