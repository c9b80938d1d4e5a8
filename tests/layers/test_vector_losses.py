from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.layers.vector_losses import LossConfig, VectorBatch, vector_loss


def random_batch(counts: list[int], width: int = 6, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors of examples with these numbers of negatives, and the example of each vector."""
    torch.manual_seed(seed)
    ids = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor([2 + n for n in counts]))
    return torch.randn(len(ids), width), ids


class Vectors(torch.nn.Module):
    """A model of sentence-transformers whose sentence embeddings are the inputs."""

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        return {"sentence_embedding": features["x"]}

    def __getitem__(self, at: int) -> "Vectors":
        return self


@pytest.mark.parametrize(
    ("kind", "name", "options", "negatives"),
    [
        ("multiple_negatives", "MultipleNegativesRankingLoss", {"scale": 20.0}, 0),
        ("multiple_negatives", "MultipleNegativesRankingLoss", {"scale": 20.0}, 1),
        ("multiple_negatives", "MultipleNegativesRankingLoss", {"scale": 20.0}, 3),
        ("cosent", "CoSENTLoss", {"scale": 20.0}, 0),
        ("cosine", "CosineSimilarityLoss", {}, 0),
        ("margin_mse", "MarginMSELoss", {}, 1),
    ],
)
def test_losses_are_those_of_sentence_transformers(kind, name, options, negatives):
    try:
        losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    except pytest.skip.Exception:
        losses = pytest.importorskip("sentence_transformers.losses")
    vectors, ids = random_batch([negatives] * 7)
    labels = torch.rand(7)
    roles = [vectors.view(7, 2 + negatives, -1)[:, i] for i in range(2 + negatives)]
    theirs = getattr(losses, name)(Vectors(), **options)
    want = theirs([{"x": x} for x in roles], labels)
    got = vector_loss(kind, vectors, ids, labels, LossConfig())
    torch.testing.assert_close(got, want, atol=1e-6, rtol=1e-5)


def test_symmetric_loss_is_the_mean_of_both_directions():
    vectors, ids = random_batch([0] * 5)
    swapped = vectors.view(5, 2, -1).flip(1).reshape(10, -1)
    config = LossConfig()
    both = vector_loss("multiple_negatives", vectors, ids, torch.zeros(0), LossConfig(symmetric=True))
    ways = [vector_loss("multiple_negatives", x, ids, torch.zeros(0), config) for x in (vectors, swapped)]
    torch.testing.assert_close(both, (ways[0] + ways[1]) / 2)


def test_matryoshka_is_the_sum_over_widths():
    vectors, ids = random_batch([1] * 5, width=8)
    config = LossConfig(dims=(8, 4, 2))
    whole = vector_loss("triplet", vectors, ids, torch.zeros(0), config)
    parts = [vector_loss("triplet", vectors[:, :n], ids, torch.zeros(0), LossConfig()) for n in (8, 4, 2)]
    torch.testing.assert_close(whole, torch.stack(parts).sum())


def test_triplet_is_zero_beyond_the_margin_only():
    a, near, far = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.1]]), torch.tensor([[0.0, 1.0]])
    ids = torch.zeros(3, dtype=torch.int64)
    assert vector_loss("triplet", torch.cat([a, near, far]), ids, torch.zeros(0), LossConfig()) == 0
    wrong = vector_loss("triplet", torch.cat([a, far, near]), ids, torch.zeros(0), LossConfig(margin=0.2))
    cosine = torch.cosine_similarity(a, near)[0]
    torch.testing.assert_close(wrong, cosine + 0.2)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_every_vector_has_one_role(counts):
    vectors, ids = random_batch(counts)
    batch = VectorBatch.split(vectors, ids, torch.zeros(0))
    assert len(batch.anchors) == len(batch.positives) == len(counts)
    assert batch.negative_of.tolist() == [i for i, n in enumerate(counts) for _ in range(n)]
    together = torch.cat([batch.anchors, batch.positives, batch.negatives])
    assert sorted(map(tuple, together.tolist())) == sorted(map(tuple, vectors.tolist()))


@pytest.mark.parametrize(("changes", "message"), [({"temperature": 0.0}, "above 0"), ({"dims": (4, 0)}, "at least 1")])
def test_wrong_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        LossConfig(**changes)
