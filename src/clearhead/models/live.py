"""Live: looking into a `transformers` model as it runs, and switching its heads off.

    with look(model) as seen:
        model(**batch)
    seen["encoder.3"].rows([7], head=2)

On every call, an attention of such a model asks transformers' attention interface for its kernel. While a context
lasts, the interface hands out that same kernel with a listener before it: SDPA stays SDPA, masks and configuration
stay as they are, nothing is converted and nothing copied. Models of clearhead itself go to `clearhead.attention`.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial, wraps
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.attention import Call, Causal, Core, Explicit, Full, Layout, Mask, ScaledDot, Seen, View
from clearhead.attention import look as look_ours
from clearhead.attention import without as without_ours
from clearhead.attention.biases import Written
from clearhead.attention.look import Heads, Site, Turn, named, picked, places, run_eagerly, silenced, turns
from clearhead.attention.multihead import Kind
from clearhead.attention.scores import Capped


def look(
    model: nn.Module, *, layers: Iterable[str | int] | None = None, kinds: Iterable[Kind] = ("self", "cross")
) -> AbstractContextManager[Seen]:
    """Watch the attention of a model of clearhead or of transformers, on the kernel it runs.

    `layers` names the attentions to keep (all by default; a number is that layer of every stack), `kinds`
    keeps self-attention, cross-attention or both.
    """
    here = look_ours if _is_ours(model) else _look
    return here(model, layers=layers, kinds=kinds)


def without(model: nn.Module, heads: Mapping[str, Heads]) -> AbstractContextManager[None]:
    """Switch heads off while inside: `without(model, {"encoder.3": [0, 5], "decoder.1.cross": "all"})`.

    A head is switched off where its output leaves it, before the output projection, on any kernel; "all"
    leaves nothing of that layer's attention but the projection's own bias.
    """
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
                seen.keep(name, _Heard.of(chosen[name], query, key, value, attention_mask, options).view)
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


def _is_ours(model: nn.Module) -> bool:
    """Is this a model of clearhead (True) or of transformers (False)? Refuses what is neither."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"{type(model).__name__} is no model: give the nn.Module itself, such as `pipeline.model`")
    if any(isinstance(module, Core) for module in model.modules()):
        return True
    if any(_asks_the_interface(module) for module in model.modules()):
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


# The interface: which modules ask it, and how a listener comes between a module and its kernel.

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


def _asks_the_interface(module: nn.Module) -> bool:
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


def _check_kernel(module: nn.Module) -> None:
    """Refuse kernels whose weights cannot be told from what they are given."""
    kernel = _implementation(module)
    if any(word in kernel for word in ("flash", "flex", "paged")):
        raise ValueError(
            f"the model runs on {kernel!r}, which keeps its mask to itself: "
            "look at it after model.set_attn_implementation('sdpa')"
        )
    if getattr(module, "sinks", None) is not None:
        raise ValueError(f"{type(module).__name__} adds learned sinks to its softmax, which a view does not know yet")


def _implementation(module: nn.Module) -> str:
    return getattr(getattr(module, "config", None), "_attn_implementation", None) or "eager"


# What is kept of a call, and the view that is made of it when somebody asks.


