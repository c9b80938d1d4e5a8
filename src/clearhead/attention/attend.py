"""Attend: attention as one function with exchangeable parts."""

from torch import Tensor

from clearhead.attention.biases import Bias
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels import KERNELS, choose
from clearhead.attention.layout import Layout
from clearhead.attention.masks import Full, Mask
from clearhead.attention.scores import ScaledDot, Score

_FULL = Full()
_SCALED_DOT = ScaledDot()


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
    """softmax(score(q, k) + bias)·v within each sequence, (N, H, V).

    Queries are (N, H, K), keys (M, G, K) and values (M, G, V), the tokens of all sequences concatenated; G divides H.
    Sequence i of the queries attends to sequence i of the keys. A query whose mask allows no key gives 0. Only the
    output is returned: for the weights, see `look`.
    """
    q, k = score.prepare(q, k)
    return dispatch(AttentionInputs(q, k, v, layout_q, layout_k, mask, score, bias), dropout, kernel)


def dispatch(inputs: AttentionInputs, dropout: float = 0.0, kernel: str = "auto") -> Tensor:
    """Run the inputs on the named kernel, or on the one `auto` chooses."""
    inputs.check()
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout is {dropout}: it must be a probability, at least 0 and below 1")
    return KERNELS[choose(inputs, dropout, kernel)].run(inputs, dropout)
