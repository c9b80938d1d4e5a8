"""Heard: one call of a live attention, kept by reference, and the view that is made of it when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.attention import Call, Causal, Explicit, Full, Layout, Mask, ScaledDot, View
from clearhead.attention.biases import Written
from clearhead.attention.look import Site
from clearhead.attention.scores import Capped


@dataclass(frozen=True, eq=False)
class Heard:
    """The tensors that a kernel got, and the rules for them.

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
    def of(site: Site, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, options: Mapping[str, Any]) -> Heard:
        """Keep what an attention hands to its kernel."""
        if options.get("cache") is not None:
            raise ValueError("continuous batching keeps its keys inside the kernel: look at a plain `generate` instead")
        causal, bias = options.get("is_causal"), options.get("position_bias")
        return Heard(
            site=site,
            q=q.detach(),
            k=k.detach(),
            v=v.detach(),
            mask=None if mask is None else mask.detach(),
            bias=None if bias is None else bias.detach(),
            kernel=implementation(site.module),
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


def implementation(module: nn.Module) -> str:
    """The name of the kernel that a live attention asks for."""
    return getattr(getattr(module, "config", None), "_attn_implementation", None) or "eager"
