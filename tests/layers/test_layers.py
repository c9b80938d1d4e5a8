import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from clearhead.attention import Layout
from clearhead.layers import (
    ACTIVATIONS,
    POOLINGS,
    ALiBi,
    Block,
    Embedding,
    FeedForward,
    GatedFeedForward,
    LearnedPositions,
    RopeScaling,
    Rotary,
    SinusoidalPositions,
    T5Relative,
    make_norm,
)


def test_sinusoids_are_the_papers():
    table = SinusoidalPositions(50, 8)(Layout.from_lengths([50]))
    for position in (0, 1, 49):
        for i in range(4):
            angle = position / 10_000 ** (2 * i / 8)
            assert table[position, 2 * i] == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-6)
    halves = SinusoidalPositions(50, 8, interleaved=False)(Layout.from_lengths([50]))
    assert torch.equal(halves, torch.cat([table[:, 0::2], table[:, 1::2]], 1))


@pytest.mark.parametrize(
    "make", [lambda: SinusoidalPositions(6, 4), lambda: LearnedPositions(6, 4, offset=2)], ids=["sinusoidal", "learned"]
)
def test_positions_follow_starts_and_end_clearly(make):
    positions = make()
    whole = positions(Layout.from_lengths([6]))
    assert torch.equal(positions(Layout.from_lengths([2, 1], starts=[3, 5])), whole[[3, 4, 5]])
    with pytest.raises(ValueError, match=r"reaches position 6, but the .* positions end at 5: shorten it to 6 tokens"):
        positions(Layout.from_lengths([1, 7]))
    with pytest.raises(ValueError, match="reaches position 6"):
        positions(Layout.from_lengths([1], starts=[6]))


