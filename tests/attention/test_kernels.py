import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path

import pytest
import torch

from clearhead.attention import (
    Additive,
    AttentionInputs,
    Causal,
    DenseMask,
    Full,
    General,
    Layout,
    RelativeBias,
    ScaledDot,
    Window,
    attend,
    choose,
)
from clearhead.attention.biases import DenseBias
from clearhead.attention.kernels import unsupported_reason
from clearhead.attention.kernels.grouped.grouping import plan_groups
from clearhead.attention.tuning import TUNING, Tuning, read_tuning, use_tuning, write_tuning

RAGGED = [3, 70, 1, 0, 33, 130, 12, 5, 5, 5, 600]


def tensors(lengths, heads=4, groups=None, width=8, dtype=torch.float32):
    q = torch.randn(sum(lengths), heads, width, dtype=torch.float64)
    k, v = (torch.randn(sum(lengths), groups or heads, width, dtype=torch.float64) for _ in range(2))
    q, k, v = (x.to(dtype).requires_grad_() for x in (q, k, v))
    return q, k, v


def both(kernel, inputs, layout, **parts):
    q, k, v = inputs
    out = attend(q, k, v, layout, layout, kernel=kernel, **parts)
    weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out).to(out.dtype)
    return [out, *torch.autograd.grad(out, inputs, weight)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mask", [Full(), Causal(), Window(40, 3), Causal() & Window(100, 0)], ids=str)
@pytest.mark.parametrize("lengths", [RAGGED, [64] * 6, [700, 650], [9] * 40], ids=["ragged", "equal", "long", "short"])
@pytest.mark.parametrize("kernel", ["auto", "block_sparse", "grouped", "bucketed", "sdpa", "autograd", "dense"])
def test_forward_and_backward_against_float64(kernel, lengths, mask, dtype):
    layout = Layout.from_lengths(lengths)
    inputs = tensors(lengths, dtype=dtype)
    given = AttentionInputs(*inputs, layout, layout, mask, ScaledDot())
    if kernel != "auto" and (reason := unsupported_reason(kernel, given, 0.0)):
        pytest.skip(reason)
    exact = [x.detach().double().requires_grad_() for x in inputs]
    for got, want in zip(
        both(kernel, inputs, layout, mask=mask), both("reference", exact, layout, mask=mask), strict=True
    ):
        error = (got.double() - want).abs().max() / want.abs().max()
        # worst seen: 5e-16, 6e-7, 1.3e-2, 1.3e-3
        assert error < {torch.float64: 1e-14, torch.float32: 2e-6, torch.bfloat16: 2.5e-2, torch.float16: 3e-3}[dtype]


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_grouped_query_heads(groups):
    layout = Layout.from_lengths(RAGGED)
    inputs = tensors(RAGGED, groups=groups, dtype=torch.float64)
    for got, want in zip(both("grouped", inputs, layout), both("reference", inputs, layout), strict=True):
        torch.testing.assert_close(got, want, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("kernel", ["grouped", "autograd", "dense", "flex"])
def test_relative_bias(kernel):
    lengths = [20] * 3
    inputs, layout = tensors(lengths), Layout.from_lengths(lengths)
    bias = RelativeBias(torch.randn(4, 9), torch.randn(4))
    with torch.no_grad():
        got = attend(*inputs, layout, layout, bias=bias, kernel=kernel)
        want = attend(*inputs, layout, layout, bias=bias, kernel="reference")
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("make", [lambda: Additive(4, 8, 8, 6), lambda: General(4, 8, 8)], ids=["additive", "general"])
def test_other_scores_learn_alike(make):
    layout = Layout.from_lengths([4, 0, 60, 2, 3])
    inputs, score = tensors(layout.host_lengths, dtype=torch.float64), make().double()
    found = []
    for kernel in ("reference", "autograd"):
        out = attend(*inputs, layout, layout, score=score, mask=Causal(), kernel=kernel)
        found.append([out, *torch.autograd.grad(out.square().sum(), [*inputs, *score.parameters()])])
    for got, want in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(got, want, atol=1e-12, rtol=1e-12)


def test_a_bias_of_ones_own_learns():
    layout = Layout.from_lengths([4, 30])
    inputs = tensors(layout.host_lengths, dtype=torch.float64)
    table = torch.randn(2, 4, 30, 30, dtype=torch.float64, requires_grad=True)

    def bias(sequence, query, key):
        return table[sequence, :, query, key].movedim(-1, 1)

    found = []
    for kernel in ("reference", "autograd"):
        out = attend(*inputs, layout, layout, bias=bias, kernel=kernel)
        found.append(torch.autograd.grad(out.square().sum(), [*inputs, table]))
    for got, want in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(got, want, atol=1e-12, rtol=1e-12)


def test_dropout_is_fair_and_its_gradient_is_its_own():
    """Dropped weights keep their mean, and backward uses the very mask of forward."""
    lengths = [40, 8, 8, 8]
    layout = Layout.from_lengths(lengths)
    inputs = tensors(lengths, dtype=torch.float64)
    plain = attend(*inputs, layout, layout)
    mean = torch.stack([attend(*inputs, layout, layout, dropout=0.3) for _ in range(600)]).mean(0)
    assert (mean - plain).abs().max() < 0.25
    assert (mean - plain).abs().mean() < 0.03

    def dropped(q, k, v):
        torch.manual_seed(7)
        return attend(q, k, v, layout, layout, dropout=0.3)

    assert torch.equal(dropped(*inputs), dropped(*inputs))
    assert torch.autograd.gradcheck(dropped, tensors(lengths, heads=1, width=2, dtype=torch.float64), fast_mode=True)


def test_gradients_by_finite_differences():
    lengths = [3, 0, 20, 7]
    layout = Layout.from_lengths(lengths)
    for mask in (Full(), Causal(), Window(1, 2)):
        inputs = tensors(lengths, heads=2, groups=1, width=3, dtype=torch.float64)
        assert torch.autograd.gradcheck(
            lambda q, k, v, mask=mask: attend(q, k, v, layout, layout, mask=mask), inputs, fast_mode=True
        )


def test_no_second_derivative_is_said_not_guessed():
    layout = Layout.from_lengths([3, 4])
    q, k, v = tensors(layout.host_lengths)
    (grad,) = torch.autograd.grad(attend(q, k, v, layout, layout).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match=r"once_differentiable|does not require grad|twice"):
        grad.sum().backward()


def test_empty_batches_run_both_ways():
    for kernel in ("reference", "grouped", "autograd", "auto", "dense"):
        for lengths in ([], [0, 0]):
            inputs, layout = tensors(lengths), Layout.from_lengths(lengths)
            out, *grads = both(kernel, inputs, layout)
            assert out.shape == (0, 4, 8)
            assert all(g.shape == x.shape for g, x in zip(grads, inputs, strict=True))


def test_long_bands_cost_what_they_touch():
    """A window over a long sequence never makes the square of it."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        most = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for t in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(t, torch.Tensor):
                    self.most = max(self.most, t.numel())
            return out

    n = 8192
    layout = Layout.from_lengths([n])
    q, k, v = (torch.randn(n, 1, 8) for _ in range(3))
    with torch.no_grad(), Largest() as seen:
        out = attend(q, k, v, layout, layout, mask=Causal() & Window(64, 0))
    assert seen.most <= 600 * 1024
    i = 5000
    near = slice(i - 64, i + 1)
    weights = torch.softmax(q[i, 0] @ k[near, 0].T / 8**0.5, -1)
    torch.testing.assert_close(out[i, 0], weights @ v[near, 0], atol=1e-5, rtol=1e-5)


def test_kernels_say_what_they_cannot_do():
    layout = Layout.from_lengths([3, 4])
    q, k, v = tensors(layout.host_lengths)
    call = AttentionInputs(q, k, v, layout, layout, Full(), ScaledDot())
    for kernel, says in (("flex", "no backward on a CPU"), ("varlen", "runs on CUDA"), ("dense", "equal length")):
        reason = unsupported_reason(kernel, call, 0.0)
        assert reason is not None and says in reason
    with pytest.raises(ValueError, match=r"the varlen kernel cannot run this: .*kernel='auto' finds one that can"):
        attend(q, k, v, layout, layout, kernel="varlen")
    with pytest.raises(ValueError, match="no kernel 'fast': choose auto, reference"):
        attend(q, k, v, layout, layout, kernel="fast")
    assert choose(call, 0.0) == "grouped"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda q, k, v: (q[:, :3], k, v), r"3 query heads are not a multiple of 4 key heads"),
        (lambda q, k, v: (q, k[:-1], v[:-1]), "6 keys but their layout has 7"),
        (lambda q, k, v: (q[..., :4], k, v), "equal widths"),
        (lambda q, k, v: (q.flatten(1), k, v), "tokens, heads, width"),
    ],
)
def test_shapes_that_do_not_fit(change, says):
    layout = Layout.from_lengths([3, 4])
    q, k, v = change(*tensors(layout.host_lengths))
    with pytest.raises(ValueError, match=says):
        attend(q, k, v, layout, layout)


def test_counts_of_sequences_must_agree():
    q, k, v = tensors([3, 4])
    with pytest.raises(ValueError, match="sequence i attends to sequence i"):
        attend(q, k, v, Layout.from_lengths([3, 4]), Layout.from_lengths([7]))
    with pytest.raises(ValueError, match=r"dropout is 1\.0"):
        attend(q, k, v, Layout.from_lengths([3, 4]), Layout.from_lengths([3, 4]), dropout=1.0)


def test_the_plan_moves_only_the_short():
    found = plan_groups((100, 5, 7, 80, 6), (100, 5, 7, 80, 6), torch.device("cpu"))
    assert [g.members for g in found.groups if g.in_place] == [(0,), (3,)]
    assert sorted(i for g in found.groups if not g.in_place for i in g.members) == [1, 2, 4]
    assert found.queries is not None
    assert found.queries.tokens.sort().values.tolist() == [*range(100, 112), *range(192, 198)]
    equal = plan_groups((30,) * 8, (30,) * 8, torch.device("cpu"))
    assert [g.members for g in equal.groups] == [tuple(range(8))]
    assert equal.queries is None


def test_an_explicit_mask_over_short_sequences():
    lengths = [3, 5, 2, 4]
    layout = Layout.from_lengths(lengths)
    q, k, v = tensors(lengths)
    mask = DenseMask(torch.rand(4, 5, 5) < 0.5)
    for got, want in zip(
        both("grouped", [q, k, v], layout, mask=mask), both("reference", [q, k, v], layout, mask=mask), strict=True
    ):
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="varlen_attn runs on CUDA only: not verified")
@pytest.mark.parametrize("mask", [Full(), Causal(), Window(40, 3)], ids=str)
def test_varlen_on_cuda(mask):
    layout = Layout.from_lengths(RAGGED, device="cuda")
    inputs = [x.detach().cuda().requires_grad_() for x in tensors(RAGGED, width=64, dtype=torch.bfloat16)]
    exact = [x.detach().double().requires_grad_() for x in inputs]
    for got, want in zip(
        both("varlen", inputs, layout, mask=mask), both("reference", exact, layout, mask=mask), strict=True
    ):
        assert (got.double() - want).abs().max() / want.abs().max() < 2.5e-2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("heads", "groups", "queries"), [(4, 4, 1), (4, 4, 3), (4, 2, 1), (4, 2, 3)])
@pytest.mark.parametrize("biased", ["none", "shared", "by head"])
def test_cached_steps_against_the_reference(heads, groups, queries, biased, dtype):
    """The kernel of the fused decoder: some queries of each sequence over padded buffers with an additive mask."""
    layout_q, layout_k = Layout.uniform(3, queries), Layout.uniform(3, 20)
    q = torch.randn(3 * queries, heads, 8, dtype=dtype)
    k, v = (torch.randn(60, groups, 8, dtype=dtype) for _ in range(2))
    bias = None
    if biased != "none":
        table = torch.zeros(3, heads if biased == "by head" else 1, queries, 20, dtype=dtype)
        bias = DenseBias(table.masked_fill(torch.rand(table.shape) < 0.4, float("-inf")), heads)
    with torch.no_grad():
        got = attend(q, k, v, layout_q, layout_k, bias=bias, kernel="cached_step")
        exact = bias and DenseBias(bias.table.double(), heads)
        want = attend(q.double(), k.double(), v.double(), layout_q, layout_k, bias=exact, kernel="reference")
    torch.testing.assert_close(got.double(), want, atol={torch.float32: 1e-5, torch.bfloat16: 3e-2}[dtype], rtol=0)


def test_auto_takes_the_first_preferred_kernel():
    def chosen(lengths, *, grad=False, dropout=0.0, **parts):
        layout, inputs = Layout.from_lengths(lengths), tensors(lengths)
        with torch.set_grad_enabled(grad):
            return choose(AttentionInputs(*inputs, layout, layout, parts.get("mask", Full()), ScaledDot()), dropout)

    assert chosen([64] * 6) == "sdpa"
    assert chosen([64] * 6, dropout=0.1) == "bucketed"
    assert chosen([3, 5] * 10) == "bucketed"
    assert chosen([3, 5]) == "grouped"
    assert chosen([64] * 6, mask=Window(3, 3)) == "grouped"
    layout, inputs = Layout.from_lengths([3, 4]), tensors([3, 4])
    assert choose(AttentionInputs(*inputs, layout, layout, Full(), Additive(4, 8, 8, 8)), 0.0) == "autograd"


def test_thresholds_are_read_from_a_file(tmp_path):
    path = tmp_path / "tuning.json"
    tuned = Tuning(bucket_min_sequences=3, fused_backward_float32_gap=(1, 2))
    write_tuning(tuned, path)
    assert read_tuning(path) == tuned
    for text, says in (
        ("{", "cannot be read"),
        ('{"buckets": 3}', "unknown thresholds"),
        ('{"gather_below": 0}', "positive"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=says):
            read_tuning(path)


def test_other_thresholds_last_for_a_block():
    before = asdict(TUNING)
    with suppress(RuntimeError), use_tuning(bucket_max_len=1, gather_below=7):
        assert (TUNING.bucket_max_len, TUNING.gather_below) == (1, 7)
        raise RuntimeError
    assert asdict(TUNING) == before


def test_every_threshold_of_speed_is_measured():
    """`benchmarks/tune.py` has candidates for each threshold, the default among them."""
    script = Path(__file__).parents[2] / "benchmarks" / "tune.py"
    code = "import sys, json; sys.path.insert(0, sys.argv[1]); import tune; print(json.dumps({n: c for n, (c, _) in tune.CASES.items()}))"
    done = subprocess.run([sys.executable, "-c", code, str(script.parent)], capture_output=True, text=True, check=True)
    candidates = json.loads(done.stdout)
    assert candidates.keys() == {f.name for f in fields(Tuning)} - {"cache_masks_below"}  # which limits memory
    for name, values in candidates.items():
        assert json.loads(json.dumps(getattr(Tuning(), name))) in values, name
