"""The gradient of a loss that compares all texts of a batch, in parts and over ranks.

In-batch negatives couple every example with every other, so the loss is not a sum over parts. The vectors of all parts
and ranks are gathered, the loss and its gradient with respect to the vectors are computed from them, and each part
continues the backward pass from its own vectors. With gradient accumulation a part is computed twice, so that memory
holds the activations of one part at a time (GradCache, Gao et al. 2021): the gradient does not depend on the parts.
"""

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from clearhead.distributed.ranks import Distributed
from clearhead.tasks.task import Batch

Vectors = Callable[[int], Tensor]
"""Returns the vectors of a part, (texts, D); the same at every call, dropout included."""


def whole_batch_backward(
    vectors: Vectors,
    loss: Callable[[Tensor, Batch], Tensor],
    whole: Batch,
    sizes: Sequence[int],
    parts: Sequence[int],
    distributed: Distributed,
) -> float:
    """Add the gradient of the loss of the whole batch to the weights and return the loss.

    `sizes` are the texts of every part of every rank, in order; `parts` are the parts of this rank. Every rank computes
    the same loss.
    """
    once = len(parts) == 1
    with torch.set_grad_enabled(once):
        own = [vectors(part) for part in parts]
    gathered = _gather(torch.cat([x.detach() for x in own]), sizes, distributed).requires_grad_()
    value = loss(gathered, whole)
    (gradient,) = torch.autograd.grad(value, gathered)
    starts = [sum(sizes[:part]) for part in parts]
    for part, start, x in zip(parts, starts, own, strict=True):
        x = x if once else vectors(part)
        # FSDP averages over ranks, and the gradient is a sum
        torch.autograd.backward(x, gradient[start : start + sizes[part]] * distributed.batch_ranks)
    return float(value.detach())


def _gather(own: Tensor, sizes: Sequence[int], distributed: Distributed) -> Tensor:
    """Return the vectors of all ranks in the order of the parts, (texts, D)."""
    if distributed.size == 1:
        return own
    per_rank = len(sizes) // distributed.batch_ranks
    counts = [sum(sizes[i : i + per_rank]) for i in range(0, len(sizes), per_rank)]
    padded = own.new_zeros(max(counts), own.shape[1])
    padded[: len(own)] = own
    everyone = [torch.empty_like(padded) for _ in range(distributed.size)]
    dist.all_gather(everyone, padded)
    return torch.cat([x[:count] for x, count in zip(everyone[:: distributed.tensor], counts, strict=True)])
