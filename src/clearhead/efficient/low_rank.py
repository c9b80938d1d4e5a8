"""Low-rank attention: keys and values are summed up to a fixed number of rows before queries read them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.masks import Full
from clearhead.attention.method import AttentionMethod, at_least
from clearhead.attention.weights import Which


class LowRank(AttentionMethod):
    """Attention of whole sequences without a mask, one sequence at a time."""

    def forward(self, inputs: AttentionInputs, dropout: float = 0.0) -> Tensor:
        self.check(inputs)
        outputs = [inputs.zeros_with_grad(0)]
        for sequence in range(inputs.layout_q.num_sequences):
            q, k, v = self.tensors(inputs, sequence)
            T, S = q.shape[1], k.shape[1]
            outputs.append(self.attend(q, k, v, dropout).transpose(0, 1) if S and T else inputs.zeros_with_grad(T))
        return torch.cat(outputs)

    @torch.no_grad()
    def rows(self, inputs: AttentionInputs, sequence: int, head: int, queries: Which) -> Tensor:
        self.check(inputs)
        dtype = torch.promote_types(inputs.q.dtype, torch.float32)
        q, k, _ = (x.to(dtype) for x in self.tensors(inputs, sequence))
        return self.weights(q, k, head, queries)

    def check(self, inputs: AttentionInputs) -> None:
        """Raise a ValueError for attention that this method cannot compute."""
        if not isinstance(inputs.mask, Full):
            raise ValueError(
                f"{self.kind} attention mixes all keys of a text, so it has no {type(inputs.mask).__name__} mask: "
                "use it in encoders, or choose performer, lsh or a sparse method"
            )
        inputs.require_dot_products(self.kind)

    def tensors(self, inputs: AttentionInputs, sequence: int) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, scaled, (H, T, K), keys (H, S, K) and values (H, S, V) of a sequence."""
        q, k, v = inputs.heads_of(sequence)
        return q * inputs.require_dot_products(self.kind), k, v

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """The output of one sequence, (H, T, V)."""
        raise TypeError(f"{type(self).__name__} defines no `attend`: implement it")

    def weights(self, q: Tensor, k: Tensor, head: int, queries: Which) -> Tensor:
        """The factors of all values for some queries of a head, (len, S)."""
        raise TypeError(f"{type(self).__name__} defines no `weights`: implement it")