def test_learned_offset_reads_later_rows():
    positions = LearnedPositions(4, 3, offset=2)
    assert torch.equal(positions(Layout.from_lengths([2])), positions.table.weight[2:4])
    assert positions.table.num_embeddings == 6


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_keeps_norms_and_sees_only_distance(interleaved):
    rotary = Rotary(2000, 8, interleaved=interleaved)
    q, k = torch.randn(1, 2, 12), torch.randn(1, 2, 12)

    def score(i: int, j: int) -> torch.Tensor:
        return (turned(q, i) * turned(k, j)).sum(-1)

    def turned(x: torch.Tensor, i: int) -> torch.Tensor:
        return rotary(torch.tensor([i]))(x)

    torch.testing.assert_close(turned(q, 77).norm(dim=-1), q.norm(dim=-1), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(score(5, 2), score(1005, 1002), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(score(5, 2), score(5, 3))
    assert torch.equal(turned(q, 9)[..., 8:], q[..., 8:])
    assert torch.equal(turned(q, 0), q)


def test_alibi_slopes():
    assert (-ALiBi(8).slopes).tolist() == pytest.approx([2.0**-i for i in range(1, 9)])
    assert (-ALiBi(12).slopes).tolist() == pytest.approx(
        [2.0**-i for i in range(1, 9)] + [2 ** (-(2 * i + 1) / 2) for i in range(4)]
    )
    where = torch.zeros(1, 1, 1, dtype=torch.long)
    tile = ALiBi(8)()(where, torch.arange(3).view(1, 3, 1), torch.arange(3).view(1, 1, 3))
    assert tile[0, 0].tolist() == [[0, -0.5, -1], [-0.5, 0, -0.5], [-1, -0.5, 0]]


@pytest.mark.parametrize("bidirectional", [True, False])
def test_t5_buckets(bidirectional):
    """Near distances have buckets of their own, far ones share; beyond the last, all are alike."""
    bias = T5Relative(2, num_buckets=8, max_distance=20, bidirectional=bidirectional)
    relative = bias()
    assert relative.table.shape == (2, 41)
    buckets = bias.buckets.tolist()
    at = lambda d: buckets[20 + d]  # noqa: E731
    if bidirectional:
        assert [at(-1), at(0), at(1)] == [1, 0, 5]
        assert at(-20) == 3 and at(20) == 7
    else:
        assert [at(1), at(0), at(-1), at(-3)] == [0, 0, 1, 3]
        assert at(-20) == 7
    assert all(b >= a for a, b in zip([at(-d) for d in range(20)], [at(-d - 1) for d in range(20)], strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("activation", list(ACTIVATIONS))
@pytest.mark.parametrize("kind", [FeedForward, GatedFeedForward])
def test_feedforward_one_pass_or_two(kind, activation, dtype):
    """Inference fuses the activation into the product; training does not; both are the formula."""
    layer = kind(16, 32, activation=activation).to(dtype).eval()
    x = torch.randn(9, 16).to(dtype)
    act = ACTIVATIONS[activation]
    exact = {n: (p.double(), x.double()) for n, p in layer.named_parameters()}
    up = F.linear(x.double(), exact["up.weight"][0], exact["up.bias"][0] if "up.bias" in exact else None)
    gate = F.linear(x.double(), exact["gate.weight"][0]) if kind is GatedFeedForward else None
    inner = act(up) if gate is None else act(gate) * up
    want = F.linear(inner, exact["down.weight"][0], exact["down.bias"][0] if "down.bias" in exact else None)
    tolerance = 1e-6 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(layer(x).double(), want, atol=tolerance, rtol=tolerance)
    with torch.no_grad():
        torch.testing.assert_close(layer(x).double(), want, atol=tolerance, rtol=tolerance)


def test_a_watched_layer_is_really_called():
    layer, heard = FeedForward(4, 8).eval(), []
    layer.up.register_forward_hook(lambda m, a, out: heard.append(out.shape))
    with torch.no_grad():
        layer(torch.randn(3, 4))
    assert heard == [(3, 8)]


def test_pooling():
    layout = Layout.from_lengths([2, 0, 3])
    x = torch.tensor([[1.0, -5], [3, 2], [4, 4], [0, 9], [-1, 2]])
    assert POOLINGS["first"](x, layout).tolist() == [[1, -5], [0, 0], [4, 4]]
    assert POOLINGS["mean"](x, layout).tolist() == [[2, -1.5], [0, 0], [1, 5]]
    assert POOLINGS["max"](x, layout).tolist() == [[3, 2], [0, 0], [4, 9]]
    assert POOLINGS["min"](x, layout).tolist() == [[1, -5], [0, 0], [-1, 2]]


@pytest.mark.parametrize("name", list(POOLINGS))
def test_pooling_runs_backward_on_anything(name):
    for lengths in ([3, 1, 4], [], [0, 0], [5]):
        x = torch.randn(sum(lengths), 2, requires_grad=True)
        out = POOLINGS[name](x, Layout.from_lengths(lengths))
        assert out.shape == (len(lengths), 2)
        (grad,) = torch.autograd.grad(out.sum(), x)
        assert grad.shape == x.shape
    last = torch.zeros(3, 2, requires_grad=True)
    POOLINGS["first"](last, Layout.from_lengths([3, 0])).sum().backward()
    assert last.grad is not None and last.grad.tolist() == [[1, 1], [0, 0], [0, 0]]


def test_embedding_adds_its_parts():
    tokens, segments = nn.Embedding(10, 4), nn.Embedding(2, 4)
    layer = Embedding(tokens, positions=LearnedPositions(5, 4), segments=segments, norm=nn.LayerNorm(4), scale=True)
    layout, ids, kinds = Layout.from_lengths([2, 3]), torch.tensor([1, 2, 3, 4, 5]), torch.tensor([0, 1, 0, 0, 1])
    assert layer.positions is not None and layer.norm is not None
    want = tokens(ids) * 2 + layer.positions(layout) + segments(kinds)
    torch.testing.assert_close(layer(ids, layout, kinds), layer.norm(want))
    torch.testing.assert_close(layer(ids, layout), layer(ids, layout, torch.zeros(5, dtype=torch.long)))
    with pytest.raises(ValueError, match="4 token ids, but the layout holds 5"):
        layer(ids[:4], layout)
    with pytest.raises(ValueError, match="no segment embeddings"):
        Embedding(tokens)(ids, layout, kinds)


def test_names_that_are_not_there():
    with pytest.raises(ValueError, match="no activation 'swish': choose relu"):
        FeedForward(4, 8, activation="swish")
    with pytest.raises(ValueError, match="no norm 'batch': choose layer, rms"):
        make_norm("batch", 4, 1e-5)
    from clearhead.attention import MultiHead

    with pytest.raises(ValueError, match="1 norms: a block needs one for each of its 2 sublayers"):
        Block(MultiHead(4, 2), FeedForward(4, 8), [nn.LayerNorm(4)])


def test_stretched_rotary():
    """Linear: all frequencies divided. Llama 3.1: fast ones stay, slow ones are divided, a smooth step between."""
    plain = Rotary(64, 16).frequencies
    assert torch.equal(Rotary(64, 16, scaling=RopeScaling(4.0)).frequencies, plain / 4)
    found = Rotary(64, 16, scaling=RopeScaling(8.0, 1.0, 4.0, 100)).frequencies
    turns = plain * 100 / (2 * math.pi)
    assert torch.equal(found[turns >= 4], plain[turns >= 4])
    torch.testing.assert_close(found[turns <= 1], plain[turns <= 1] / 8)
    between = (turns > 1) & (turns < 4)
    assert between.any() and ((found < plain) & (found > plain / 8))[between].all()


def test_narrow_embeddings_are_widened():
    embedding = Embedding(nn.Embedding(9, 4), projection=nn.Linear(4, 10))
    assert embedding(torch.tensor([1, 2]), Layout.from_lengths([2])).shape == (2, 10)


def test_norms_without_bias():
    assert make_norm("layer", 4, 1e-5, bias=False).bias is None
    assert make_norm("layer", 4, 1e-5).bias is not None
    with pytest.raises(ValueError, match="there is no norm 'batch'"):
        make_norm("batch", 4, 1e-5)


def test_first_and_last():
    x, layout = torch.arange(6.0).unsqueeze(1), Layout.from_lengths([2, 0, 4])
    assert POOLINGS["first"](x, layout).flatten().tolist() == [0, 0, 2]
    assert POOLINGS["last"](x, layout).flatten().tolist() == [1, 0, 5]
    assert POOLINGS["last"](x[:0], Layout.from_lengths([0, 0])).tolist() == [[0.0], [0.0]]


def test_a_table_too_large_is_refused():
    with pytest.raises(ValueError, match="lower max_len"):
        SinusoidalPositions(2**22, 512)