@dataclass(frozen=True, eq=False)
class _Heard:
    """One call of a live attention, kept by reference: the tensors that its kernel got, and the rules for them.

    Padding is part of it, as it is of the model's batch: padded positions are rows and columns of the map. A row that a
    boolean mask hides altogether is 0, as SDPA has it (with a position bias SDPA spreads it over all keys); a mask of
    large negative numbers is added as it is, and spreads such a row as the kernel does.
    """

    site: Site
    q: Tensor  # (B, H, T, K)
    k: Tensor  # (B, G, S, K)
    v: Tensor  # (B, G, S, V)
    mask: Tensor | None  # broadcasts to (B, H, T, S): True = may attend, or a number to add
    bias: Tensor | None  # broadcasts to (B, H, T, S)
    kernel: str
    causal: bool
    scale: float | None
    cap: float | None
    ages: tuple[int, ...]

    @staticmethod
    def of(site: Site, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, options: Mapping[str, Any]) -> _Heard:
        """Keep what an attention hands to its kernel."""
        if options.get("cache") is not None:
            raise ValueError("continuous batching keeps its keys inside the kernel: look at a plain `generate` instead")
        causal, bias = options.get("is_causal"), options.get("position_bias")
        return _Heard(
            site=site,
            q=q.detach(),
            k=k.detach(),
            v=v.detach(),
            mask=None if mask is None else mask.detach(),
            bias=None if bias is None else bias.detach(),
            kernel=_implementation(site.module),
            causal=bool(getattr(site.module, "is_causal", True) if causal is None else causal),
            scale=options.get("scaling"),
            cap=options.get("softcap"),
            ages=(_age(q), _age(k), _age(v)),
        )

    def view(self) -> View:
        """The call in clearhead's terms: views of the same memory, except keys and values of a batch out of a cache."""
        if self.ages != (_age(self.q), _age(self.k), _age(self.v)):
            raise LookupError(
                "the keys of this call have been overwritten since, as a static cache does: "
                "ask right after each step, or generate with the default cache"
            )
        (B, H, T, _), S, first = self.q.shape, self.k.shape[2], self._first()
        if self._hides_the_future:
            S = min(S, T)  # the rest of a static cache is still empty
        mask, bias = self._rules(first)
        call = Call(
            q=_tokens(self.q),
            k=_tokens(self.k[:, :, :S]),
            v=_tokens(self.v[:, :, :S]),
            layout_q=Layout.of([T] * B, [first] * B, self.q.device),
            layout_k=Layout.equal(B, S, self.q.device),
            mask=mask,
            score=ScaledDot(self.scale) if self.cap is None else Capped(self.cap, self.scale),
            bias=None if bias is None else Written(_narrow(bias), H, first),
        )
        output = self.site.output
        fits = output is not None and output.shape[1] == H * self.v.shape[3]
        return View(call.check(), self.site.kind, self.kernel, output if fits else None)

    def _rules(self, first: int) -> tuple[Mask, Tensor | None]:
        """Who may attend to whom, and what is added to the scores."""
        if self.mask is None:
            return Causal() if self._hides_the_future else Full(), self.bias
        given = _narrow(self.mask)
        if given.dtype == torch.bool:
            if given.shape[1] == 1:
                return _Grid(given[:, 0], first), self.bias
            given = torch.where(given, 0.0, float("-inf"))
        return Full(), given if self.bias is None else given + self.bias

    @property
    def _hides_the_future(self) -> bool:
        """SDPA itself does, in a causal module, where no mask is given and there is more than one query."""
        return self.mask is None and self.causal and self.q.shape[2] > 1 and self.kernel != "eager"

    def _first(self) -> int:
        """Where the first query stands among the keys: with a cache, queries are its newest tokens."""
        T, S = self.q.shape[2], self.k.shape[2]
        if self.site.kind == "cross" or S <= T or self._hides_the_future:
            return 0
        if self.mask is None:
            return S - T
        last = _narrow(self.mask)[:, :, -1].flatten(0, 1)  # (b h, S): what the last query may see
        seen = (last if last.dtype == torch.bool else last > torch.finfo(last.dtype).min / 2).any(0).nonzero()
        return max(0, int(seen.max()) + 1 - T) if len(seen) else S - T


@dataclass(frozen=True, eq=False)
class _Grid(Explicit):
    """A mask written out whose first row is for the query at position `first`."""

    first: int = 0

    def allows(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return super().allows(sequence, query - self.first, key)


def _age(x: Tensor) -> int:
    """How often this memory was written to."""
    return 0 if x.is_inference() else x._version


def _tokens(x: Tensor) -> Tensor:
    """(B, H, T, K) as a token matrix, (B T, H, K)."""
    return x.transpose(1, 2).flatten(0, 1)


def _narrow(x: Tensor) -> Tensor:
    """Four dimensions, each of size 1 where all along it is the same memory."""
    x = x[(None,) * (4 - x.dim())]
    return x[tuple(slice(1) if stride == 0 else slice(None) for stride in x.stride())]


# Names: those that the same layers have in a model of clearhead.


def attentions(model: nn.Module) -> dict[str, Site]:
    """Every attention of a live model by its short name: `encoder.3`, `decoder.0`, `decoder.0.cross`.

    Where two stacks would share a name, the words that tell them apart come first: `vision.encoder.0`.
    """
    sites: list[Site] = []
    for path, module in places(model, _asks_the_interface):
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
