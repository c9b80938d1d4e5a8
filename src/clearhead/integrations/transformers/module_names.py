"""Finds the attention modules of a live `transformers` model and names their layers as clearhead does."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch import Tensor, nn

from clearhead.attention.capture.sites import Site, find_modules
from clearhead.attention.multihead import AttentionKind


def attentions(model: nn.Module) -> dict[str, Site]:
    """Returns the attention layers of a live model by short name: `encoder.3`, `decoder.0`, `decoder.0.cross`.

    If two stacks would share a name, a distinguishing prefix is added: `vision.encoder.0`.
    """
    sites: list[Site] = []
    for path, module in find_modules(model, uses_attention_interface):
        output = _projection(module, model.get_submodule(path.rpartition(".")[0]))
        kind: AttentionKind = "cross" if _is_cross(path, module) else "self"
        sites += [Site(layer, module, kind, output) for layer in _layers(path, module)]
    paths = [_ModulePath.of(site) for site in sites]
    stacks = {path.stack: i for i, path in reversed([*enumerate(paths)])}  # in order of appearance
    order = sorted(range(len(sites)), key=lambda i: (stacks[paths[i].stack], paths[i].numbers))
    names = _names([paths[i] for i in order])
    return {name: sites[i] for name, i in zip(names, order, strict=True)}


@dataclass(frozen=True)
class _ModulePath:
    """A parsed module path: `text_model.encoder.layers.3.self_attn` is layer 3 of the text encoder."""

    path: str
    role: str  # encoder or decoder
    words: tuple[str, ...]  # other words that identify the stack
    numbers: tuple[int, ...]
    cross: bool

    @staticmethod
    def of(site: Site) -> _ModulePath:
        parts = [part for part in site.path.split(".") if part != "_orig_mod"]  # added by torch.compile
        while parts[0].isdigit() and any(part.isdigit() for part in parts[1:]):
            parts = parts[1:]  # a wrapper such as sentence-transformers'
        numbers = [i for i, part in enumerate(parts) if part.isdigit()]
        prefix = parts[: numbers[0]] if numbers else []
        causal = getattr(site.module, "is_causal", False)
        roles = (role for part in prefix for role in ("encoder", "decoder") if role in part)
        role = next(roles, "decoder" if causal else "encoder")
        if getattr(getattr(site.module, "config", None), "is_decoder", False):
            role = "decoder"
        words = (re.sub("(^|_)(encoders?|decoders?|model|tower|layers?|blocks?|h)$", "", part) for part in prefix)
        unique, indices = tuple(dict.fromkeys(word for word in words if word)), tuple(int(parts[i]) for i in numbers)
        return _ModulePath(site.path, role, unique, indices, site.kind == "cross")

    @property
    def stack(self) -> tuple[str, tuple[str, ...]]:
        return self.role, self.words


def _names(paths: list[_ModulePath]) -> list[str]:
    """Returns the shortest unique names: with the layer number, with all numbers, or the full path."""
    word_sets = {role: [set(a.words) for a in paths if a.role == role] for role in ("encoder", "decoder")}
    common = {role: set.intersection(*words) for role, words in word_sets.items() if words}

    def name(a: _ModulePath, count: int | None) -> str:
        words = [word for word in a.words if word not in common[a.role]]
        return ".".join([*words, a.role, *map(str, a.numbers[:count]), *(["cross"] if a.cross else [])])

    short = [name(a, 1) for a in paths]
    ambiguous = {a.stack for a, n in zip(paths, short, strict=True) if short.count(n) > 1}
    names = [name(a, None if a.stack in ambiguous else 1) for a in paths]
    return [
        a.path or "attention" if not a.numbers or names.count(n) > 1 else n for a, n in zip(paths, names, strict=True)
    ]


def _layers(path: str, module: nn.Module) -> list[str]:
    """Returns the layer paths of a module: one, except in ALBERT, where layers share modules."""
    match = re.search(r"albert_layer_groups\.(\d+)\.albert_layers\.(\d+)", path)
    if match is None:
        return [path]
    config: Any = module.config
    size, (group, inner) = config.num_hidden_layers / config.num_hidden_groups, map(int, match.groups())
    shared_by = [i for i in range(config.num_hidden_layers) if int(i / size) == group]
    return [path.replace(match[0], f"layers.{i * config.inner_group_num + inner}") for i in shared_by]


def _is_cross(path: str, module: nn.Module) -> bool:
    last = ".".join([*re.split(r"\.\d+\.", path)[1:], type(module).__name__]).lower()
    return re.search(r"cross|encdec|encoder_attn|\bx_attn", last) is not None


_PROJECTIONS = (
    "o_proj", "out_proj", "c_proj", "dense", "o", "Wo", "out_lin", "linear_out", "proj", "projection",
    "projection_layer", "output",
)  # fmt: skip


def _projection(module: nn.Module, parent: nn.Module) -> Tensor | None:
    """Returns the output projection's weight, (D, H V), in the module or its parent (BERT); None if not found."""
    inside = [getattr(module, name, None) for name in _PROJECTIONS]
    for layer in (*inside, getattr(getattr(parent, "output", None), "dense", None)):
        weight = getattr(layer, "weight", None)
        if isinstance(weight, Tensor) and weight.dim() == 2 and weight.is_floating_point():
            if isinstance(layer, nn.Linear):
                return weight
            if type(layer).__name__ == "Conv1D":  # GPT-2's, stored transposed
                return weight.T
    return None


def uses_attention_interface(module: nn.Module) -> bool:
    return _class_uses_interface(type(module))


@cache
def _class_uses_interface(kind: type[nn.Module]) -> bool:
    """Returns whether the forward of this class, or of a base class, calls `get_interface`."""
    for parent in kind.__mro__:
        if "forward" in vars(parent):
            code = getattr(inspect.unwrap(vars(parent)["forward"]), "__code__", None)
            names = () if code is None else code.co_names
            if "get_interface" in names or "super" not in names:
                return "get_interface" in names
    return False