class Linformer(LowRank):
    """Learned projections of the length to `rank` keys and values (Wang et al. 2020, section 4).

    A text of length S uses the first S rows of the projection, and of its columns the first rank · S / max_len. They
    start as means of neighbouring tokens: with rank = max_len, where this is the identity, attention is exact.
    `shared`: one projection for keys and values.
    """

    kind = "linformer"

    def __init__(self, *, rank: int = 256, max_len: int = 4096, shared: bool = True) -> None:
        super().__init__()
        at_least(1, rank=rank, max_len=max_len)
        self.rank, self.max_len, self.shared = min(rank, max_len), max_len, shared
        segment = torch.arange(max_len) * self.rank // max_len
        projection = F.one_hot(segment, self.rank).float()
        projection = projection / projection.sum(0)
        self.keys = nn.Parameter(projection)  # (max_len, rank)
        self.values = self.keys if shared else nn.Parameter(projection.clone())

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        S = k.shape[1]
        short_k = self.projection(self.keys, S).T.to(k.dtype) @ k  # (H, r, K)
        short_v = self.projection(self.values, S).T.to(v.dtype) @ v
        weights = torch.softmax(q @ short_k.transpose(1, 2), dim=-1)  # (H, T, r)
        return F.dropout(weights, dropout, training=dropout > 0) @ short_v

    def weights(self, q: Tensor, k: Tensor, head: int, queries: Which) -> Tensor:
        S = k.shape[1]
        short_k = self.projection(self.keys, S).T.to(k.dtype) @ k[head]
        weights = torch.softmax(q[head, queries] @ short_k.T, dim=-1)
        return weights @ self.projection(self.values, S).T.to(k.dtype)

    def projection(self, weight: Tensor, length: int) -> Tensor:
        """The part of a projection that a text of this length uses, (length, r)."""
        if length > self.max_len:
            raise ValueError(f"a text of {length} tokens, but this linformer attention has max_len {self.max_len}")
        return weight[:length, : -(-length * self.rank // self.max_len)]


class Nystrom(LowRank):
    """Attention by way of `landmarks`, the means of neighbouring queries and keys (Xiong et al. 2021, section 3).

    The inverse of the small matrix is found in `iterations` steps. A text of no more tokens than landmarks is exact.
    With `conv`, an odd number of tokens, a learned convolution of the values is added, of its own for each of
    `num_heads` heads (section 4.2).
    """

    kind = "nystrom"

    def __init__(self, *, landmarks: int = 64, iterations: int = 6, conv: int = 0, num_heads: int = 1) -> None:
        super().__init__()
        at_least(1, landmarks=landmarks, iterations=iterations, num_heads=num_heads)
        at_least(0, conv=conv)
        if conv and conv % 2 == 0:
            raise ValueError(f"conv is {conv}: it must be odd, a token and as many on each side")
        self.landmarks, self.iterations, self.conv, self.num_heads = landmarks, iterations, conv, num_heads
        self.taps = nn.Parameter(torch.zeros(num_heads, 1, conv, 1)) if conv else None

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        if max(q.shape[1], k.shape[1]) <= self.landmarks:
            weights = torch.softmax(q @ k.transpose(1, 2), dim=-1)
            out = F.dropout(weights, dropout, training=dropout > 0) @ v
        else:
            left, middle, right = self.factors(q, k)
            out = left @ (middle @ (F.dropout(right, dropout, training=dropout > 0) @ v))
        if self.taps is None:
            return out
        near = F.conv2d(v.unsqueeze(0), self.taps.to(v.dtype), padding=(self.conv // 2, 0), groups=self.num_heads)
        return out + near[0]

    def weights(self, q: Tensor, k: Tensor, head: int, queries: Which) -> Tensor:
        if max(q.shape[1], k.shape[1]) <= self.landmarks:
            result = torch.softmax(q[head, queries] @ k[head].T, dim=-1)
        else:
            left, middle, right = self.factors(q, k)
            result = left[head, queries] @ middle[head] @ right[head]
        if self.taps is None:
            return result
        at_q, at_k = (torch.arange(n, device=q.device) for n in (q.shape[1], k.shape[1]))
        tap = at_k - at_q[queries].unsqueeze(1) + self.conv // 2  # (len, S)
        taps = self.taps[head].flatten().to(q.dtype)[tap.clamp(0, self.conv - 1)]
        return result + taps.masked_fill((tap < 0) | (tap >= self.conv), 0.0)

    def factors(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries by landmarks, (H, T, m), the inverse (H, m, m), and landmarks by keys, (H, m, S)."""
        short_q, short_k = segment_means(q, self.landmarks), segment_means(k, self.landmarks)
        left = torch.softmax(q @ short_k.transpose(1, 2), dim=-1)
        right = torch.softmax(short_q @ k.transpose(1, 2), dim=-1)
        return left, pseudo_inverse(torch.softmax(short_q @ short_k.transpose(1, 2), dim=-1), self.iterations), right


def segment_means(x: Tensor, count: int) -> Tensor:
    """The means of `count` runs of tokens (H, T, K) that are as even as whole tokens allow, (H, at most count, K)."""
    T = x.shape[1]
    count = min(count, T)
    if T % count == 0:
        return x.unflatten(1, (count, -1)).mean(2)
    segment = torch.arange(T, device=x.device) * count // T
    sums = x.new_zeros(x.shape[0], count, x.shape[2]).index_add(1, segment, x)
    return sums / torch.bincount(segment, minlength=count).view(1, -1, 1)


def pseudo_inverse(x: Tensor, iterations: int) -> Tensor:
    """The Moore-Penrose inverse of square matrices (H, m, m) by iteration (Razavi et al. 2014)."""
    one = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    result = x.transpose(1, 2) / x.sum(1).amax()  # rows of a softmax sum to 1; one factor for all heads
    for _ in range(iterations):
        product = x @ result
        result = 0.25 * result @ (13 * one - product @ (15 * one - product @ (7 * one - product)))
    return result
