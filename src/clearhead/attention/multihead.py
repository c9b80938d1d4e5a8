"""Multi-head attention: project, attend with several heads at once, project back (Vaswani et al. 2017, 3.2.2)."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from clearhead.attention.attend import dispatch
from clearhead.attention.biases import Bias
from clearhead.attention.fused_linear import linear
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels import choose
from clearhead.attention.kv_cache import KeyValueStore
from clearhead.attention.layout import Layout
from clearhead.attention.masks import Full, Mask
from clearhead.attention.method import AttentionMethod
from clearhead.attention.scores import ScaledDot, Score

AttentionKind = Literal["self", "cross"]
RotateFn = Callable[[Tensor], Tensor]
"""Rotates queries or keys (N, heads, K): rotary positions."""


class AttentionCore(nn.Module):
    """The attention between the projections: `look` and `ablate_heads` hook this module.

    It is exact attention on a kernel, unless a method (see `clearhead.efficient`) replaces it.
    """

    def __init__(
        self,
        kind: AttentionKind = "self",
        score: Score | None = None,
        dropout: float = 0.0,
        kernel: str = "auto",
        method: AttentionMethod | None = None,
    ) -> None:
        super().__init__()
        self.kind: AttentionKind = kind
        self.score = ScaledDot() if score is None else score
        self.dropout = dropout
        self.kernel = kernel
        self.method = method

    def forward(self, inputs: AttentionInputs) -> Tensor:
        if self.method is not None:
            return self.method(inputs.check(), self._active_dropout)
        return dispatch(inputs, self._active_dropout, self.kernel)

    def kernel_for(self, inputs: AttentionInputs) -> str:
        """The name of the kernel, or the kind of the method, that `forward` runs for these inputs."""
        if self.method is not None:
            return self.method.kind
        return choose(inputs, self._active_dropout, self.kernel)

    @property
    def _active_dropout(self) -> float:
        return self.dropout if self.training else 0.0

    def extra_repr(self) -> str:
        return f"{self.kind}, dropout={self.dropout}, kernel={self.kernel}"


class MultiHead(nn.Module):
    """Self-attention of tokens (N, D), or cross-attention to a context (M, D').

    With fewer key heads than query heads it is grouped-query attention (Ainslie et al. 2023). `norms` are applied to
    the queries and keys of each head (Henry et al. 2020); `output_bias` defaults to `bias`.
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
        core: AttentionCore | None = None,
    ) -> None:
        super().__init__()
        kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if head_dim is None and width % num_heads:
            raise ValueError(f"width {width} is not a multiple of {num_heads} heads: change one, or set head_dim")
        if kv_heads < 1 or num_heads % kv_heads:
            raise ValueError(f"{num_heads} query heads are not a multiple of {kv_heads} key heads")
        self.head_dim = head_dim if head_dim is not None else width // num_heads
        context = width if context_width is None else context_width
        self.query = nn.Linear(width, num_heads * self.head_dim, bias=bias)
        self.key = nn.Linear(context, kv_heads * self.head_dim, bias=bias)
        self.value = nn.Linear(context, kv_heads * self.head_dim, bias=bias)
        self.output = nn.Linear(num_heads * self.head_dim, width, bias=bias if output_bias is None else output_bias)
        self.query_norm, self.key_norm = (None, None) if norms is None else norms
        self.core = AttentionCore() if core is None else core

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        *,
        context: Tensor | None = None,
        context_layout: Layout | None = None,
        mask: Mask | None = None,
        rotate: RotateFn | None = None,
        bias: Bias | None = None,
        global_tokens: Tensor | None = None,
        cache: KeyValueStore | None = None,
        layer: int = 0,
        add: Tensor | None = None,
    ) -> Tensor:
        """Attend from `x` to itself, or to `context` if given; with a cache, to all cached tokens: (N, D).

        `add` (N, D), a residual, is added to the result, fused with the output projection where that is faster.
        """
        q = linear(self.query, x).unflatten(1, (-1, self.head_dim))  # (N, H, K)
        q = q if self.query_norm is None else self.query_norm(q)
        q = q if rotate is None else rotate(q)
        if cache is not None and context is not None and cache.holds(layer):  # a context is written once
            k, v = cache.read(layer)
            layout_k = cache.layout
        else:
            source = x if context is None else context
            layout_k = layout if context_layout is None else context_layout
            k = linear(self.key, source).unflatten(1, (-1, self.head_dim))  # (M, G, K)
            v = linear(self.value, source).unflatten(1, (-1, self.head_dim))
            k = k if self.key_norm is None else self.key_norm(k)
            k = k if rotate is None else rotate(k)
            if cache is not None:
                k, v = cache.write(layer, k, v)
                layout_k = cache.layout
        q, k = self.core.score.prepare(q, k)
        mask = Full() if mask is None else mask
        states = x if self.core.method is not None and self.core.method.reads_states else None
        inputs = AttentionInputs(q, k, v, layout, layout_k, mask, self.core.score, bias, global_tokens, states)
        return linear(self.output, self.core(inputs).flatten(1), add=add)
