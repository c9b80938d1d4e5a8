"""Properties of every attention method: 16 random shapes, 500 in `make slow`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clearhead.attention import Causal, Full, Layout, Mask, ScaledDot
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels import reference
from clearhead.attention.tuning import use_tuning
from clearhead.efficient import (
    LSH,
    METHODS,
    AttentionMethod,
    BigBird,
    GatedLinear,
    Linformer,
    Longformer,
    Nystrom,
    Performer,
    ReformerLocal,
    ReformerLSH,
    SelectedBlocks,
    SinkWindow,
    Strided,
)

SHAPES = [16, pytest.param(500, marks=pytest.mark.slow)]
MAX_LEN = 100

SPARSE: dict[str, Callable[[int], AttentionMethod]] = {
    "bigbird": lambda seed: BigBird(window=1, global_blocks=1, random=2, block=8, seed=seed),
    "longformer": lambda seed: Longformer(window=6, global_tokens=seed % 3),
    "sink_window": lambda seed: SinkWindow(window=5, sinks=seed % 3),
    "strided": lambda seed: Strided(stride=1 + seed % 20),
    "selected_blocks": lambda seed: SelectedBlocks(blocks=1 + seed % 3, block=8),
    "lsh": lambda seed: LSH(rounds=1 + seed % 3, buckets=4, window=6, local=seed % 4, seed=seed),
    "reformer_local": lambda seed: ReformerLocal(chunk=8, before=seed % 3, after=seed % 2, unit=24),
}
DENSE: dict[str, Callable[[int], AttentionMethod]] = {
    "linformer": lambda seed: Linformer(rank=7, max_len=MAX_LEN, shared=seed % 2 == 0).double(),
    "nystrom": lambda seed: Nystrom(landmarks=6),
    "performer": lambda seed: Performer(features=16, seed=seed),
    "gated_linear": lambda seed: GatedLinear(head_dim=4, chunk=1 + seed % 9).double(),
    "reformer_lsh": lambda seed: ReformerLSH(chunk=6, before=seed % 2, rounds=1 + seed % 3, unit=12, seed=seed),
}
ALL = SPARSE | DENSE
CAUSAL = [*SPARSE, "performer", "gated_linear"]
STEPS = [*CAUSAL, "reformer_lsh"]  # what its sorted chunks hold depends on later tokens too
# methods with options by which they read every pair
EXACT: dict[str, Callable[[], AttentionMethod]] = {
    "bigbird": lambda: BigBird(window=2 * MAX_LEN + 1, global_blocks=0, random=0, block=1),
    "longformer": lambda: Longformer(window=2 * MAX_LEN, global_tokens=0),
    "sink_window": lambda: SinkWindow(window=MAX_LEN, sinks=0),
    "strided": lambda: Strided(stride=1),
    "selected_blocks": lambda: SelectedBlocks(blocks=MAX_LEN, block=4),
    "lsh": lambda: LSH(rounds=2, buckets=1, window=2 * MAX_LEN, local=3),
    "linformer": lambda: Linformer(rank=MAX_LEN, max_len=MAX_LEN).double(),
    "nystrom": lambda: Nystrom(landmarks=MAX_LEN),
    "reformer_local": lambda: ReformerLocal(chunk=7, before=MAX_LEN),
}


@st.composite
def inputs(draw: st.DrawFn, mask: Mask | None = None, least: int = 0, width: int | None = None) -> AttentionInputs:
    """Self-attention of a ragged batch in float64."""
    count = draw(st.integers(max(least, 1), 3))
    lengths = draw(st.lists(st.integers(least, MAX_LEN), min_size=count, max_size=count))
    layout = Layout.from_lengths(lengths)
    groups, repeats = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    width = draw(st.sampled_from([1, 4, 8])) if width is None else width
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    sizes = (sum(lengths), groups * repeats, width), (sum(lengths), groups, width), (sum(lengths), groups, width)
    q, k, v = (torch.randn(size, generator=generator, dtype=torch.float64).requires_grad_() for size in sizes)
    chosen = draw(st.sampled_from([Full(), Causal()])) if mask is None else mask
    return AttentionInputs(q, k, v, layout, layout, chosen, ScaledDot())


def supported(name: str) -> Mask | None:
    """The mask of the drawn cases: a method that mixes all keys has no causal form, a recurrent one no other."""
    return Causal() if name == "gated_linear" else None if name in STEPS else Full()


def width_of(name: str) -> int | None:
    return 4 if name == "gated_linear" else None


def output_and_gradients(x: AttentionInputs, out: Tensor) -> list[Tensor]:
    weights = torch.linspace(-1, 1, max(out.numel(), 1), dtype=out.dtype)[: out.numel()].view_as(out)
    return [out, *torch.autograd.grad((out * weights).sum(), (x.q, x.k, x.v), allow_unused=False)]


def all_close(left: list[Tensor], right: list[Tensor]) -> None:
    for one, two in zip(left, right, strict=True):
        torch.testing.assert_close(one, two, atol=1e-10, rtol=1e-10)


def test_every_method_is_here() -> None:
    own_tests = "projected_longformer"  # it needs the states of a layer: test_global_projections.py
    assert sorted([*ALL, own_tests]) == sorted(METHODS)


@pytest.mark.parametrize("shapes", SHAPES)
class TestMethods:
    @pytest.mark.parametrize("name", EXACT)
    def test_reads_all_pairs(self, name: str, shapes: int) -> None:
        """With options that leave nothing out, output and gradients are those of exact attention."""
        mask = Causal() if name == "sink_window" else supported(name)

        @settings(max_examples=shapes)
        @given(inputs(mask))
        def holds(x: AttentionInputs) -> None:
            exact = output_and_gradients(x, reference.run(x, 0.0))
            all_close(output_and_gradients(x, EXACT[name]()(x)), exact)

        holds()

    @pytest.mark.parametrize("name", SPARSE)
    def test_is_exact_under_its_mask(self, name: str, shapes: int) -> None:
        """Output and gradients are those of the reference under the method's mask, for small and large tiles."""

        @settings(max_examples=shapes)
        @given(inputs(), st.integers(0, 50), st.sampled_from([2**8, 2**17]))
        def holds(x: AttentionInputs, seed: int, scores: int) -> None:
            method = SPARSE[name](seed)
            under_mask = method.exact_inputs(x)
            assert under_mask is not None
            with use_tuning(sparse_block=8, sparse_tile_scores=scores, sparse_from=1, sparse_fraction=1):
                all_close(output_and_gradients(x, method(x)), output_and_gradients(x, reference.run(under_mask, 0.0)))

        holds()

    @pytest.mark.parametrize("name", ALL)
    def test_rows_are_the_weights_it_used(self, name: str, shapes: int) -> None:
        """The weights times the values are the output, for every sequence and head."""

        @settings(max_examples=shapes // 2)
        @given(inputs(supported(name), width=width_of(name)), st.integers(0, 50))
        def holds(x: AttentionInputs, seed: int) -> None:
            method, x = ALL[name](seed), x.detached()
            out = method(x)
            for sequence in range(x.layout_q.num_sequences):
                rows_q, rows_k = x.layout_q.rows(sequence), x.layout_k.rows(sequence)
                if rows_q.start == rows_q.stop:
                    continue
                for head in range(x.num_heads):
                    weights = method.rows(x, sequence, head, slice(None))
                    expected = weights @ x.v[rows_k, head // x.repeats]
                    torch.testing.assert_close(out[rows_q, head], expected, atol=1e-10, rtol=1e-10)

        holds()

    @pytest.mark.parametrize("name", ALL)
    def test_a_batch_is_its_sequences_one_by_one(self, name: str, shapes: int) -> None:
        @settings(max_examples=shapes // 2)
        @given(inputs(supported(name), width=width_of(name)), st.integers(0, 50))
        def holds(x: AttentionInputs, seed: int) -> None:
            method, x = ALL[name](seed), x.detached()
            together = x.layout_q.split(method(x))
            for sequence, part in enumerate(together):
                rows, alone = x.layout_q.rows(sequence), x.layout_q.select([sequence])
                one = replace(x, q=x.q[rows], k=x.k[rows], v=x.v[rows], layout_q=alone, layout_k=alone)
                torch.testing.assert_close(method(one), part, atol=1e-10, rtol=1e-10)

        holds()

    @pytest.mark.parametrize("name", CAUSAL)
    def test_causal_attention_never_leaks(self, name: str, shapes: int) -> None:
        """Changing a token changes no output before it: neither its values nor what is selected."""

        @settings(max_examples=shapes)
        @given(inputs(Causal(), least=1, width=width_of(name)), st.integers(0, 50), st.data())
        def holds(x: AttentionInputs, seed: int, data: st.DataObject) -> None:
            method, x = ALL[name](seed), x.detached()
            token = data.draw(st.integers(0, len(x.q) - 1))
            other = replace(x, q=x.q.clone(), k=x.k.clone(), v=x.v.clone())
            for tensor in (other.q, other.k, other.v):
                tensor[token] = torch.randn_like(tensor[token]) * 5
            ids, places = x.layout_q.sequence_ids, x.layout_q.positions
            before = (ids != ids[token]) | (places < places[token])
            torch.testing.assert_close(method(other)[before], method(x)[before], atol=1e-12, rtol=0)

        holds()

    @pytest.mark.parametrize("name", STEPS)
    def test_a_step_with_cached_keys_is_the_last_row(self, name: str, shapes: int) -> None:
        """Decoding one token over cached keys gives what the whole text gives."""

        @settings(max_examples=shapes // 2)
        @given(inputs(Causal(), least=1, width=width_of(name)), st.integers(0, 50))
        def holds(x: AttentionInputs, seed: int) -> None:
            method, x = ALL[name](seed), x.detached()
            lengths = x.layout_q.host_lengths
            last = x.layout_q.offsets[1:] - 1
            step = replace(x, q=x.q[last], layout_q=Layout.from_lengths([1] * len(lengths), [n - 1 for n in lengths]))
            torch.testing.assert_close(method(step), method(x)[last], atol=1e-10, rtol=1e-10)

        holds()


@settings(max_examples=16)
@given(inputs(Full(), least=1), st.integers(2, 4))
def test_keys_that_count_several_times(x: AttentionInputs, counts: int) -> None:
    """BigBird as `transformers` computes it: local queries read the first block of keys several times."""
    method = BigBird(window=1, global_blocks=1, random=0, block=8, last_global=True, first_counts=counts)
    found = output_and_gradients(x, method(x))
    expected = []
    for n, (q, k, v) in zip(x.layout_q.host_lengths, zip(*map(x.layout_q.split, (x.q, x.k, x.v))), strict=True):
        k, v = (t.repeat_interleave(x.repeats, 1) for t in (k, v))
        block, last = torch.arange(n) // 8, (n - 1) // 8
        for i in range(n):
            own = int(block[i])
            keys = torch.arange(n)[(block == own) | (block == 0) | (block == last) | (own in (0, last))]
            if own not in (0, last):
                keys = torch.cat([keys, torch.arange(8).repeat(counts - 1)])
            weights = torch.softmax(torch.einsum("hd,shd->hs", q[i], k[keys]) / q.shape[2] ** 0.5, -1)
            expected.append(torch.einsum("hs,shd->hd", weights, v[keys]))
    all_close(found, output_and_gradients(x, torch.stack(expected)))


def test_no_last_block_of_causal_attention() -> None:
    q, layout = torch.zeros(3, 1, 4), Layout.from_lengths([3])
    x = AttentionInputs(q, q, q, layout, layout, Causal(), ScaledDot())
    with pytest.raises(ValueError, match="no last block is global"):
        BigBird(last_global=True)(x)


@pytest.mark.parametrize("name", ["bigbird", "lsh", "linformer", "nystrom"])
def test_dropout_has_the_gradient_of_its_output(name: str) -> None:
    """Along a random direction, the gradient is the slope of the output under the same dropout."""
    generator = torch.Generator().manual_seed(0)
    layout = Layout.from_lengths([37, 20])
    values = [torch.randn(57, 2, 4, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(3)]
    steps = [torch.randn(57, 2, 4, generator=generator, dtype=torch.float64) for _ in range(3)]
    method, up = ALL[name](1), torch.randn(57, 2, 4, generator=generator, dtype=torch.float64)

    def run(size: float) -> Tensor:
        torch.manual_seed(7)
        q, k, v = (x + size * step for x, step in zip(values, steps, strict=True))
        return (method(AttentionInputs(q, k, v, layout, layout, Full(), ScaledDot()), 0.3) * up).sum()

    slope = float((run(1e-6) - run(-1e-6)).detach()) / 2e-6
    found = torch.autograd.grad(run(0.0), values)
    assert sum(float((g * step).sum()) for g, step in zip(found, steps, strict=True)) == pytest.approx(slope, rel=1e-6)
    with torch.no_grad():
        q, k, v = values
        x = AttentionInputs(q, k, v, layout, layout, Full(), ScaledDot())
        assert not torch.equal(method(x, 0.3), method(x, 0.0))


def test_steps_of_a_recurrent_state_are_its_chunks() -> None:
    generator = torch.Generator().manual_seed(0)
    method = GatedLinear(head_dim=4).double()
    q, k, v = (torch.randn(2, 100, 4, generator=generator, dtype=torch.float64) for _ in range(3))
    gates = -torch.rand(2, 100, 4, generator=generator, dtype=torch.float64)
    state, outputs = torch.zeros(2, 4, 4, dtype=torch.float64), []
    for t in range(100):
        out, state = method.step(state, q[:, t], k[:, t], v[:, t], gates[:, t])
        outputs.append(out)
    torch.testing.assert_close(torch.stack(outputs, 1), method.chunked(q, k, v, gates), atol=1e-10, rtol=1e-10)


def test_strong_gates_stay_finite() -> None:
    """A token that forgets everything gives finite outputs and gradients in float32."""
    method = GatedLinear(head_dim=4, chunk=64)
    with torch.no_grad():
        method.bias.fill_(-1e4)
    layout = Layout.from_lengths([200])
    values = [torch.randn(200, 2, 4, generator=torch.Generator().manual_seed(0)).requires_grad_() for _ in range(3)]
    q, k, v = values
    out = method(AttentionInputs(q, k, v, layout, layout, Causal(), ScaledDot()))
    assert all(bool(torch.isfinite(x).all()) for x in (out, *torch.autograd.grad(out.sum(), values)))


def test_more_features_are_nearer_to_exact_attention() -> None:
    """The error of random features falls about as the root of their number."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(200, 2, 16, generator=generator, dtype=torch.float64) for _ in range(3))
    layout = Layout.from_lengths([200])
    x = AttentionInputs(q / 4, k / 4, v, layout, layout, Full(), ScaledDot())  # its variance is exponential in ‖q + k‖²
    exact = reference.run(x, 0.0)
    errors = [
        sum(float((Performer(features=count, seed=seed)(x) - exact).norm()) for seed in range(8))
        for count in (16, 64, 256, 1024)
    ]
    ratios = [one / two for one, two in itertools.pairwise(errors)]
    assert all(1.5 < ratio < 2.7 for ratio in ratios), errors
