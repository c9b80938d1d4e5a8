"""Gated linear attention: a recurrent state in place of all earlier keys (Yang et al. 2024)."""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.masks import Causal
from clearhead.attention.method import AttentionMethod, at_least
from clearhead.attention.weights import Which

TEMPERATURE = 16.0  # gates are roots of sigmoids, near 1 (section 4.4)
MIN_LOG = -20.0  # of a sigmoid: what is multiplied within a chunk stays finite in float32
START = 4.0  # bias of the gates before training
EPS = 1e-6


class GatedLinear(AttentionMethod):
    """S ← diag(gate) S + k vᵀ and output qᵀ S: a state of fixed size that forgets, channel by channel.

    The gates of a token are computed from its key, by one learned matrix for all heads; the output of each head is
    divided by its root mean square. There is no softmax: a trained softmax model has to learn this attention first.
    Only causal attention can be computed this way. Texts run in chunks; `step` is the same for one token.
    """

    kind = "gated_linear"

    def __init__(self, *, head_dim: int, chunk: int = 32) -> None:
        super().__init__()
        at_least(1, head_dim=head_dim, chunk=chunk)
        if chunk > 64:
            raise ValueError(f"chunk is {chunk}: products of more than 64 gates leave the range of float32")
        self.head_dim, self.chunk = head_dim, chunk
        self.weight = nn.Parameter(torch.randn(head_dim, head_dim) * 0.1 / head_dim**0.5)
        self.bias = nn.Parameter(torch.full((head_dim,), START))

    def forward(self, inputs: AttentionInputs, dropout: float = 0.0) -> Tensor:
        """The output, (N, H, V). Dropout is not applied: no weight is ever computed."""
        self.check(inputs)
        outputs = [inputs.zeros_with_grad(0)]
        for sequence in range(inputs.layout_q.num_sequences):
            q, k, v, gates = self.tensors(inputs, sequence)
            outputs.append(self.chunked(q, k, v, gates).transpose(0, 1))
        return torch.cat(outputs)

    def chunked(self, q: Tensor, k: Tensor, v: Tensor, gates: Tensor) -> Tensor:
        """The output (H, T, V) for the last T keys; queries (H, T, K), keys, values and log gates (H, S, ...)."""
        past = k.shape[1] - q.shape[1]
        state, outputs = v.new_zeros(v.shape[0], k.shape[2], v.shape[2]), [q.new_zeros(q.shape[0], 0, v.shape[2])]
        edges = [*range(0, past, self.chunk), *range(past, k.shape[1], self.chunk), k.shape[1]]
        for lo, hi in itertools.pairwise(edges):
            decay = gates[:, lo:hi].cumsum(1)  # (H, C, K), of a token since the start of the chunk
            last, chunk_k, chunk_v = decay[:, -1:], k[:, lo:hi], v[:, lo:hi]
            if lo >= past:
                chunk_q = q[:, lo - past : hi - past] * decay.exp()
                weights = (chunk_q @ (chunk_k * (-decay).exp()).transpose(1, 2)).tril()
                outputs.append(_normalized(weights @ chunk_v + chunk_q @ state))
            state = state * last.exp().transpose(1, 2) + (chunk_k * (last - decay).exp()).transpose(1, 2) @ chunk_v
        return torch.cat(outputs, dim=1)

    def step(self, state: Tensor, q: Tensor, k: Tensor, v: Tensor, gates: Tensor) -> tuple[Tensor, Tensor]:
        """The output (H, V) and the next state of one token; state (H, K, V), log gates (H, K)."""
        state = state * gates.exp().unsqueeze(2) + k.unsqueeze(2) * v.unsqueeze(1)
        return _normalized((q.unsqueeze(1) @ state).squeeze(1)), state

    @torch.no_grad()
    def rows(self, inputs: AttentionInputs, sequence: int, head: int, queries: Which) -> Tensor:
        self.check(inputs)
        q, k, v, gates = (x[head].double() for x in self.tensors(inputs, sequence))
        decay = gates.cumsum(0)  # (S, K)
        at = torch.arange(len(q), device=q.device)[queries] + len(k) - len(q)
        result = q.new_zeros(len(at), len(k))
        for row, (query, last) in enumerate(zip(q[queries], at.tolist(), strict=True)):
            result[row, : last + 1] = (k[: last + 1] * (decay[last] - decay[: last + 1]).exp()) @ query
        size = (result @ v).square().mean(1, keepdim=True).add(EPS).sqrt()
        return (result / size).to(torch.promote_types(inputs.q.dtype, torch.float32))

    def check(self, inputs: AttentionInputs) -> None:
        """Raise a ValueError for attention that this method cannot compute."""
        if not isinstance(inputs.mask, Causal) or inputs.layout_q.end != inputs.layout_k.end:
            raise ValueError(
                "gated linear attention reads a text from left to right: use it in decoders, with a causal mask"
            )
        inputs.require_dot_products("gated linear")
        if inputs.k.shape[2] != self.head_dim:
            raise ValueError(f"head_dim is {self.head_dim}, but the heads of this attention have {inputs.k.shape[2]}")

    def tensors(self, inputs: AttentionInputs, sequence: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Scaled queries (H, T, K), keys, values and log gates (H, S, ...) of a sequence."""
        q, k, v = inputs.heads_of(sequence)
        gates = F.logsigmoid(F.linear(k, self.weight, self.bias)).clamp(min=MIN_LOG) / TEMPERATURE
        return q * inputs.require_dot_products("gated linear"), k, v, gates


def _normalized(x: Tensor) -> Tensor:
    return x / x.square().mean(-1, keepdim=True).add(EPS).sqrt()
