"""Look: exact attention of a running model on its own fast kernels, and heads switched off.

    with look(model) as capture:
        model(tokens, layout)
    capture["encoder.3"].rows([7], head=2)

Inside `look` each attention module hands over a reference to its inputs (queries, keys, values, mask). Nothing is
copied and no kernel changes; weights are computed afterwards, exactly, for the requested rows only.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Literal

import torch
from torch import Tensor, nn

from clearhead.attention.capture.attention_map import AttentionMap
from clearhead.attention.capture.sites import (
    LayerCycle,
    attentions,
    format_names,
    layer_cycles,
    match_sites,
    run_eagerly,
    select_sites,
)  # fmt: skip
from clearhead.attention.hooks import accepts_padding, is_observed
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.multihead import AttentionCore, AttentionKind

Heads = Sequence[int] | Literal["all"]

_DEPTH: ContextVar[int] = ContextVar("depth", default=0)  # number of open `no_capture` contexts


class AttentionCapture(Mapping[str, AttentionMap]):
    """The captured attention maps by module name; `calls` lists all of a module that ran more than once.

    A map is stored as such, or as a function that builds it on first access.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._calls: dict[str, list[AttentionMap | Callable[[], AttentionMap]]] = {name: [] for name in names}

    def __getitem__(self, name: str) -> AttentionMap:
        """The map of the last call of this attention."""
        if not self._stored(name):
            raise LookupError(f"{name} is captured, but the model did not run it inside `look`")
        return self._map(name, -1)

    def calls(self, name: str) -> list[AttentionMap]:
        """The maps of all calls of this attention, in order: one per forward pass or decoding step."""
        return [self._map(name, i) for i in range(len(self._stored(name)))]

    def has(self, name: str) -> bool:
        return bool(self._stored(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    def __repr__(self) -> str:
        return f"AttentionCapture({', '.join(f'{name}: {len(calls)}' for name, calls in self._calls.items())})"

    def add(self, name: str, captured: AttentionMap | Callable[[], AttentionMap]) -> None:
        """Store a call, or a function that builds it on first access."""
        self._calls[name].append(captured)

    def _stored(self, name: str) -> list[AttentionMap | Callable[[], AttentionMap]]:
        if name not in self._calls:
            raise LookupError(f"no attention is named {name!r}; captured: {format_names(self._calls)}")
        return self._calls[name]

    def _map(self, name: str, index: int) -> AttentionMap:
        calls = self._stored(name)
        captured = calls[index]
        if not isinstance(captured, AttentionMap):
            captured = calls[index] = captured()
        return captured

    def rollout(
        self, queries: Sequence[int] | slice = slice(None), sequence: int = 0, stack: str = "encoder"
    ) -> Tensor:
        """Attention rollout: how much of each input token reaches these outputs through all layers, (len, S).

        Each layer passes half of itself through the residual connection and half through the mean of its heads (Abnar
        and Zuidema 2020, section 3). Layers are multiplied from the top, in blocks of rows.
        """
        maps = [self[n] for n in self if n.rpartition(".")[0] in (stack, "") and self[n].kind == "self"]
        if not maps:
            raise LookupError(
                f"no self-attention of a stack named {stack!r} was captured; captured: {format_names(self._calls)}"
            )
        size = maps[-1].shape(sequence)[0]
        selected = torch.arange(size)[queries]
        flow = torch.zeros(len(selected), size)
        flow[torch.arange(len(selected)), selected] = 1.0
        for attention in reversed(maps):
            flow = 0.5 * flow + 0.5 * attention.propagate(flow, sequence)
        return flow


@contextmanager
def look(
    model: nn.Module, *, layers: Iterable[str | int] | None = None, kinds: Iterable[AttentionKind] = ("self", "cross")
) -> Generator[AttentionCapture]:
    """Capture the attention of a model, in eval or training mode, on any kernel.

    `layers` names the attentions to capture (default: all; a number selects that layer of every stack), `kinds` selects
    self-attention, cross-attention or both.
    """
    sites = attentions(model)
    selected = select_sites(sites, layers, kinds)
    capture, depth = AttentionCapture(selected), _DEPTH.get()
    with ExitStack() as stack:
        run_eagerly(model, stack)
        for core, cycle in layer_cycles(model, sites, selected, stack).items():

            @accepts_padding
            def keep(core: AttentionCore, args: tuple[AttentionInputs], cycle: LayerCycle = cycle) -> None:
                if _DEPTH.get() > depth:
                    return
                name = cycle.next()
                if name in selected:
                    inputs, kernel = args[0].without_padding().detached(), core.kernel_for(args[0])
                    output = selected[name].output
                    capture.add(name, AttentionMap(inputs, core.kind, kernel, output, core.method))

            stack.callback(core.register_forward_pre_hook(keep).remove)
        yield capture


@contextmanager
def no_capture() -> Generator[None]:
    """Hide what runs inside from an enclosing `look`: the steps of a search, of which only the result counts."""
    token = _DEPTH.set(_DEPTH.get() + 1)
    try:
        yield
    finally:
        _DEPTH.reset(token)


def capture_depth() -> int:
    """The number of open `no_capture` contexts: a capture ignores calls at a greater depth than its own."""
    return _DEPTH.get()


def is_captured(model: nn.Module) -> bool:
    """True if a `look` is open on an attention of this model."""
    return any(isinstance(module, AttentionCore) and is_observed(module) for module in model.modules())


@contextmanager
def ablate_heads(model: nn.Module, heads: Mapping[str, Heads]) -> Generator[None]:
    """Switch heads off while inside: `ablate_heads(model, {"encoder.3": [0, 5], "decoder.1.cross": "all"})`.

    The output of a head is set to 0 before the output projection, on any kernel; "all" leaves only the bias of the
    projection.
    """
    sites = attentions(model)
    off: dict[str, Heads] = {name: which for wanted, which in heads.items() for name in match_sites(sites, wanted)}
    with ExitStack() as stack:
        run_eagerly(model, stack)
        for core, cycle in layer_cycles(model, sites, off, stack).items():

            @accepts_padding
            def ablate(
                core: AttentionCore, args: tuple[AttentionInputs], out: Tensor, cycle: LayerCycle = cycle
            ) -> Tensor:
                name = cycle.next()
                return zero_heads(out, off[name], name) if name in off else out

            stack.callback(core.register_forward_hook(ablate).remove)
        yield


def zero_heads(out: Tensor, which: Heads, name: str) -> Tensor:
    """The outputs of the heads of one attention, (..., H, V), with zeros for some of them."""
    heads = out.shape[-2]
    off = list(range(heads)) if which == "all" else [int(h) for h in which]
    if bad := [h for h in off if not 0 <= h < heads]:
        raise ValueError(f"{name} has heads 0 to {heads - 1}, not {bad}")
    keep = torch.ones(heads, 1, dtype=torch.bool, device=out.device)
    keep[off] = False
    return torch.where(keep, out, 0.0)
