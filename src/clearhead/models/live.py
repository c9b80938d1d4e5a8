"""Live: looking into a `transformers` model as it runs, and switching its heads off.

    with look(model) as seen:
        model(**batch)
    seen["encoder.3"].rows([7], head=2)

On every call, an attention of such a model asks transformers' attention interface for its kernel. While a context
lasts, the interface hands out that same kernel with a listener before it: SDPA stays SDPA, masks and configuration
stay as they are, nothing is converted and nothing copied. Models of clearhead itself go to `clearhead.attention`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial, wraps
from importlib import import_module
from typing import Any

from torch import Tensor, nn

from clearhead.attention import Core, Seen
from clearhead.attention import look as look_ours
from clearhead.attention import without as without_ours
from clearhead.attention.look import Heads, Turn, named, picked, run_eagerly, silenced, turns
from clearhead.attention.multihead import Kind
from clearhead.models.addresses import asks_the_interface, attentions
from clearhead.models.heard import Heard, implementation


def look(
    model: Any, *, layers: Iterable[str | int] | None = None, kinds: Iterable[Kind] = ("self", "cross")
) -> AbstractContextManager[Seen]:
    """Watch the attention of a model of clearhead (or an `App`), or of transformers, on the kernel it runs.

    `layers` names the attentions to keep (all by default; a number is that layer of every stack), `kinds`
    keeps self-attention, cross-attention or both.
    """
    model = module_of(model)
    here = look_ours if _is_ours(model) else _look
    return here(model, layers=layers, kinds=kinds)


def without(model: Any, heads: Mapping[str, Heads]) -> AbstractContextManager[None]:
    """Switch heads off while inside: `without(model, {"encoder.3": [0, 5], "decoder.1.cross": "all"})`.

    A head is switched off where its output leaves it, before the output projection, on any kernel; "all"
    leaves nothing of that layer's attention but the projection's own bias.
    """
    model = module_of(model)
    here = without_ours if _is_ours(model) else _without
    return here(model, heads)


@contextmanager
def _look(model: nn.Module, *, layers: Iterable[str | int] | None, kinds: Iterable[Kind]) -> Generator[Seen]:
    sites = attentions(model)
    chosen = picked(sites, layers, kinds)
    for site in chosen.values():
        _check_kernel(site.module)
    seen = Seen(chosen)
    with ExitStack() as stack:
        run_eagerly(model, stack)

        def keep(
            turn: Turn, run: Kernel, module: nn.Module, query: Tensor, key: Tensor, value: Tensor,
            attention_mask: Tensor | None = None, **options: Any,
        ) -> Any:  # fmt: skip
            name = turn.next()
            if name in chosen:
                seen.keep(name, Heard.of(chosen[name], query, key, value, attention_mask, options).view)
            return run(module, query, key, value, attention_mask, **options)

        listeners = {module: partial(keep, turn) for module, turn in turns(model, sites, chosen, stack).items()}
        stack.enter_context(_listening(listeners))
        yield seen


@contextmanager
def _without(model: nn.Module, heads: Mapping[str, Heads]) -> Generator[None]:
    sites = attentions(model)
    off: dict[str, Heads] = {name: which for wanted, which in heads.items() for name in named(sites, wanted)}
    with ExitStack() as stack:
        run_eagerly(model, stack)

        def silence(turn: Turn, run: Kernel, *args: Any, **options: Any) -> tuple[Any, ...]:
            name = turn.next()
            out, *rest = run(*args, **options)  # (B, T, H, V), and the weights where the kernel has them
            return silenced(out, off[name], name) if name in off else out, *rest

        listeners = {module: partial(silence, turn) for module, turn in turns(model, sites, off, stack).items()}
        stack.enter_context(_listening(listeners))
        yield


def module_of(model: Any) -> nn.Module:
    """The module itself, or the one that an app or a pipeline holds."""
    held = model if isinstance(model, nn.Module) else getattr(model, "model", None)
    if not isinstance(held, nn.Module):
        raise ValueError(f"{type(model).__name__} is no model, and holds none: give the nn.Module itself")
    return held


def _is_ours(model: nn.Module) -> bool:
    """Is this a model of clearhead (True) or of transformers (False)? Refuses what is neither."""
    if any(isinstance(module, Core) for module in model.modules()):
        return True
    if any(asks_the_interface(module) for module in model.modules()):
        return False
    kind, known = type(model).__name__, [getattr(module, "config", None) for module in model.modules()]
    family = next(filter(None, (getattr(config, "model_type", None) for config in known)), None)
    if family is None:
        raise ValueError(f"{kind} holds no attention of clearhead, nor of a transformers model")
    raise ValueError(
        f"{kind} (model_type {family!r}) computes attention outside transformers' attention interface, "
        "so that there is no kernel call to listen at: load it as a clearhead model if its family is known there, "
        "or use its own output_attentions=True in eager mode"
    )


# The interface: how a listener comes between a module and its kernel.

Kernel = Callable[..., Any]
"""(module, query (B, H, T, K), key (B, G, S, K), value, mask, **options) to (output (B, T, H, V), weights or None)."""

_listeners: dict[nn.Module, tuple[Kernel, ...]] = {}  # of all contexts alive
_lock = threading.Lock()


@contextmanager
def _listening(listeners: Mapping[nn.Module, Kernel]) -> Generator[None]:
    """Call `listener(kernel, module, ...)` wherever one of these modules would call its kernel.

    Contexts may nest and may end in any order; when the last one ends, the interface is what it was.
    """
    if not listeners:
        yield
        return
    interface: Any = import_module("transformers.modeling_utils").AttentionInterface
    with _lock:
        if not _listeners:
            interface.get_interface = _with_listeners(interface.get_interface)
        for module, listener in listeners.items():
            _listeners[module] = (*_listeners.get(module, ()), listener)
    try:
        yield
    finally:
        with _lock:
            for module, listener in listeners.items():
                if left := tuple(other for other in _listeners.pop(module) if other is not listener):
                    _listeners[module] = left
            if not _listeners:
                interface.get_interface = interface.get_interface.__wrapped__


def _with_listeners(get_interface: Any) -> Any:
    """`get_interface`, except that a kernel is reached through whoever listens to the module that calls it."""

    @wraps(get_interface)
    def get(*args: Any, **options: Any) -> Kernel:
        return partial(_attend, get_interface(*args, **options))

    return get


def _attend(kernel: Kernel, module: nn.Module, *args: Any, **options: Any) -> Any:
    for listener in _listeners.get(module, ()):
        kernel = partial(listener, kernel)
    return kernel(module, *args, **options)


def _check_kernel(module: nn.Module) -> None:
    """Refuse kernels whose weights cannot be told from what they are given."""
    kernel = implementation(module)
    if any(word in kernel for word in ("flash", "flex", "paged")):
        raise ValueError(
            f"the model runs on {kernel!r}, which keeps its mask to itself: "
            "look at it after model.set_attn_implementation('sdpa')"
        )
    if getattr(module, "sinks", None) is not None:
        raise ValueError(f"{type(module).__name__} adds learned sinks to its softmax, which a view does not know yet")
