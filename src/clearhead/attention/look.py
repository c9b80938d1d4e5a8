"""Look: the attention of a model while it runs on its own fast kernels, and what happens without some of it.

    with look(model) as seen:
        model(tokens, layout)
    seen["encoder.3"].rows([7], head=2)

Inside `look` each attention hands over a reference to its call (queries, keys, values, mask). Nothing is
copied and no kernel is changed; weights are computed later, exactly, and only for what is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from clearhead.attention.call import Call
from clearhead.attention.multihead import Core, Kind
from clearhead.attention.view import View

Heads = Sequence[int] | Literal["all"]

_DEPTH: ContextVar[int] = ContextVar("depth", default=0)  # how many `unseen` are around


class Seen(Mapping[str, View]):
    """What `look` saw: one view per attention, by name; `calls` where an attention ran more than once.

    A call is kept as a view, or as what makes one when it is first asked for.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._calls: dict[str, list[View | Callable[[], View]]] = {name: [] for name in names}

    def __getitem__(self, name: str) -> View:
        """The last call of this attention."""
        if not self._of(name):
            raise LookupError(f"{name} was watched, but the model did not run it inside `look`")
        return self._view(name, -1)

    def calls(self, name: str) -> list[View]:
        """Every call of this attention, in order: one per forward pass or decoding step."""
        return [self._view(name, i) for i in range(len(self._of(name)))]

    def has(self, name: str) -> bool:
        """Did this attention run inside `look`?"""
        return bool(self._of(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    def __repr__(self) -> str:
        return f"Seen({', '.join(f'{name}: {len(calls)}' for name, calls in self._calls.items())})"

    def keep(self, name: str, view: View | Callable[[], View]) -> None:
        """Add one call."""
        self._calls[name].append(view)

    def _of(self, name: str) -> list[View | Callable[[], View]]:
        if name not in self._calls:
            raise LookupError(f"nothing is named {name!r} here; seen: {listed(self._calls)}")
        return self._calls[name]

    def _view(self, name: str, which: int) -> View:
        calls = self._of(name)
        view = calls[which]
        if not isinstance(view, View):
            view = calls[which] = view()
        return view

    def rollout(
        self, queries: Sequence[int] | slice = slice(None), sequence: int = 0, stack: str = "encoder"
    ) -> Tensor:
        """How much of each input token reaches these outputs through all layers of a stack, (len, S).

        Each layer passes on half of itself through the residual and half through the mean of its heads
        (Abnar and Zuidema 2020, section 3). Layers are walked from the top in blocks of rows.
        """
        views = [self[n] for n in self if n.rpartition(".")[0] in (stack, "") and self[n].kind == "self"]
        if not views:
            raise LookupError(f"no self-attention of a stack named {stack!r} was seen; seen: {listed(self._calls)}")
        size = views[-1].shape(sequence)[0]
        picked = torch.arange(size)[queries]
        flow = torch.zeros(len(picked), size)
        flow[torch.arange(len(picked)), picked] = 1.0
        for view in reversed(views):
            flow = 0.5 * flow + 0.5 * view.carry(flow, sequence)
        return flow


@dataclass(frozen=True, eq=False)
class Site:
    """One attention of a model: where it stands, what it attends to, and the projection behind it."""

    path: str
    module: nn.Module
    kind: Kind
    output: Tensor | None = None  # (D, H V)


class Turn:
    """The names a module answers to, one after the other: layers that share a module run it once each, in order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names, self._runs = names, 0

    def next(self) -> str:
        """The layer that runs now."""
        self._runs += 1
        return self._names[(self._runs - 1) % len(self._names)]

    def restart(self, *_: object) -> None:
        """Begin with the first layer again: as a hook before a forward, also after one that broke off."""
        self._runs = 0


def attentions(model: nn.Module) -> dict[str, Site]:
    """Every attention of a model by its short name: `encoder.3`, `decoder.0`, `decoder.0.cross`."""
    found: dict[str, Site] = {}
    for path, core in places(model, lambda module: isinstance(module, Core)):
        assert isinstance(core, Core)
        output = getattr(model.get_submodule(path.rpartition(".")[0]), "output", None)
        weight = output.weight if isinstance(output, nn.Linear) else None
        found[_short(path)] = Site(path, core, core.kind, weight)
    return found


@contextmanager
def look(
    model: nn.Module, *, layers: Iterable[str | int] | None = None, kinds: Iterable[Kind] = ("self", "cross")
) -> Generator[Seen]:
    """Watch the attention of a model, in eval or in training, on any kernel.

    `layers` names the attentions to keep (all by default; a number is that layer of every stack), `kinds`
    keeps self-attention, cross-attention or both.
    """
    sites = attentions(model)
    chosen = picked(sites, layers, kinds)
    seen, depth = Seen(chosen), _DEPTH.get()
    with ExitStack() as stack:
        run_eagerly(model, stack)
        for core, turn in turns(model, sites, chosen, stack).items():

            def keep(core: Core, args: tuple[Call], turn: Turn = turn) -> None:
                if _DEPTH.get() > depth:
                    return
                name = turn.next()
                if name in chosen:
                    seen.keep(name, View(args[0].detached(), core.kind, core.kernel, chosen[name].output))

            stack.callback(core.register_forward_pre_hook(keep).remove)  # type: ignore[arg-type]
        yield seen


@contextmanager
def unseen() -> Generator[None]:
    """What runs inside is not seen by a `look` around it: the steps of a search, whose result is what counts."""
    token = _DEPTH.set(_DEPTH.get() + 1)
    try:
        yield
    finally:
        _DEPTH.reset(token)


def depth() -> int:
    """How many `unseen` are around: what is kept was run no deeper than its `look`."""
    return _DEPTH.get()


def is_watched(model: nn.Module) -> bool:
    """Is somebody looking at an attention of this model?"""
    return any(isinstance(module, Core) and module._forward_pre_hooks for module in model.modules())


@contextmanager
def without(model: nn.Module, heads: Mapping[str, Heads]) -> Generator[None]:
    """Switch heads off while inside: `without(model, {"encoder.3": [0, 5], "decoder.1.cross": "all"})`.

    A head is switched off where its output leaves it, before the output projection, on any kernel; "all"
    leaves nothing of that layer's attention but the projection's own bias.
    """
    sites = attentions(model)
    off: dict[str, Heads] = {name: which for wanted, which in heads.items() for name in named(sites, wanted)}
    with ExitStack() as stack:
        run_eagerly(model, stack)
        for core, turn in turns(model, sites, off, stack).items():

            def silence(core: Core, args: tuple[Call], out: Tensor, turn: Turn = turn) -> Tensor:
                name = turn.next()
                return silenced(out, off[name], name) if name in off else out

            stack.callback(core.register_forward_hook(silence).remove)  # type: ignore[arg-type]
        yield


def silenced(out: Tensor, which: Heads, name: str) -> Tensor:
    """What the heads of one attention gathered, (..., H, V), with 0 from some of them."""
    heads = out.shape[-2]
    off = list(range(heads)) if which == "all" else [int(h) for h in which]
    if bad := [h for h in off if not 0 <= h < heads]:
        raise ValueError(f"{name} has heads 0 to {heads - 1}, not {bad}")
    keep = torch.ones(heads, 1, dtype=torch.bool, device=out.device)
    keep[off] = False
    return torch.where(keep, out, 0.0)


def picked(sites: Mapping[str, Site], layers: Iterable[str | int] | None, kinds: Iterable[Kind]) -> dict[str, Site]:
    """The attentions that the options of `look` name; refuses what is not there."""
    kinds = tuple(kinds)
    if unknown := [k for k in kinds if k not in ("self", "cross")]:
        raise ValueError(f"kinds {unknown}: an attention is 'self' or 'cross'")
    chosen = sites if layers is None else {n: s for wanted in layers for n, s in named(sites, wanted).items()}
    chosen = {name: site for name, site in chosen.items() if site.kind in kinds}
    if not chosen:
        raise ValueError(f"nothing to look at: the model's attentions are {listed(sites) or 'none at all'}")
    return chosen


def named(sites: Mapping[str, Site], wanted: str | int) -> dict[str, Site]:
    """The attention of this name, or those of this layer number in every stack."""
    found = {n: s for n, s in sites.items() if n == wanted or (isinstance(wanted, int) and str(wanted) in n.split("."))}
    if not found:
        raise ValueError(f"the model has no attention {wanted!r}: it has {listed(sites) or 'none at all'}")
    return found


def places(model: nn.Module, wanted: Callable[[nn.Module], bool]) -> list[tuple[str, nn.Module]]:
    """Where the wanted modules stand, in order: one place for each layer that a module serves.

    Paths that differ in their numbers alone are layers sharing a module; one with other words is an alias.
    """
    found = [(path, m) for path, m in model.named_modules(remove_duplicate=False) if wanted(m)]
    ways: dict[nn.Module, list[str]] = {}
    for path, module in found:
        ways.setdefault(module, []).append(_wordy(path))
    longest = {module: max(dict.fromkeys(of), key=of.count) for module, of in ways.items()}
    return [(path, module) for path, module in found if _wordy(path) == longest[module]]


def turns(
    model: nn.Module, sites: Mapping[str, Site], chosen: Collection[str], stack: ExitStack
) -> dict[nn.Module, Turn]:
    """The turns of every module that is chosen for a layer; a forward of what holds all its layers restarts them."""
    names: dict[nn.Module, list[str]] = {}
    for name, site in sites.items():
        names.setdefault(site.module, []).append(name)
    holders = dict(model.named_modules())
    result = {sites[name].module: Turn(names[sites[name].module]) for name in chosen}
    for module, turn in result.items():
        if len(names[module]) > 1:
            for path in set.intersection(*(_above(sites[name].path) for name in names[module])) & holders.keys():
                stack.callback(holders[path].register_forward_pre_hook(turn.restart).remove)
    return result


def run_eagerly(model: nn.Module, stack: ExitStack) -> None:
    """A compiled graph has no place to listen: run the model it was made from while the context lasts."""
    if any(_is_compiled(module) for module in model.modules()):
        stack.enter_context(torch.compiler.set_stance("force_eager"))


def _is_compiled(module: nn.Module) -> bool:
    """By `torch.compile(module)`, by `module.compile()` or by `module.forward = torch.compile(module.forward)`."""
    return (
        hasattr(module, "_orig_mod")
        or module._compiled_call_impl is not None
        or hasattr(module.forward, "_torchdynamo_orig_callable")
    )


def _short(path: str) -> str:
    quiet = {"blocks", "core", "attention", "_orig_mod"}
    return ".".join(part for part in path.split(".") if part not in quiet) or "attention"


def _wordy(path: str) -> str:
    return ".".join("#" if part.isdigit() else part for part in path.split("."))


def _above(path: str) -> set[str]:
    parts = path.split(".")
    return {".".join(parts[:depth]) for depth in range(len(parts))}


def listed(names: Iterable[str]) -> str:
    """Names in a row, for a message."""
    return ", ".join(names)
