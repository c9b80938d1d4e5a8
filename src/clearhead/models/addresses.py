"""Addresses: which modules of a live `transformers` model attend, and the names that their layers have in clearhead."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch import Tensor, nn

from clearhead.attention.look import Site, places
from clearhead.attention.multihead import Kind


def attentions(model: nn.Module) -> dict[str, Site]:
    """Every attention of a live model by its short name: `encoder.3`, `decoder.0`, `decoder.0.cross`.

    Where two stacks would share a name, the words that tell them apart come first: `vision.encoder.0`.
    """
    sites: list[Site] = []
    for path, module in places(model, asks_the_interface):
        output = _projection(module, model.get_submodule(path.rpartition(".")[0]))
        kind: Kind = "cross" if _is_cross(path, module) else "self"
        sites += [Site(layer, module, kind, output) for layer in _layers(path, module)]
    addresses = [_Address.of(site) for site in sites]
    stacks = {address.stack: i for i, address in reversed([*enumerate(addresses)])}  # in order of appearance
    order = sorted(range(len(sites)), key=lambda i: (stacks[addresses[i].stack], addresses[i].numbers))
    names = _names([addresses[i] for i in order])
    return {name: sites[i] for name, i in zip(names, order, strict=True)}


@dataclass(frozen=True)
class _Address:
    """A path taken apart: `text_model.encoder.layers.3.self_attn` is number 3 of the text's encoder."""

    path: str
    role: str  # encoder or decoder
    words: tuple[str, ...]  # what else the stack is known by
    numbers: tuple[int, ...]
    cross: bool

    @staticmethod
    def of(site: Site) -> _Address:
        parts = [part for part in site.path.split(".") if part != "_orig_mod"]  # which torch.compile puts in
        while parts[0].isdigit() and any(part.isdigit() for part in parts[1:]):
            parts = parts[1:]  # a pipeline around the model, such as sentence-transformers'
        numbers = [i for i, part in enumerate(parts) if part.isdigit()]
        above = parts[: numbers[0]] if numbers else []
        causal = getattr(site.module, "is_causal", False)
        role = next(
            (r for part in above for r in ("encoder", "decoder") if r in part), "decoder" if causal else "encoder"
        )
        if getattr(getattr(site.module, "config", None), "is_decoder", False):
            role = "decoder"
        words = (re.sub("(^|_)(encoders?|decoders?|model|tower|layers?|blocks?|h)$", "", part) for part in above)
        return _Address(
            site.path,
            role,
            tuple(dict.fromkeys(word for word in words if word)),
            tuple(int(parts[i]) for i in numbers),
            site.kind == "cross",
        )

    @property
    def stack(self) -> tuple[str, tuple[str, ...]]:
        return self.role, self.words


def _names(addresses: list[_Address]) -> list[str]:
    """The shortest names that tell all apart: layer numbers, all numbers, at last the whole path."""
    alike = {role: [set(a.words) for a in addresses if a.role == role] for role in ("encoder", "decoder")}
    common = {role: set.intersection(*words) for role, words in alike.items() if words}

    def name(a: _Address, count: int | None) -> str:
        words = [word for word in a.words if word not in common[a.role]]
        return ".".join([*words, a.role, *map(str, a.numbers[:count]), *(["cross"] if a.cross else [])])

    short = [name(a, 1) for a in addresses]
    crowded = {a.stack for a, n in zip(addresses, short, strict=True) if short.count(n) > 1}
    longer = [name(a, None if a.stack in crowded else 1) for a in addresses]
    return [
        a.path or "attention" if not a.numbers or longer.count(n) > 1 else n
        for a, n in zip(addresses, longer, strict=True)
    ]


def _layers(path: str, module: nn.Module) -> list[str]:
    """The layers that a module serves: one, except in ALBERT, where a group of modules serves many."""
    found = re.search(r"albert_layer_groups\.(\d+)\.albert_layers\.(\d+)", path)
    if found is None:
        return [path]
    config: Any = module.config
    size, (group, inner) = config.num_hidden_layers / config.num_hidden_groups, map(int, found.groups())
    served = [i for i in range(config.num_hidden_layers) if int(i / size) == group]
    return [path.replace(found[0], f"layers.{i * config.inner_group_num + inner}") for i in served]


def _is_cross(path: str, module: nn.Module) -> bool:
    last = ".".join([*re.split(r"\.\d+\.", path)[1:], type(module).__name__]).lower()
    return re.search(r"cross|encdec|encoder_attn|\bx_attn", last) is not None


_PROJECTIONS = (
    "o_proj", "out_proj", "c_proj", "dense", "o", "Wo", "out_lin", "linear_out", "proj", "projection",
    "projection_layer", "output",
)  # fmt: skip


def _projection(module: nn.Module, parent: nn.Module) -> Tensor | None:
    """The weight of the output projection, (D, H V): in the attention, or beside it as in BERT. None if not found."""
    inside = [getattr(module, name, None) for name in _PROJECTIONS]
    for layer in (*inside, getattr(getattr(parent, "output", None), "dense", None)):
        weight = getattr(layer, "weight", None)
        if isinstance(weight, Tensor) and weight.dim() == 2 and weight.is_floating_point():
            if isinstance(layer, nn.Linear):
                return weight
            if type(layer).__name__ == "Conv1D":  # GPT-2's, stored the other way round
                return weight.T
    return None


def asks_the_interface(module: nn.Module) -> bool:
    """Does this module get its kernel from transformers' attention interface?"""
    return _asks(type(module))


@cache
def _asks(kind: type[nn.Module]) -> bool:
    """Does the forward of this class, or of one that it extends, ask the interface for a kernel?"""
    for parent in kind.__mro__:
        if "forward" in vars(parent):
            code = getattr(inspect.unwrap(vars(parent)["forward"]), "__code__", None)
            names = () if code is None else code.co_names
            if "get_interface" in names or "super" not in names:
                return "get_interface" in names
    return False
