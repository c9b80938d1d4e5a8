"""Sites: the attention modules of a model, their short names, and the order in which shared modules run."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from clearhead.attention.hooks import accepts_padding
from clearhead.attention.multihead import AttentionCore, AttentionKind


@dataclass(frozen=True, eq=False)
class Site:
    """One attention of a model: its path, its kind, and the weight of its output projection."""

    path: str
    module: nn.Module
    kind: AttentionKind
    output: Tensor | None = None  # (D, H V)


class LayerCycle:
    """The layer names of a module that several layers share, in the order in which they run."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names, self._runs = names, 0

    def next(self) -> str:
        self._runs += 1
        return self._names[(self._runs - 1) % len(self._names)]

    @accepts_padding
    def restart(self, *_: object) -> None:
        """Start again with the first layer: a pre-hook of the enclosing forward, also after one that failed."""
        self._runs = 0


def attentions(model: nn.Module) -> dict[str, Site]:
    """Every attention of a model by its short name: `encoder.3`, `decoder.0`, `decoder.0.cross`."""
    result: dict[str, Site] = {}
    for path, core in find_modules(model, lambda module: isinstance(module, AttentionCore)):
        assert isinstance(core, AttentionCore)
        output = getattr(model.get_submodule(path.rpartition(".")[0]), "output", None)
        weight = output.weight if isinstance(output, nn.Linear) else None
        result[_short_name(path)] = Site(path, core, core.kind, weight)
    return result


def select_sites(
    sites: Mapping[str, Site], layers: Iterable[str | int] | None, kinds: Iterable[AttentionKind]
) -> dict[str, Site]:
    """The attentions that the options of `look` select; a ValueError if there is none."""
    kinds = tuple(kinds)
    if unknown := [k for k in kinds if k not in ("self", "cross")]:
        raise ValueError(f"kinds {unknown}: an attention is 'self' or 'cross'")
    selected = sites if layers is None else {n: s for wanted in layers for n, s in match_sites(sites, wanted).items()}
    selected = {name: site for name, site in selected.items() if site.kind in kinds}
    if not selected:
        raise ValueError(f"no attention matches: the model has {format_names(sites) or 'none'}")
    return selected


def match_sites(sites: Mapping[str, Site], wanted: str | int) -> dict[str, Site]:
    """The attention of this name, or those of this layer number in every stack."""
    number = str(wanted) if isinstance(wanted, int) else None
    result = {name: site for name, site in sites.items() if name == wanted or number in name.split(".")}
    if not result:
        raise ValueError(f"the model has no attention {wanted!r}: it has {format_names(sites) or 'none'}")
    return result


def find_modules(model: nn.Module, matches: Callable[[nn.Module], bool]) -> list[tuple[str, nn.Module]]:
    """The paths of the matching modules, in order: one for each layer that a module serves.

    Paths that differ in numbers only are layers that share a module; a path that differs otherwise is an alias.
    """
    result = [(path, m) for path, m in model.named_modules(remove_duplicate=False) if matches(m)]
    patterns: dict[nn.Module, list[str]] = {}
    for path, module in result:
        patterns.setdefault(module, []).append(_pattern(path))
    longest = {module: max(dict.fromkeys(of), key=of.count) for module, of in patterns.items()}
    return [(path, module) for path, module in result if _pattern(path) == longest[module]]


def layer_cycles(
    model: nn.Module, sites: Mapping[str, Site], selected: Collection[str], stack: ExitStack
) -> dict[nn.Module, LayerCycle]:
    """A cycle per selected module; a forward of the module that contains all its layers restarts it."""
    names: dict[nn.Module, list[str]] = {}
    for name, site in sites.items():
        names.setdefault(site.module, []).append(name)
    modules = dict(model.named_modules())
    result = {sites[name].module: LayerCycle(names[sites[name].module]) for name in selected}
    for module, cycle in result.items():
        if len(names[module]) > 1:
            for path in set.intersection(*(_parents(sites[name].path) for name in names[module])) & modules.keys():
                stack.callback(modules[path].register_forward_pre_hook(cycle.restart).remove)
    return result


def run_eagerly(model: nn.Module, stack: ExitStack) -> None:
    """Run compiled models eagerly while the context is open: hooks do not fire inside a compiled graph."""
    if any(_is_compiled(module) for module in model.modules()):
        stack.enter_context(torch.compiler.set_stance("force_eager"))


def _is_compiled(module: nn.Module) -> bool:
    """True after `torch.compile(module)`, `module.compile()` or `module.forward = torch.compile(module.forward)`."""
    return (
        hasattr(module, "_orig_mod")
        or module._compiled_call_impl is not None
        or hasattr(module.forward, "_torchdynamo_orig_callable")
    )


def _short_name(path: str) -> str:
    omitted = {"blocks", "core", "attention", "_orig_mod"}
    return ".".join(part for part in path.split(".") if part not in omitted) or "attention"


def _pattern(path: str) -> str:
    return ".".join("#" if part.isdigit() else part for part in path.split("."))


def _parents(path: str) -> set[str]:
    parts = path.split(".")
    return {".".join(parts[:depth]) for depth in range(len(parts))}


def format_names(names: Iterable[str]) -> str:
    return ", ".join(names)
