"""Masks: predicates over query and key positions. True = may attend.

A mask answers for positions inside one sequence (separate documents are separate sequences, not a
mask). It combines with `&` and `|`, and it can tell a kernel what it knows about whole rectangles
of positions, so that blocks are skipped or taken without a mask. Subclass `Mask` and write `allows`
for a rule of your own; `covers` and `touches` are then optional speed.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

Limit = int | None  # None: no limit


class Mask:
    """A predicate over (sequence, query position, key position)."""

    def allows(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """A bool tensor of the broadcast shape of three integer tensors: True where a pair may attend."""
        raise TypeError(f"{type(self).__name__} defines no `allows`: implement it")

    def all_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        """True if every pair of queries [q_lo, q_hi) and keys [k_lo, k_hi) is allowed; False when unknown.

        Takes ints, or integer tensors for many rectangles at once.
        """
        return False

    def any_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        """True if any pair of that block is allowed, or when unknown."""
        return True

    @property
    def band(self) -> tuple[Limit, Limit]:
        """How many positions a query attends to the left and to the right; None: no limit."""
        return None, None

    @property
    def key(self) -> Hashable | None:
        """What a mask of your own has in common with all that allow the same; None: plans for it are not shared."""
        return None

    @property
    def per_head(self) -> bool:
        """True if heads differ: only kernels that ask `of_head` can use it."""
        return False

    def of_head(self, sequence: int, head: int | None) -> Mask:
        """The mask of one head of one sequence, which may know more about its blocks; None: of all its heads."""
        return self

    def allows_heads(self, sequence: int, heads: range, query: Tensor, key: Tensor) -> Tensor:
        """What `allows` says of some heads of one sequence, (h, ...); (1, ...) if heads do not differ."""
        masks = [self.of_head(sequence, head) for head in (heads if self.per_head else heads[:1])]
        number, shape = torch.tensor([sequence], device=query.device), torch.broadcast_shapes(query.shape, key.shape)
        return torch.stack([mask.allows(number, query, key).expand(shape) for mask in masks])

    def __and__(self, other: Mask) -> Mask:
        return And(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Or(self, other)

    def to(self, device: torch.device | str) -> Mask:
        """The same mask with its per-sequence data on `device`."""
        if not is_dataclass(self):
            return self
        held = {f.name: getattr(self, f.name) for f in fields(self)}
        moved = {k: v.to(device) if isinstance(v, (Tensor, Mask)) else v for k, v in held.items()}
        return self if all(moved[k] is held[k] for k in held) else type(self)(**moved)


@dataclass(frozen=True, eq=False)
class Full(Mask):
    """Every query attends to every key."""

    def allows(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(sequence.shape, query.shape, key.shape)
        return torch.ones(shape, dtype=torch.bool, device=query.device)

    def all_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        return q_lo == q_lo

    def __and__(self, other: Mask) -> Mask:
        return other

    def __or__(self, other: Mask) -> Mask:
        return self


@dataclass(frozen=True, eq=False)
class Causal(Mask):
    """A query attends to itself and to earlier positions."""

    def allows(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (sequence == sequence)

    def all_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        return k_hi - 1 <= q_lo

    def any_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        return k_lo <= q_hi - 1

    @property
    def band(self) -> tuple[Limit, Limit]:
        return None, 0


@dataclass(frozen=True, eq=False)
class Window(Mask):
    """A query attends to `left` positions before itself and `right` after (Longformer, section 3.1)."""

    left: int
    right: int

    def __post_init__(self) -> None:
        if self.left < 0 or self.right < 0:
            raise ValueError(f"Window({self.left}, {self.right}): both sizes must be 0 or more")

    def allows(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key >= query - self.left) & (key <= query + self.right) & (sequence == sequence)

    def all_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        return (k_lo >= q_hi - 1 - self.left) & (k_hi - 1 <= q_lo + self.right)

    def any_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        return (k_hi - 1 >= q_lo - self.left) & (k_lo <= q_hi - 1 + self.right)

    @property
    def band(self) -> tuple[Limit, Limit]:
        return self.left, self.right


def _min_max(data: int | Tensor) -> tuple[int, int]:
    if not isinstance(data, Tensor):
        return data, data
    if data.device.type != "cpu":  # unknown: to ask would be to wait for the device
        return 0, 2**62
    return (int(data.min()), int(data.max())) if data.numel() else (0, 0)


@dataclass(frozen=True, eq=False)
class Global(Mask):
    """The first tokens of a sequence attend to all and are visible to all; `first` is a count, or one per sequence."""

    first: int | Tensor

    def allows(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        first = self.first[sequence] if isinstance(self.first, Tensor) else self.first
        return ((query < first) | (key < first)) & (sequence == sequence)

    def all_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        least, _ = _min_max(self.first)
        return (q_hi <= least) | (k_hi <= least)

    def any_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        _, most = _min_max(self.first)
        return (q_lo < most) | (k_lo < most)

    @property
    def key(self) -> Hashable | None:
        return ("global", *self.first.tolist()) if isinstance(self.first, Tensor) else None

    def of_head(self, sequence: int, head: int | None) -> Mask:
        return Global(int(self.first[sequence])) if isinstance(self.first, Tensor) else self


@dataclass(frozen=True, eq=False)
class Prefix(Mask):
    """Causal, but the first `lengths[i]` tokens of sequence i are visible to every query (T5, section 3.2.2)."""

    lengths: Tensor  # (B,)

    def allows(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key < self.lengths[sequence]) | (key <= query)

    def all_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        least, _ = _min_max(self.lengths)
        return (k_hi <= least) | (k_hi - 1 <= q_lo)

    def any_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        _, most = _min_max(self.lengths)
        return (k_lo < most) | (k_lo <= q_hi - 1)


@dataclass(frozen=True, eq=False)
class DenseMask(Mask):
    """A dense mask by position, (B, T, S), for padded inputs; size 1 broadcasts."""

    grid: Tensor  # (B or 1, T or 1, S or 1) bool

    def allows(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        b, t, s = self.grid.shape
        return self.grid[
            sequence if b > 1 else torch.zeros_like(sequence),
            query if t > 1 else torch.zeros_like(query),
            key if s > 1 else torch.zeros_like(key),
        ]


@dataclass(frozen=True, eq=False)
class And(Mask):
    """Both masks allow."""

    one: Mask
    two: Mask

    def allows(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.one.allows(sequence, query, key) & self.two.allows(sequence, query, key)

    def all_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        return self.one.all_allowed(q_lo, q_hi, k_lo, k_hi) & self.two.all_allowed(q_lo, q_hi, k_lo, k_hi)

    def any_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        return self.one.any_allowed(q_lo, q_hi, k_lo, k_hi) & self.two.any_allowed(q_lo, q_hi, k_lo, k_hi)

    @property
    def band(self) -> tuple[Limit, Limit]:
        (l1, r1), (l2, r2) = self.one.band, self.two.band
        return _narrower(l1, l2), _narrower(r1, r2)

    @property
    def per_head(self) -> bool:
        return self.one.per_head or self.two.per_head

    def of_head(self, sequence: int, head: int | None) -> Mask:
        return And(self.one.of_head(sequence, head), self.two.of_head(sequence, head))

    def allows_heads(self, sequence: int, heads: range, query: Tensor, key: Tensor) -> Tensor:
        return self.one.allows_heads(sequence, heads, query, key) & self.two.allows_heads(sequence, heads, query, key)


@dataclass(frozen=True, eq=False)
class Or(Mask):
    """Either mask allows."""

    one: Mask
    two: Mask

    def allows(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.one.allows(sequence, query, key) | self.two.allows(sequence, query, key)

    def all_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        return self.one.all_allowed(q_lo, q_hi, k_lo, k_hi) | self.two.all_allowed(q_lo, q_hi, k_lo, k_hi)

    def any_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        return self.one.any_allowed(q_lo, q_hi, k_lo, k_hi) | self.two.any_allowed(q_lo, q_hi, k_lo, k_hi)

    @property
    def band(self) -> tuple[Limit, Limit]:
        (l1, r1), (l2, r2) = self.one.band, self.two.band
        return _wider(l1, l2), _wider(r1, r2)

    @property
    def per_head(self) -> bool:
        return self.one.per_head or self.two.per_head

    def of_head(self, sequence: int, head: int | None) -> Mask:
        return Or(self.one.of_head(sequence, head), self.two.of_head(sequence, head))

    def allows_heads(self, sequence: int, heads: range, query: Tensor, key: Tensor) -> Tensor:
        return self.one.allows_heads(sequence, heads, query, key) | self.two.allows_heads(sequence, heads, query, key)


def _narrower(a: Limit, b: Limit) -> Limit:
    return b if a is None else a if b is None else min(a, b)


def _wider(a: Limit, b: Limit) -> Limit:
    return None if a is None or b is None else max(a, b)


# A traced graph holds tensors and strings, not objects: a mask enters an operator as a string and tensors.


def serialize(mask: Mask) -> tuple[str, list[Tensor]]:
    """A built-in mask as a string in prefix notation, and the per-sequence tensors it uses, in order."""
    match mask:
        case Full():
            return "full", []
        case Causal():
            return "causal", []
        case Window():
            return f"window {mask.left} {mask.right}", []
        case Global():
            if isinstance(mask.first, Tensor):
                return "global_each", [mask.first]
            return f"global {mask.first}", []
        case Prefix():
            return "prefix", [mask.lengths]
        case DenseMask():
            return "explicit", [mask.grid]
        case And() | Or():
            (a, first), (b, second) = serialize(mask.one), serialize(mask.two)
            return f"{'and' if isinstance(mask, And) else 'or'} {a} {b}", first + second
        case _:
            raise ValueError(
                f"{type(mask).__name__} is a custom mask and cannot enter a compiled graph: "
                "combine the built-in masks, or run the model without torch.compile"
            )


def cache_key(mask: Mask) -> Hashable:
    """Equal for masks that are known to be the same, so that cached results can be shared."""
    try:
        words, data = serialize(mask)
    except ValueError:
        return id(mask)
    return id(mask) if data else words


def shared_key(mask: Mask) -> Hashable | None:
    """Equal for masks that are known to be the same, also in parts; None where that is not known."""
    if isinstance(mask, (And, Or)):
        keys = shared_key(mask.one), shared_key(mask.two)
        return None if None in keys else (type(mask).__name__, *keys)
    own = cache_key(mask)
    return mask.key if mask.key is not None else own if isinstance(own, str) else None


def deserialize(words: str, tensors: list[Tensor]) -> Mask:
    """The mask that `serialize` returned."""
    stream, data = iter(words.split()), iter(tensors)

    def read() -> Mask:
        match next(stream):
            case "full":
                return Full()
            case "causal":
                return Causal()
            case "window":
                return Window(int(next(stream)), int(next(stream)))
            case "global":
                return Global(int(next(stream)))
            case "global_each":
                return Global(next(data))
            case "prefix":
                return Prefix(next(data))
            case "explicit":
                return DenseMask(next(data))
            case "and":
                return And(read(), read())
            case "or":
                return Or(read(), read())
            case word:
                raise ValueError(f"{word!r} is not a mask")

    return read()
