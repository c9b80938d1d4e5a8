"""Performer: softmax attention by random features, linear in the length (Choromanski et al. 2021)."""

import itertools

import torch
from torch import Tensor

from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.masks import Causal, Full
from clearhead.attention.method import AttentionMethod, at_least
from clearhead.attention.weights import Which

CHUNK = 128  # tokens of causal attention that are computed at once


class Performer(AttentionMethod):
    """Positive orthogonal random features (FAVOR+, section 2): exp(q·k) is the mean of products of features.

    The error falls with the root of the number of `features`. Causal attention runs in chunks with a running sum.
    """

    kind = "performer"

    def __init__(self, *, features: int = 256, seed: int = 0) -> None:
        super().__init__()
        at_least(1, features=features)
        at_least(0, seed=seed)
        self.features, self.seed = features, seed
        self._directions: dict[tuple[int, torch.dtype], Tensor] = {}

    def forward(self, inputs: AttentionInputs, dropout: float = 0.0) -> Tensor:
        """The output, (N, H, V). Dropout is not applied: no weight is ever computed."""
        self.check(inputs)
        outputs = [inputs.zeros_with_grad(0)]
        for sequence in range(inputs.layout_q.num_sequences):
            q, k = self.exponents(inputs, sequence, slice(None))
            v = inputs.heads_of(sequence)[2]
            if not q.shape[1] or not k.shape[1]:
                outputs.append(inputs.zeros_with_grad(q.shape[1]))
            elif isinstance(inputs.mask, Causal):
                outputs.append(_causal(q, k, v.to(q.dtype), _offset(inputs, sequence)).transpose(0, 1).to(v.dtype))
            else:
                q, k = _exp(q, (2,)), _exp(k, (1, 2))
                sums = q @ k.sum(1).unsqueeze(2)  # (H, T, 1)
                outputs.append(_divide(q @ (k.transpose(1, 2) @ v.to(k.dtype)), sums).transpose(0, 1).to(v.dtype))
        return torch.cat(outputs)

    @torch.no_grad()
    def rows(self, inputs: AttentionInputs, sequence: int, head: int, queries: Which) -> Tensor:
        self.check(inputs)
        q, k = self.exponents(inputs, sequence, slice(head, head + 1))
        q, k = q[0, queries].double(), k[0].double()  # one factor for all keys: float32 could lose early ones
        weights = _exp(q, (1,)) @ _exp(k, (0, 1)).T
        if isinstance(inputs.mask, Causal):
            count = inputs.layout_q.host_lengths[sequence]
            last = torch.arange(count, device=q.device)[queries] + _offset(inputs, sequence)
            weights = weights.masked_fill(torch.arange(len(k), device=q.device) > last.unsqueeze(1), 0.0)
        dtype = torch.promote_types(inputs.q.dtype, torch.float32)
        return _divide(weights, weights.sum(1, keepdim=True)).to(dtype)

    def check(self, inputs: AttentionInputs) -> None:
        """Raise a ValueError for attention that this method cannot compute."""
        if not isinstance(inputs.mask, (Full, Causal)):
            raise ValueError(
                f"performer attention never computes single weights, so it has no {type(inputs.mask).__name__} mask: "
                "use it with full or causal attention, or choose lsh or a sparse method"
            )
        inputs.require_dot_products(self.kind)

    def exponents(self, inputs: AttentionInputs, sequence: int, heads: slice) -> tuple[Tensor, Tensor]:
        """ω·x - ‖x‖²/2 of queries and keys, whose exponentials are the features: (H, T, m), (H, S, m).

        In float32 or better.
        """
        dtype = torch.promote_types(inputs.q.dtype, torch.float32)
        scale = inputs.require_dot_products(self.kind) ** 0.5
        q, k = (x[heads].to(dtype) * scale for x in inputs.heads_of(sequence)[:2])
        directions = self.directions(q.shape[2], dtype).to(q.device)
        return tuple(x @ directions - x.square().sum(2, keepdim=True) / 2 for x in (q, k))  # type: ignore[return-value]

    def directions(self, width: int, dtype: torch.dtype) -> Tensor:
        """Random directions, (width, features), orthogonal in groups of `width`, as long as Gaussian vectors."""
        if (width, dtype) not in self._directions:
            generator = torch.Generator().manual_seed(self.seed)
            groups = [
                torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64)).Q.T
                for _ in range(-(-self.features // width))
            ]
            lengths = torch.randn(self.features, width, generator=generator, dtype=torch.float64).norm(dim=1)
            self._directions[width, dtype] = (torch.cat(groups)[: self.features] * lengths.unsqueeze(1)).T.to(dtype)
        return self._directions[width, dtype]


def _causal(q: Tensor, k: Tensor, v: Tensor, offset: int) -> Tensor:
    """Causal attention by chunks, (H, T, V), from exponents: query t reads keys up to t + offset.

    The running sum is scaled to the largest feature so far: a large key hides no token before it.
    """
    heads, features = q.shape[0], q.shape[2]
    state, total = v.new_zeros(heads, features, v.shape[2]), v.new_zeros(heads, features, 1)
    largest = v.new_full((heads, 1, 1), float("-inf"))
    outputs: list[Tensor] = []
    edges = [0, *range(offset, k.shape[1], CHUNK), k.shape[1]]
    for lo, hi in itertools.pairwise(edges):
        chunk_k, chunk_v = k[:, lo:hi], v[:, lo:hi]
        if lo == hi:
            continue
        more = torch.maximum(largest, chunk_k.detach().amax((1, 2), keepdim=True))
        shrink, largest = (largest - more).exp(), more
        state, total, chunk_k = state * shrink, total * shrink, (chunk_k - more).exp()
        if lo >= offset:
            chunk_q = _exp(q[:, lo - offset : hi - offset], (2,))
            weights = (chunk_q @ chunk_k.transpose(1, 2)).tril()
            sums = weights.sum(2, keepdim=True) + chunk_q @ total
            outputs.append(_divide(weights @ chunk_v + chunk_q @ state, sums))
        state, total = state + chunk_k.transpose(1, 2) @ chunk_v, total + chunk_k.sum(1).unsqueeze(2)
    return torch.cat(outputs, dim=1)


def _exp(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """exp(x) up to a factor that cancels: the largest over `axes` is 1."""
    return (x - x.detach().amax(axes, keepdim=True)).exp() if x.numel() else x


def _divide(x: Tensor, sums: Tensor) -> Tensor:
    return x / sums.clamp(min=torch.finfo(sums.dtype).tiny)


def _offset(inputs: AttentionInputs, sequence: int) -> int:
    """How many keys come before the first query: those of a cache."""
    offset = inputs.layout_q.host_starts[sequence] - inputs.layout_k.host_starts[sequence]
    if offset < 0:
        raise ValueError(f"sequence {sequence} has queries before its first key: causal performer attention reads none")
    return offset
