"""A captured attention call: its tensors, held by reference, and the attention map computed from them on request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.attention import AttentionInputs, AttentionMap, Causal, DenseMask, Full, Layout, Mask, ScaledDot
from clearhead.attention.biases import DenseBias
from clearhead.attention.capture.sites import Site
from clearhead.attention.scores import SoftCapped


@dataclass(frozen=True, eq=False)
class CapturedCall:
    """The arguments of one kernel call.

    Padding is included, as in the model's batch: padded positions are rows and columns of the map. A row that a boolean
    mask hides completely is 0, as in SDPA (with a position bias SDPA spreads it over all keys); an additive mask of
    large negative numbers is added, and spreads such a row as the kernel does.
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
    versions: tuple[int, ...]
    packed: AttentionInputs | None = None  # of the implementation "clearhead": without padding

    @staticmethod
    def of(
        site: Site, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, options: Mapping[str, Any]
    ) -> CapturedCall:
        """Captures the arguments that an attention module passes to its kernel."""
        if options.get("cache") is not None:
            raise ValueError("continuous batching keeps its keys inside the kernel: capture a plain `generate` instead")
        causal, bias = options.get("is_causal"), options.get("position_bias")
        kernel, packed = implementation(site.module), None
        if kernel == "clearhead":
            from clearhead.integrations.transformers.attention import attention_inputs  # imports transformers

            packed = attention_inputs(site.module, q.detach(), k.detach(), v.detach(), mask, options)
        return CapturedCall(
            site=site,
            q=q.detach(),
            k=k.detach(),
            v=v.detach(),
            mask=None if mask is None else mask.detach(),
            bias=None if bias is None else bias.detach(),
            kernel=kernel,
            causal=bool(getattr(site.module, "is_causal", True) if causal is None else causal),
            scale=options.get("scaling"),
            cap=options.get("softcap"),
            versions=(_version(q), _version(k), _version(v)),
            packed=packed,
        )

    def view(self) -> AttentionMap:
        """Returns the attention map of the call: views of the same memory, except keys and values from a cache."""
        if self.versions != (_version(self.q), _version(self.k), _version(self.v)):
            raise LookupError(
                "the keys of this call have been overwritten since, as a static cache does: "
                "read the map right after each step, or generate with the default cache"
            )
        if self.packed is not None:
            return AttentionMap(self.packed.check(), self.site.kind, self.kernel, self._output())
        (B, H, T, _), S, first = self.q.shape, self.k.shape[2], self._first()
        if self._is_causal_sdpa:
            S = min(S, T)  # the rest of a static cache is empty
        mask, bias = self._mask_and_bias(first)
        call = AttentionInputs(
            q=_to_rows(self.q),
            k=_to_rows(self.k[:, :, :S]),
            v=_to_rows(self.v[:, :, :S]),
            layout_q=Layout.from_lengths([T] * B, [first] * B, self.q.device),
            layout_k=Layout.uniform(B, S, self.q.device),
            mask=mask,
            score=ScaledDot(self.scale) if self.cap is None else SoftCapped(self.cap, self.scale),
            bias=None if bias is None else DenseBias(_collapse_broadcast(bias), H, first),
        )
        return AttentionMap(call.check(), self.site.kind, self.kernel, self._output())

    def _output(self) -> Tensor | None:
        """Returns the weight of the output projection, where it fits the heads."""
        output = self.site.output
        return output if output is not None and output.shape[1] == self.q.shape[1] * self.v.shape[3] else None

    def _mask_and_bias(self, first: int) -> tuple[Mask, Tensor | None]:
        if self.mask is None:
            return Causal() if self._is_causal_sdpa else Full(), self.bias
        mask = _collapse_broadcast(self.mask)
        if mask.dtype == torch.bool:
            if mask.shape[1] == 1:
                return _ShiftedMask(mask[:, 0], first), self.bias
            mask = torch.where(mask, 0.0, float("-inf"))
        return Full(), mask if self.bias is None else mask + self.bias

    @property
    def _is_causal_sdpa(self) -> bool:
        """Whether SDPA masks future keys itself: in a causal module without a mask and with more than one query."""
        return self.mask is None and self.causal and self.q.shape[2] > 1 and self.kernel != "eager"

    def _first(self) -> int:
        """Returns the position of the first query among the keys: with a cache, queries are its newest tokens."""
        T, S = self.q.shape[2], self.k.shape[2]
        if self.site.kind == "cross" or S <= T or self._is_causal_sdpa:
            return 0
        if self.mask is None:
            return S - T
        last = _collapse_broadcast(self.mask)[:, :, -1].flatten(0, 1)  # (b h, S): keys visible to the last query
        visible = (last if last.dtype == torch.bool else last > torch.finfo(last.dtype).min / 2).any(0).nonzero()
        return max(0, int(visible.max()) + 1 - T) if len(visible) else S - T


@dataclass(frozen=True, eq=False)
class _ShiftedMask(DenseMask):
    """A dense mask whose first row is for the query at position `first`."""

    first: int = 0

    def allows(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return super().allows(sequence, query - self.first, key)


def _version(x: Tensor) -> int:
    """Returns the version counter of a tensor: the number of in-place writes."""
    return 0 if x.is_inference() else x._version


def _to_rows(x: Tensor) -> Tensor:
    """Returns (B, H, T, K) as token rows, (B T, H, K)."""
    return x.transpose(1, 2).flatten(0, 1)


def _collapse_broadcast(x: Tensor) -> Tensor:
    """Returns a 4-dimensional view with broadcast dimensions (stride 0) reduced to size 1."""
    x = x[(None,) * (4 - x.dim())]
    return x[tuple(slice(1) if stride == 0 else slice(None) for stride in x.stride())]


def implementation(module: nn.Module) -> str:
    return getattr(getattr(module, "config", None), "_attn_implementation", None) or "eager"
