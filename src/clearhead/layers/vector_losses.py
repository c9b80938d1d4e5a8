"""Losses on the vectors of a batch of texts: contrastive, ranking, regression and distillation.

Every loss reads the vectors of all texts of a batch, example after example: an anchor, its positive, and its negatives
if it has any. It returns a mean over the examples; vectors need not have unit length.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

LossKind = Literal["auto", "multiple_negatives", "triplet", "cosent", "cosine", "margin_mse", "binary", "listwise"]


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """The loss of the tasks `embed` and `rerank`; "auto" follows from the columns of the data."""

    kind: LossKind = "auto"  # by the columns of the data, unless given
    temperature: float = 0.05  # of multiple_negatives and cosent: cosines are divided by it
    symmetric: bool = False  # of multiple_negatives: positives must find their anchors too
    margin: float = 0.2  # of triplet, in cosine
    dims: tuple[int, ...] = ()  # Matryoshka: the loss is summed over vectors cut to these widths

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise ValueError(f"temperature is {self.temperature}: it must be above 0")
        if any(width < 1 for width in self.dims):
            raise ValueError(f"dims has {min(self.dims)}: a width must be at least 1")


@dataclass(frozen=True, eq=False)
class VectorBatch:
    """The vectors of a batch by role. Every example has one anchor, one positive and any number of negatives."""

    anchors: Tensor  # (n, D)
    positives: Tensor  # (n, D)
    negatives: Tensor  # (m, D)
    negative_of: Tensor  # (m,) the example that each negative belongs to
    labels: Tensor  # (n,) scores of pairs or teacher margins; empty where the data has none

    @staticmethod
    def split(vectors: Tensor, example_ids: Tensor, labels: Tensor) -> "VectorBatch":
        """Split vectors (texts, D) by the role of their text in its example, (texts,) sorted example numbers."""
        count = int(example_ids[-1]) + 1 if len(example_ids) else 0
        first = torch.searchsorted(example_ids, torch.arange(count, device=example_ids.device))
        is_negative = torch.ones_like(example_ids, dtype=torch.bool)
        is_negative[first] = False
        is_negative[first + 1] = False
        return VectorBatch(
            vectors.index_select(0, first),
            vectors.index_select(0, first + 1),
            vectors[is_negative],
            example_ids[is_negative],
            labels,
        )


def multiple_negatives(batch: VectorBatch, config: LossConfig) -> Tensor:
    """Cross-entropy of each anchor's positive among all positives and negatives of the batch (van den Oord 2018)."""
    anchors = F.normalize(batch.anchors, dim=1)
    positives = F.normalize(batch.positives, dim=1)
    candidates = torch.cat([positives, F.normalize(batch.negatives, dim=1)])
    targets = torch.arange(len(anchors), device=anchors.device)
    loss = F.cross_entropy(anchors @ candidates.t() / config.temperature, targets)
    if config.symmetric:
        loss = (loss + F.cross_entropy(positives @ anchors.t() / config.temperature, targets)) / 2
    return loss


def triplet(batch: VectorBatch, config: LossConfig) -> Tensor:
    """How far each negative is from being less similar to its anchor than the positive, by `margin`."""
    near = F.cosine_similarity(batch.anchors, batch.positives)[batch.negative_of]
    far = F.cosine_similarity(batch.anchors[batch.negative_of], batch.negatives)
    return F.relu(far - near + config.margin).mean()


def cosent(batch: VectorBatch, config: LossConfig) -> Tensor:
    """Pairs in the wrong order: log(1 + sum of exp(cos_i - cos_j)) over pairs where i must be below j (Su 2022)."""
    cosines = F.cosine_similarity(batch.anchors, batch.positives) / config.temperature
    difference = cosines.unsqueeze(1) - cosines.unsqueeze(0)  # (n, n)
    below = batch.labels.unsqueeze(1) < batch.labels.unsqueeze(0)
    wrong = difference.masked_fill(~below, float("-inf")).flatten()
    return torch.logsumexp(torch.cat([wrong.new_zeros(1), wrong]), 0)


def cosine(batch: VectorBatch, config: LossConfig) -> Tensor:
    """Squared error of the cosine of each pair against its score."""
    return F.mse_loss(F.cosine_similarity(batch.anchors, batch.positives), batch.labels)


def margin_mse(batch: VectorBatch, config: LossConfig) -> Tensor:
    """Squared error of positive minus negative dot product against a teacher's margin (Hofstätter et al. 2020)."""
    of = batch.negative_of
    scores = (batch.anchors * batch.positives).sum(1)[of] - (batch.anchors[of] * batch.negatives).sum(1)
    return F.mse_loss(scores, batch.labels[of])


VECTOR_LOSSES: dict[str, Callable[[VectorBatch, LossConfig], Tensor]] = {
    "multiple_negatives": multiple_negatives,
    "triplet": triplet,
    "cosent": cosent,
    "cosine": cosine,
    "margin_mse": margin_mse,
}


def vector_loss(kind: str, vectors: Tensor, example_ids: Tensor, labels: Tensor, config: LossConfig) -> Tensor:
    """Return the mean loss over the examples; with `dims`, summed over the widths (Kusupati et al. 2022)."""
    if not len(vectors):
        return vectors.sum()
    widths = config.dims or (vectors.shape[1],)
    parts = [VectorBatch.split(vectors[:, :width], example_ids, labels) for width in widths]
    return torch.stack([VECTOR_LOSSES[kind](part, config) for part in parts]).sum()
