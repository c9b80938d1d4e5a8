"""Look: the attention of a model while it runs on its own fast kernels, and what happens without some of it.

    with look(model) as seen:
        model(tokens, layout)
    seen["encoder.3"].rows([7], head=2)

Inside `look` each attention hands over a reference to its call (queries, keys, values, mask). Nothing is
copied and no kernel is changed; weights are computed later, exactly, and only for what is asked.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from clearhead.attention.call import Call
from clearhead.attention.multihead import Core, Kind
from clearhead.attention.view import View


class Seen(Mapping[str, View]):
    """What `look` saw: one view per attention, by name; `calls` where an attention ran more than once."""

    def __init__(self, names: Sequence[str]) -> None:
        self._calls: dict[str, list[View]] = {name: [] for name in names}

    def __getitem__(self, name: str) -> View:
        """The last call of this attention."""
        calls = self.calls(name)
        if not calls:
            raise LookupError(f"{name} was watched, but the model did not run it inside `look`")
        return calls[-1]

    def calls(self, name: str) -> list[View]:
        """Every call of this attention, in order: one per forward pass or decoding step."""
        if name not in self._calls:
            raise LookupError(f"nothing is named {name!r} here; seen: {_listed(self._calls)}")
        return self._calls[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    def __repr__(self) -> str:
        return f"Seen({', '.join(f'{name}: {len(calls)}' for name, calls in self._calls.items())})"

    def keep(self, name: str, view: View) -> None:
        """Add one call."""
        self._calls[name].append(view)

    def rollout(
        self, queries: Sequence[int] | slice = slice(None), sequence: int = 0, stack: str = "encoder"
    ) -> Tensor:
        """How much of each input token reaches these outputs through all layers of a stack, (len, S).

        Each layer passes on half of itself through the residual and half through the mean of its heads
        (Abnar and Zuidema 2020, section 3). Layers are walked from the top in blocks of rows.
        """
        views = [self[n] for n in self if n.rpartition(".")[0] in (stack, "") and self[n].kind == "self"]
        if not views:
            raise LookupError(f"no self-attention of a stack named {stack!r} was seen; seen: {_listed(self._calls)}")
        size = views[-1].shape(sequence)[0]
        picked = torch.arange(size)[queries]
        flow = torch.zeros(len(picked), size)
        flow[torch.arange(len(picked)), picked] = 1.0
        for view in reversed(views):
            flow = 0.5 * flow + 0.5 * view.carry(flow, sequence)
        return flow


def attentions(model: nn.Module) -> dict[str, Core]:
    """Every attention of a model by its short name: `encoder.3`, `decoder.0`, `decoder.0.cross`."""
    return {_short(path): module for path, module in model.named_modules() if isinstance(module, Core)}


@contextmanager
def look(
    model: nn.Module, *, layers: Iterable[str | int] | None = None, kinds: Iterable[Kind] = ("self", "cross")
) -> Generator[Seen]:
    """Watch the attention of a model, in eval or in training, on any kernel.

    `layers` names the attentions to keep (all by default; a number is that layer of every stack), `kinds`
    keeps self-attention, cross-attention or both.
    """
    cores, kinds = attentions(model), tuple(kinds)
    if unknown := [k for k in kinds if k not in ("self", "cross")]:
        raise ValueError(f"kinds {unknown}: an attention is 'self' or 'cross'")
    chosen = cores if layers is None else {n: c for w in layers for n, c in _named(cores, w).items()}
    chosen = {name: core for name, core in chosen.items() if core.kind in kinds}
    if not chosen:
        raise ValueError(f"nothing to look at: the model's attentions are {_listed(cores) or 'none at all'}")
    parents = {id(m.core): m for m in model.modules() if isinstance(getattr(m, "core", None), Core)}
    seen = Seen(list(chosen))
    with ExitStack() as stack:
        _run_eagerly(model, stack)
        for name, core in chosen.items():
            output = getattr(parents.get(id(core)), "output", None)
            weight = output.weight if isinstance(output, nn.Linear) else None

            def keep(core: Core, args: tuple[Call], name: str = name, weight: Tensor | None = weight) -> None:
                seen.keep(name, View(args[0].detached(), core.kind, core.kernel, weight))

            stack.callback(core.register_forward_pre_hook(keep).remove)  # type: ignore[arg-type]
        yield seen


@contextmanager
def without(model: nn.Module, heads: Mapping[str, Sequence[int] | Literal["all"]]) -> Generator[None]:
    """Switch heads off while inside: `without(model, {"encoder.3": [0, 5], "decoder.1.cross": "all"})`.

    A head is switched off where its output leaves it, before the output projection, on any kernel; "all"
    leaves nothing of that layer's attention but the projection's own bias.
    """
    cores = attentions(model)
    with ExitStack() as stack:
        _run_eagerly(model, stack)
        for name, which in heads.items():
            core = _named(cores, name)[name]

            def silence(
                core: Core, args: tuple[Call], out: Tensor, which: Sequence[int] | str = which, name: str = name
            ) -> Tensor:
                off = range(out.shape[1]) if which == "all" else [int(h) for h in which]
                if bad := [h for h in off if not 0 <= h < out.shape[1]]:
                    raise ValueError(f"{name} has heads 0 to {out.shape[1] - 1}, not {bad}")
                keep = torch.ones(out.shape[1], 1, dtype=torch.bool, device=out.device)
                keep[list(off)] = False
                return torch.where(keep, out, 0.0)

            stack.callback(core.register_forward_hook(silence).remove)  # type: ignore[arg-type]
        yield


def _run_eagerly(model: nn.Module, stack: ExitStack) -> None:
    """A compiled graph has no place to listen: run the model it was made from while the context lasts."""
    if any(hasattr(m, "_orig_mod") for m in model.modules()):
        stack.enter_context(torch.compiler.set_stance("force_eager"))


def _short(path: str) -> str:
    quiet = {"blocks", "core", "attention", "_orig_mod"}
    return ".".join(part for part in path.split(".") if part not in quiet) or "attention"


def _named(cores: Mapping[str, Core], wanted: str | int) -> dict[str, Core]:
    if isinstance(wanted, int):
        found = {n: c for n, c in cores.items() if str(wanted) in n.split(".")}
    else:
        found = {n: c for n, c in cores.items() if n == wanted}
    if not found:
        raise ValueError(f"the model has no attention {wanted!r}: it has {_listed(cores) or 'none at all'}")
    return found


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(map(str, names))
