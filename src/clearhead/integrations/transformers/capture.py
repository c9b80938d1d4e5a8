"""Attention capture and head ablation on live `transformers` models.

    with look(model) as captured:
        model(**batch)
    captured["encoder.3"].rows([7], head=2)

On every call, an attention module of transformers gets its kernel from the attention interface. Inside a context, the
interface returns the same kernel with a listener before it: SDPA stays SDPA, masks and configuration are unchanged, and
no tensor is converted or copied. Models of clearhead are passed to `clearhead.attention`.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial, wraps
from importlib import import_module
from typing import Any

from torch import Tensor, nn

from clearhead.attention import AttentionCapture, AttentionCore
from clearhead.attention import ablate_heads as ablate_clearhead
from clearhead.attention.capture import look as look_clearhead
from clearhead.attention.capture.look import Heads, zero_heads
from clearhead.attention.capture.sites import LayerCycle, layer_cycles, match_sites, run_eagerly, select_sites
from clearhead.attention.multihead import AttentionKind
from clearhead.integrations.transformers.captured_call import CapturedCall, implementation
from clearhead.integrations.transformers.module_names import attentions, uses_attention_interface


def look(
    model: Any, *, layers: Iterable[str | int] | None = None, kinds: Iterable[AttentionKind] = ("self", "cross")
) -> AbstractContextManager[AttentionCapture]:
    """Captures the attention of a clearhead model (or a `Pipeline`) or of a transformers model, on the kernel it runs.

    `layers` selects attention layers by name (default: all; a number is that layer of every stack), `kinds` selects
    self-attention, cross-attention or both.
    """
    model = module_of(model)
    capture = look_clearhead if _is_clearhead(model) else _look_transformers
    return capture(model, layers=layers, kinds=kinds)


def ablate_heads(model: Any, heads: Mapping[str, Heads]) -> AbstractContextManager[None]:
    """Ablates heads inside the context: `ablate_heads(model, {"encoder.3": [0, 5], "decoder.1.cross": "all"})`.

    The output of a head is set to zero before the output projection, on any kernel; "all" leaves only the bias of the
    projection.
    """
    model = module_of(model)
    ablate = ablate_clearhead if _is_clearhead(model) else _ablate_transformers
    return ablate(model, heads)


@contextmanager
def _look_transformers(
    model: nn.Module, *, layers: Iterable[str | int] | None, kinds: Iterable[AttentionKind]
) -> Generator[AttentionCapture]:
    sites = attentions(model)
    chosen = select_sites(sites, layers, kinds)
    for site in chosen.values():
        _check_kernel(site.module)
    captured = AttentionCapture(chosen)
    with ExitStack() as stack:
        run_eagerly(model, stack)

        def record(
            cycle: LayerCycle, run: Kernel, module: nn.Module, query: Tensor, key: Tensor, value: Tensor,
            attention_mask: Tensor | None = None, **options: Any,
        ) -> Any:  # fmt: skip
            name = cycle.next()
            if name in chosen:
                captured.add(name, CapturedCall.of(chosen[name], query, key, value, attention_mask, options).view)
            return run(module, query, key, value, attention_mask, **options)

        cycles = layer_cycles(model, sites, chosen, stack)
        listeners = {module: partial(record, cycle) for module, cycle in cycles.items()}
        stack.enter_context(_listening(listeners))
        yield captured


@contextmanager
def _ablate_transformers(model: nn.Module, heads: Mapping[str, Heads]) -> Generator[None]:
    sites = attentions(model)
    ablated: dict[str, Heads] = {
        name: selected for pattern, selected in heads.items() for name in match_sites(sites, pattern)
    }
    with ExitStack() as stack:
        run_eagerly(model, stack)

        def zero(cycle: LayerCycle, run: Kernel, *args: Any, **options: Any) -> tuple[Any, ...]:
            name = cycle.next()
            out, *rest = run(*args, **options)  # (B, T, H, V), and the weights if the kernel returns them
            return zero_heads(out, ablated[name], name) if name in ablated else out, *rest

        cycles = layer_cycles(model, sites, ablated, stack)
        listeners = {module: partial(zero, cycle) for module, cycle in cycles.items()}
        stack.enter_context(_listening(listeners))
        yield


def module_of(model: Any) -> nn.Module:
    module = model if isinstance(model, nn.Module) else getattr(model, "model", None)
    if not isinstance(module, nn.Module):
        raise ValueError(f"{type(model).__name__} is not a model and has no `model` attribute: give the nn.Module")
    return module


def _is_clearhead(model: nn.Module) -> bool:
    """Returns whether this is a clearhead (True) or a transformers model (False); ValueError for others."""
    if any(isinstance(module, AttentionCore) for module in model.modules()):
        return True
    if any(uses_attention_interface(module) for module in model.modules()):
        return False
    kind, configs = type(model).__name__, [getattr(module, "config", None) for module in model.modules()]
    family = next(filter(None, (getattr(config, "model_type", None) for config in configs)), None)
    if family is None:
        raise ValueError(f"{kind} has no attention layers of clearhead or transformers")
    raise ValueError(
        f"{kind} (model_type {family!r}) computes attention outside transformers' attention interface, "
        "so its kernel calls cannot be captured: load it as a clearhead model if its family is supported, "
        "or use its own output_attentions=True in eager mode"
    )


# Listeners between modules and their kernels.

Kernel = Callable[..., Any]
"""Maps (module, query (B, H, T, K), key (B, G, S, K), value, mask, **options) to (output (B, T, H, V), weights)."""

_listeners: dict[nn.Module, tuple[Kernel, ...]] = {}  # of all active contexts
_lock = threading.Lock()


@contextmanager
def _listening(listeners: Mapping[nn.Module, Kernel]) -> Generator[None]:
    """Calls `listener(kernel, module, ...)` whenever one of these modules calls its kernel.

    Contexts may nest and may end in any order; the last one to end restores the interface.
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
                if remaining := tuple(other for other in _listeners.pop(module) if other is not listener):
                    _listeners[module] = remaining
            if not _listeners:
                interface.get_interface = interface.get_interface.__wrapped__


def _with_listeners(get_interface: Any) -> Any:
    """Wraps `get_interface` so that kernels are called through the listeners of the calling module."""

    @wraps(get_interface)
    def get(*args: Any, **options: Any) -> Kernel:
        return partial(_attend, get_interface(*args, **options))

    return get


def _attend(kernel: Kernel, module: nn.Module, *args: Any, **options: Any) -> Any:
    for listener in _listeners.get(module, ()):
        kernel = partial(listener, kernel)
    return kernel(module, *args, **options)


def _check_kernel(module: nn.Module) -> None:
    """Refuses kernels whose attention weights do not follow from their arguments."""
    kernel = implementation(module)
    if any(word in kernel for word in ("flash", "flex", "paged")):
        raise ValueError(
            f"the model runs on {kernel!r}, whose mask cannot be captured: "
            "call model.set_attn_implementation('sdpa') first"
        )
    if getattr(module, "sinks", None) is not None:
        raise ValueError(f"{type(module).__name__} adds learned sinks to its softmax, which is not supported")
