"""Attend: attention is one function with exchangeable parts."""

from __future__ import annotations

from torch import Tensor

from clearhead.attention.biases import Bias
from clearhead.attention.call import Call
from clearhead.attention.kernels import KERNELS, choose
from clearhead.attention.layout import Layout
from clearhead.attention.masks import Full, Mask
from clearhead.attention.scores import ScaledDot, Score

_FULL, _SCALED_DOT = Full(), ScaledDot()


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout_q: Layout,
    layout_k: Layout,
    *,
    mask: Mask = _FULL,
    score: Score = _SCALED_DOT,
    bias: Bias | None = None,
    dropout: float = 0.0,
    kernel: str = "auto",
) -> Tensor:
    """What each query gathers from the values of its sequence: softmax(score(q, k) + bias)·v, (N, H, V).

    Queries are (N, H, K), keys (M, G, K) and values (M, G, V), all tokens of all sequences one after
    another; G divides H. Sequence i of the queries attends to sequence i of the keys. A query that may
    attend to nothing gives 0. Only the output is returned: for the weights, see `look`.
    """
    q, k = score.prepare(q, k)
    return dispatch(Call(q, k, v, layout_q, layout_k, mask, score, bias), dropout, kernel)


def dispatch(call: Call, dropout: float = 0.0, kernel: str = "auto") -> Tensor:
    """Run a call on the named kernel, or on the one `auto` chooses."""
    call.check()
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout {dropout}: a probability from 0 up to, not including, 1")
    name = choose(call, dropout) if kernel == "auto" else kernel
    if name not in KERNELS:
        raise ValueError(f"there is no kernel {kernel!r}: choose auto, {', '.join(KERNELS)}")
    if kernel != "auto" and (reason := KERNELS[name].refuse(call, dropout)):
        raise ValueError(f"the {name} kernel cannot run this: {reason}; kernel='auto' finds one that can")
    return KERNELS[name].run(call, dropout)
