"""Multi-head attention: project, attend with several heads at once, project back (Vaswani et al. 2017, 3.2.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from clearhead.attention.attend import dispatch
from clearhead.attention.biases import Bias
from clearhead.attention.cache import Store
from clearhead.attention.call import Call
from clearhead.attention.layout import Layout
from clearhead.attention.masks import Full, Mask
from clearhead.attention.project import project
from clearhead.attention.scores import ScaledDot, Score

Kind = Literal["self", "cross"]
Rotate = Callable[[Tensor], Tensor]
"""The queries or keys (N, heads, K) of a layout to the same shape: rotary positions come in as this."""


class Core(nn.Module):
    """The attention itself, between the projections: where `look` listens and `without` switches heads off."""

    def __init__(
        self, kind: Kind = "self", score: Score | None = None, dropout: float = 0.0, kernel: str = "auto"
    ) -> None:
        super().__init__()
        self.kind: Kind = kind
        self.score = ScaledDot() if score is None else score
        self.dropout = dropout
        self.kernel = kernel

    def forward(self, call: Call) -> Tensor:
        """What each query gathers, (N, H, V)."""
        return dispatch(call, self.dropout if self.training else 0.0, self.kernel)

    def extra_repr(self) -> str:
        return f"{self.kind}, dropout={self.dropout}, kernel={self.kernel}"


class MultiHead(nn.Module):
    """Attention of tokens (N, D) over themselves, or over a context (M, D') of other tokens.

    With fewer key heads than query heads it is grouped-query attention (Ainslie et al. 2023). `norms` are applied to
    the queries and keys of each head (Henry et al. 2020); `output_bias` is as `bias` unless given.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        context_width: int | None = None,
        bias: bool = True,
        output_bias: bool | None = None,
        norms: tuple[nn.Module, nn.Module] | None = None,
        core: Core | None = None,
    ) -> None:
        super().__init__()
        kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if head_dim is None and width % num_heads:
            raise ValueError(f"width {width} does not divide into {num_heads} heads: change one, or give head_dim")
        if kv_heads < 1 or num_heads % kv_heads:
            raise ValueError(f"{num_heads} query heads cannot share {kv_heads} key heads evenly")
        self.head_dim = head_dim if head_dim is not None else width // num_heads
        context = width if context_width is None else context_width
        self.query = nn.Linear(width, num_heads * self.head_dim, bias=bias)
        self.key = nn.Linear(context, kv_heads * self.head_dim, bias=bias)
        self.value = nn.Linear(context, kv_heads * self.head_dim, bias=bias)
        self.output = nn.Linear(num_heads * self.head_dim, width, bias=bias if output_bias is None else output_bias)
        self.query_norm, self.key_norm = (None, None) if norms is None else norms
        self.core = Core() if core is None else core

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        *,
        context: Tensor | None = None,
        context_layout: Layout | None = None,
        mask: Mask | None = None,
        rotate: Rotate | None = None,
        bias: Bias | None = None,
        cache: Store | None = None,
        layer: int = 0,
        add: Tensor | None = None,
    ) -> Tensor:
        """Attend from `x` to itself, or to `context` where given; with a cache, to all that it holds: (N, D).

        `add` (N, D) is added to the result: a residual, in the same pass where that is faster.
        """
        q = project(self.query, x).unflatten(1, (-1, self.head_dim))  # (N, H, K)
        q = q if self.query_norm is None else self.query_norm(q)
        q = q if rotate is None else rotate(q)
        if cache is not None and context is not None and cache.holds(layer):  # a context is written once and read after
            k, v = cache.read(layer)
            layout_k = cache.layout
        else:
            source = x if context is None else context
            layout_k = layout if context_layout is None else context_layout
            k = project(self.key, source).unflatten(1, (-1, self.head_dim))  # (M, G, K)
            v = project(self.value, source).unflatten(1, (-1, self.head_dim))
            k = k if self.key_norm is None else self.key_norm(k)
            k = k if rotate is None else rotate(k)
            if cache is not None:
                k, v = cache.write(layer, k, v)
                layout_k = cache.layout
        q, k = self.core.score.prepare(q, k)
        call = Call(q, k, v, layout, layout_k, Full() if mask is None else mask, self.core.score, bias)
        return project(self.output, self.core(call).flatten(1), add=add)
