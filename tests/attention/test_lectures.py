"""The numbers worked out on the slides."""

import math

import numpy as np
import torch

from clearhead.attention import Additive, Causal, Dot, Layout, ScaledDot, attend
from clearhead.attention.capture import look
from clearhead.attention.multihead import AttentionCore, MultiHead

INPUTS = torch.tensor([[1.0, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]])
W_KEY = torch.tensor([[0.0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]])
W_QUERY = torch.tensor([[1.0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]])
W_VALUE = torch.tensor([[0.0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]])


def test_three_inputs_step_by_step():
    """Unscaled dot product; the slide rounds the softmax to 0, 1/2, 1/2 and prints 2.0, 7.0, 1.5."""
    q, k, v = INPUTS @ W_QUERY, INPUTS @ W_KEY, INPUTS @ W_VALUE
    assert k.tolist() == [[0, 1, 1], [4, 4, 0], [2, 3, 1]]
    assert v.tolist() == [[1, 2, 3], [2, 8, 0], [2, 6, 3]]
    assert q[0].tolist() == [1, 0, 2]
    scores = q @ k.T
    assert scores[0].tolist() == [2, 4, 4]
    weights = torch.softmax(scores, -1)
    np.testing.assert_allclose(weights[0], [0.0634, 0.4683, 0.4683], atol=5e-5)

    layout = Layout.from_lengths([3])
    exact = attend(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), layout, layout, score=Dot())
    np.testing.assert_allclose(exact[0, 0], [1.9366, 6.6831, 1.5951], atol=5e-5)
    assert torch.allclose(exact[:, 0], weights @ v, atol=1e-6)
    rounded = torch.tensor([0.0, 0.5, 0.5]) @ v
    assert rounded.tolist() == [2.0, 7.0, 1.5]


def test_matrix_form():
    """A = softmax(Q K^T / sqrt(d)) V, all queries at once, in NumPy."""
    rng = np.random.default_rng(0)
    Q, K, V = rng.normal(size=(5, 8)), rng.normal(size=(7, 8)), rng.normal(size=(7, 8))
    scores = Q @ K.T / np.sqrt(8)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    q, k, v = (torch.tensor(x).unsqueeze(1) for x in (Q, K, V))
    for kernel in ("reference", "grouped", "autograd", "sdpa", "dense"):
        out = attend(q, k, v, Layout.from_lengths([5]), Layout.from_lengths([7]), kernel=kernel)
        np.testing.assert_allclose(out[:, 0], weights @ V, atol=1e-12)


def test_scaling_keeps_the_variance_at_one():
    """q·k has variance d for unit-variance coordinates; divided by sqrt(d) it has variance 1."""
    q, k = torch.randn(4000, 1, 256), torch.randn(4000, 1, 256)
    dots = (q * k).sum(-1)
    assert abs(dots.var() / 256 - 1) < 0.1
    scale = ScaledDot().scale(256)
    assert scale is not None and scale == 1 / math.sqrt(256)
    assert abs((dots * scale).var() - 1) < 0.1


def test_additive_score_is_the_formula():
    """a(q, k) = w·tanh(W_q q + W_k k), for queries and keys of different widths."""
    score = Additive(num_heads=1, query_dim=3, key_dim=5, hidden=4)
    q, k = torch.randn(2, 1, 3), torch.randn(6, 1, 5)
    prepared_q, prepared_k = (x.transpose(0, 1) for x in score.prepare(q, k))
    got = score.pair(prepared_q, prepared_k)[0]
    for i in range(2):
        for j in range(6):
            want = score.weight[0] @ torch.tanh(q[i, 0] @ score.query[0] + k[j, 0] @ score.key[0])
            assert torch.allclose(got[i, j], want, atol=1e-6)


def test_masked_elements_weigh_nothing():
    core = AttentionCore().eval()
    model = MultiHead(4, 1, core=core)
    with look(model) as seen:
        model(INPUTS, Layout.from_lengths([3]), mask=Causal())
    weights = seen["attention"].head(0)
    assert torch.equal(weights.triu(1), torch.zeros(3, 3))
    assert torch.allclose(weights.sum(-1), torch.ones(3))
    assert weights[0].tolist() == [1, 0, 0]


def test_attention_is_blind_to_order():
    """Without positions, permuting the words permutes the outputs and changes nothing else."""
    model, layout, order = MultiHead(16, 4), Layout.from_lengths([6]), torch.tensor([3, 1, 5, 0, 2, 4])
    x = torch.randn(6, 16)
    assert torch.allclose(model(x, layout)[order], model(x[order], layout), atol=1e-6)
