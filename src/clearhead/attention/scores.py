"""Scores: how well a query matches a key. Several kinds with one interface.

A score first prepares the token matrices once per call (`prepare`), and then rates pairs. Where the
rating is a scaled dot product, `scale` says so and every kernel can take it; otherwise `scale` is
None and `pair` computes a tile.
"""

import math

import torch
from torch import Tensor, nn


class Score(nn.Module):
    """The interface of a score; this one is the plain dot product (Luong et al. 2015, section 3.1, "dot")."""

    def scale(self, head_dim: int) -> float | None:
        """The factor of q·k that fused kernels apply; None: the score is no scaled dot product."""
        return 1.0

    def prepare(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Project queries (N, H, K) and keys (M, H, K) once, before pairs are scored."""
        return q, k

    def pair(self, q: Tensor, k: Tensor, heads: slice = slice(None)) -> Tensor:
        """Score prepared queries (..., h, T, K) against keys (..., h, S, K) of these heads: (..., h, T, S)."""
        scale = self.scale(q.shape[-1])
        assert scale is not None
        return (q * scale) @ k.transpose(-1, -2)


class Dot(Score):
    """q·k (Luong et al. 2015, "dot")."""


class ScaledDot(Score):
    """q·k / sqrt(d), so that the score's variance does not grow with the width (Vaswani et al. 2017, section 3.2.1)."""

    def __init__(self, scale: float | None = None) -> None:
        super().__init__()
        self._scale = scale

    def scale(self, head_dim: int) -> float | None:
        return 1.0 / math.sqrt(head_dim) if self._scale is None else self._scale

    def extra_repr(self) -> str:
        return "1/sqrt(head_dim)" if self._scale is None else f"{self._scale}"


class SoftCapped(ScaledDot):
    """cap · tanh(scaled q·k / cap): scores stay within ±cap (Bello et al. 2016; Gemma 2, section 2)."""

    def __init__(self, cap: float, scale: float | None = None) -> None:
        super().__init__(scale)
        self.cap = cap

    def scale(self, head_dim: int) -> float | None:
        return None

    def pair(self, q: Tensor, k: Tensor, heads: slice = slice(None)) -> Tensor:
        factor = super().scale(q.shape[-1])
        assert factor is not None
        return torch.tanh((q * factor) @ k.transpose(-1, -2) / self.cap) * self.cap

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, cap={self.cap}"


class General(Score):
    """q·W·k, for queries and keys of different widths (Luong et al. 2015, "general")."""

    def __init__(self, num_heads: int, query_dim: int, key_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_heads, query_dim, key_dim))
        nn.init.uniform_(self.weight, -1 / math.sqrt(query_dim), 1 / math.sqrt(query_dim))

    def prepare(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return torch.einsum("nhq,hqk->nhk", q, self.weight), k


class Additive(Score):
    """w·tanh(W_q q + W_k k), the first attention (Bahdanau et al. 2015, section 3.1 and appendix A.1.2)."""

    def __init__(self, num_heads: int, query_dim: int, key_dim: int, hidden: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(num_heads, query_dim, hidden))
        self.key = nn.Parameter(torch.empty(num_heads, key_dim, hidden))
        self.weight = nn.Parameter(torch.empty(num_heads, hidden))
        for parameter, fan_in in ((self.query, query_dim), (self.key, key_dim), (self.weight, hidden)):
            nn.init.uniform_(parameter, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def scale(self, head_dim: int) -> float | None:
        return None

    def prepare(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return torch.einsum("nhq,hqd->nhd", q, self.query), torch.einsum("nhk,hkd->nhd", k, self.key)

    def pair(self, q: Tensor, k: Tensor, heads: slice = slice(None)) -> Tensor:
        mixed = torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3))  # (..., h, T, S, hidden)
        return torch.einsum("...htsd,hd->...hts", mixed, self.weight[heads].to(q.dtype))
