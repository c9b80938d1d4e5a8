"""torch's FlashAttention operator for CPU tensors: its checks, its alignment, its windows and its dropout.

`torch.nn.attention.varlen` and its autograd formulas run above it unchanged. The checks and the arithmetic of windows
are those of aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from clearhead.attention.device_info import DeviceInfo


def check(holds: bool, message: str) -> None:
    if not holds:
        raise RuntimeError(message)


@dataclass
class EmulatedFlash:
    """The operator on a device of this capability. The other fields are mistakes, to see that tests find them."""

    sm: int = 80
    top_left: bool = False  # the first query is aligned with the first key
    shift: int = 0  # added to the position of every query
    row_shift: int = 0  # added to the offset of every sequence of keys but the first
    calls: int = 0

    def forward(
        self, q, k, v, offsets_q, offsets_k, max_q, max_k, dropout, causal, debug, *, scale=None,
        window_size_left: int = -1, window_size_right: int = -1, seqused_k=None, alibi_slopes=None, block_table=None,
        num_splits=None,
    ):  # fmt: skip
        self.calls += 1
        self._check(q, k, v, offsets_q, offsets_k, max_q)
        check(seqused_k is None and block_table is None and alibi_slopes is None, "not emulated")
        batch, window = len(offsets_q) - 1, self._window(causal, max_q, max_k, window_size_left, window_size_right)
        if max_q == 1 and q.shape[1] > k.shape[1] and window_size_left < 0 and window_size_right < 0 and not dropout:
            q.reshape(batch, k.shape[1], q.shape[1] // k.shape[1], q.shape[2])  # heads that share keys become queries
        seed = torch.randint(2**62, ())
        out, logsumexp = torch.zeros_like(q), torch.full((q.shape[1], len(q)), float("inf"))
        for i, (rows_q, rows_k) in enumerate(self._sequences(offsets_q, offsets_k)):
            scores, values = self._scores(q[rows_q], k[rows_k], window, scale), _wide(v[rows_k], q)
            weights = torch.softmax(scores, -1).nan_to_num(0.0)
            keep = keep_mask(weights, dropout, int(seed), i)
            out[rows_q] = torch.einsum("hts,shv->thv", weights * keep, values).to(q.dtype)
            sums = scores.logsumexp(-1)
            logsumexp[:, rows_q] = sums.masked_fill(sums == float("-inf"), float("inf"))
        state = torch.stack([seed, torch.zeros_like(seed)]).to(torch.uint64)
        return out, logsumexp, state, torch.zeros((), dtype=torch.uint64), q.new_zeros(0)

    def backward(
        self, grad, q, k, v, out, logsumexp, offsets_q, offsets_k, max_q, max_k, dropout, causal, rng_state, unused, *,
        scale=None, window_size_left: int = -1, window_size_right: int = -1,
    ):  # fmt: skip
        self.calls += 1
        self._check(q, k, v, offsets_q, offsets_k, max_q)
        width = q.shape[2]
        if self.sm in (86, 89, 120, 121):
            check(not (width > 192 and (width <= 224 or dropout > 0)), "too much shared memory")
        window = self._window(causal, max_q, max_k, window_size_left, window_size_right)
        dq, dk, dv = (torch.zeros(x.shape) for x in (q, k, v))
        for i, (rows_q, rows_k) in enumerate(self._sequences(offsets_q, offsets_k)):
            scores = self._scores(q[rows_q], k[rows_k], window, scale)
            weights = (scores - logsumexp[:, rows_q].unsqueeze(-1)).exp()  # (H, T, S)
            keep, g = keep_mask(weights, dropout, int(rng_state[0]), i), grad[rows_q].float()
            dweights = torch.einsum("thv,shv->hts", g, _wide(v[rows_k], q)) * keep
            mean = (g * out[rows_q].float()).sum(-1).T.unsqueeze(-1)  # (H, T, 1)
            dscores = weights * (dweights - mean) * (width**-0.5 if scale is None else scale)
            dq[rows_q] = torch.einsum("hts,shk->thk", dscores, _wide(k[rows_k], q))
            dk[rows_k] = _narrow(torch.einsum("hts,thk->shk", dscores, q[rows_q].float()), k)
            dv[rows_k] = _narrow(torch.einsum("hts,thv->shv", weights * keep, g), v)
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)

    def _check(self, q: Tensor, k: Tensor, v: Tensor, offsets_q: Tensor, offsets_k: Tensor, max_q: int) -> None:
        check(self.sm >= 80, "FlashAttention only supports Ampere GPUs or newer.")
        check(q.dtype in (torch.float16, torch.bfloat16), "FlashAttention only support fp16 and bf16 data type")
        check(q.dtype == k.dtype == v.dtype, "query, key and value must have the same dtype")
        check(offsets_q.dtype == offsets_k.dtype == torch.int32, "cu_seqlens must have dtype int32")
        check(offsets_q.is_contiguous() and offsets_k.is_contiguous(), "cu_seqlens must be contiguous")
        check(q.stride(-1) == k.stride(-1) == v.stride(-1) == 1, "Input tensor must have contiguous last dimension")
        check(len(offsets_q) > 1, "batch size must be positive")
        check(len(offsets_q) == len(offsets_k), "cu_seqlens_k must have shape (batch_size + 1)")
        check(len(offsets_q) <= 65_536 and max_q > 0, "CUDA error: invalid configuration argument")
        check(q.shape[2] <= 256, "FlashAttention forward only supports head dimension at most 256")
        check(q.shape[2] % 8 == 0, "head_size must be a multiple of 8")
        check(q.shape[1] % k.shape[1] == 0, "Number of heads in key/value must divide number of heads in query")
        check(k.shape == v.shape and q.shape[2] == k.shape[2], "shapes do not match")

    def _window(self, causal: bool, max_q: int, max_k: int, left: int, right: int) -> tuple[int, int]:
        right = 0 if causal and max_q > 1 else right
        return -1 if left >= max_k else left, -1 if right >= max_k else right

    def _sequences(self, offsets_q: Tensor, offsets_k: Tensor) -> Iterator[tuple[slice, slice]]:
        a, b = offsets_q.tolist(), offsets_k.tolist()
        b = [b[0], *(n + self.row_shift for n in b[1:])]
        for i in range(len(a) - 1):
            if a[i] < a[i + 1] and b[i] < b[i + 1]:
                yield slice(a[i], a[i + 1]), slice(b[i], b[i + 1])

    def _scores(self, q: Tensor, k: Tensor, window: tuple[int, int], scale: float | None) -> Tensor:
        """(H, T, S), -inf where masked; without a key all of a row."""
        scores = torch.einsum("thk,shk->hts", q.float(), _wide(k, q)) * (q.shape[2] ** -0.5 if scale is None else scale)
        T, S = scores.shape[1:]
        query = torch.arange(T).unsqueeze(1) + (0 if self.top_left else S - T) + self.shift
        distance, (left, right) = torch.arange(S) - query, window
        hidden = torch.zeros(T, S, dtype=torch.bool)
        hidden |= (distance < -left) if left >= 0 else False
        hidden |= (distance > right) if right >= 0 else False
        return scores.masked_fill(hidden, float("-inf"))


def _wide(x: Tensor, q: Tensor) -> Tensor:
    return x.float().repeat_interleave(q.shape[1] // x.shape[1], 1)


def _narrow(x: Tensor, like: Tensor) -> Tensor:
    return x.unflatten(1, (like.shape[1], -1)).sum(2)


def keep_mask(weights: Tensor, dropout: float, seed: int, sequence: int) -> Tensor:
    """What dropout multiplies the weights of a sequence with: eight random bits each, as the operator draws them."""
    if not dropout:
        return torch.ones_like(weights)
    drawn = torch.randint(256, weights.shape, generator=torch.Generator().manual_seed(seed + sequence))
    return (drawn <= int((1 - dropout) * 255)) / (1 - dropout)


def on_cuda(sm: int) -> DeviceInfo:
    return DeviceInfo("cuda", sm)


@contextmanager
def emulated_flash(sm: int = 80, **mistakes: Any) -> Iterator[EmulatedFlash]:
    """CPU tensors count as tensors on a GPU of this capability, and torch's flash operator computes on them."""
    flash = EmulatedFlash(sm, **mistakes)
    library = torch.library.Library("aten", "IMPL")
    library.impl("_flash_attention_forward", flash.forward, "CPU")
    library.impl("_flash_attention_backward", flash.backward, "CPU")
    try:
        with patch.object(DeviceInfo, "of", lambda device: on_cuda(sm)):
            yield flash
    finally:
        library._destroy()
