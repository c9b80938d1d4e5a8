"""The varlen kernel with numbers: its own code, torch's `varlen_attn` and autograd, over an emulated operator."""

import pytest
import torch

from clearhead.attention import Causal, Full, Layout, ScaledDot, Window, attend, choose
from clearhead.attention import flash_varlen as flash
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels import unsupported_reason, varlen
from clearhead.attention.kernels.reference import dense_weights
from clearhead.models import TransformerConfig, build_encoder_decoder
from tests.attention.emulated_flash import emulated_flash, keep_mask, on_cuda

# worst measured in 560 shapes, relative to the largest value: bfloat16 1.29e-2, float16 2.0e-3
TOLERANCE = {torch.bfloat16: 1.5e-2, torch.float16: 2.5e-3}


@pytest.fixture(autouse=True)
def one_thread():
    """The products are small: threads would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def drawn_case(seed: int) -> AttentionInputs:
    """A random call: ragged, empty and single sequences, chunks of longer ones, shared key heads, every band."""
    generator = torch.Generator().manual_seed(seed)

    def pick(*values):
        return values[int(torch.randint(len(values), (), generator=generator))]

    count, heads, width, dtype = pick(1, 2, 3, 6), pick(2, 4), pick(8, 16, 24, 64, 200), pick(*flash.DTYPES)
    keys = torch.randint(pick(0, 1), pick(3, 9, 40), (count,), generator=generator).tolist()
    mask = pick(Full(), Causal(), Window(3, 0), Window(2, 5), Window(0, 1) & Causal(), Causal() & Window(60, 60))
    if pick(True, False):  # the last tokens of each sequence, as after a cache
        queries = [min(n, pick(0, 1, 1, 2, 7)) for n in keys]
        layout_k = Layout.from_lengths(keys, [pick(0, 4)] * count)
        starts = [s + n - m for s, n, m in zip(layout_k.host_starts, keys, queries, strict=True)]
        layout_q = Layout.from_lengths(queries, starts)
    elif isinstance(mask, Full):
        layout_q = Layout.from_lengths(torch.randint(0, 20, (count,), generator=generator))
        layout_k = Layout.from_lengths(keys)
    else:
        layout_q = layout_k = Layout.from_lengths(keys)
    groups = heads // pick(1, 2)
    sizes = (layout_q.num_tokens, heads), (layout_k.num_tokens, groups), (layout_k.num_tokens, groups)
    q, k, v = (torch.randn(*size, width, generator=generator).to(dtype).requires_grad_() for size in sizes)
    return AttentionInputs(q, k, v, layout_q, layout_k, mask, ScaledDot())


def both(inputs: AttentionInputs, kernel: str, dtype: torch.dtype) -> list[torch.Tensor]:
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in (inputs.q, inputs.k, inputs.v))
    out = attend(q, k, v, inputs.layout_q, inputs.layout_k, mask=inputs.mask, kernel=kernel)
    weights = torch.linspace(-1, 1, out.numel()).view(out.shape).to(inputs.q.dtype).to(dtype)
    return [out.detach(), *torch.autograd.grad(out, (q, k, v), weights)]


def error(seed: int, **mistakes: int | bool) -> float | None:
    """The largest error of output and gradients over the tolerance; None if varlen refuses the case."""
    inputs = drawn_case(seed)
    if unsupported_reason("varlen", inputs, 0.0, on_cuda(80)) is not None:
        return None
    want = both(inputs, "reference", torch.float32)
    with emulated_flash(**mistakes) as operator:
        assert choose(inputs, 0.0) == "varlen"
        got = both(inputs, "auto", inputs.q.dtype)
    assert operator.calls == 2
    pairs = zip(got, want, strict=True)
    # gradients of few keys cancel to less than the rounding of their terms
    errors = [float((a.float() - b).abs().max() / b.abs().max().clamp(min=0.5)) for a, b in pairs if b.numel()]
    return max(errors) / TOLERANCE[inputs.q.dtype]


@pytest.mark.parametrize("seeds", [range(30), pytest.param(range(30, 560), marks=pytest.mark.slow)], ids=["30", "530"])
def test_random_shapes_against_the_reference(seeds):
    errors = [error(seed) for seed in seeds]
    ran = [e for e in errors if e is not None]
    assert len(ran) >= 0.75 * len(errors)
    assert max(ran) < 1


@pytest.mark.parametrize(
    "mistake", [{"top_left": True}, {"shift": 1}, {"shift": -1}, {"row_shift": -1}], ids=lambda m: str(*m.items())
)
def test_a_shift_by_one_is_found(mistake):
    errors = [e for seed in range(12) if (e := error(seed, **mistake)) is not None]
    assert sum(e > 1 for e in errors) >= 3
    assert max(errors) > 20


@pytest.mark.parametrize("mask", [Full(), Causal(), Window(2, 1)], ids=str)
def test_dropout_has_the_gradient_of_its_own_mask(mask):
    lengths, p = [5, 1, 0, 9], 0.25
    layout = Layout.from_lengths(lengths)
    q, k, v = (torch.randn(15, heads, 8).to(torch.bfloat16).requires_grad_() for heads in (4, 2, 2))
    with emulated_flash():
        torch.manual_seed(3)
        got = attend(q, k, v, layout, layout, mask=mask, dropout=p)
        torch.manual_seed(3)
        assert torch.equal(got, attend(q, k, v, layout, layout, mask=mask, dropout=p))
        got_grads = torch.autograd.grad(got.float().square().sum(), (q, k, v))
    torch.manual_seed(3)
    seed = int(torch.randint(2**62, ()))
    exact = [x.detach().float().requires_grad_() for x in (q, k, v)]
    inputs, parts, i = AttentionInputs(exact[0], exact[1], exact[2], layout, layout, mask, ScaledDot()), [], 0
    for sequence in range(4):
        if lengths[sequence]:
            weights = dense_weights(inputs, sequence)
            values = exact[2][layout.rows(sequence)].repeat_interleave(2, 1)
            parts.append(torch.einsum("hts,shv->thv", weights * keep_mask(weights, p, seed, i), values))
            i += 1
    want = torch.cat(parts)
    want_grads = torch.autograd.grad(want.square().sum(), exact)
    for a, b in zip((got.detach(), *got_grads), (want.detach(), *want_grads), strict=True):
        assert (a.float() - b).abs().max() / b.abs().max() < 1.5e-2  # worst measured: 9e-3


def call(
    lengths=(3, 5), keys=None, *, width=16, groups=4, dtype=torch.bfloat16, mask=None, starts=None, values=None
) -> AttentionInputs:
    layout_q = Layout.from_lengths(lengths, starts)
    layout_k = layout_q if keys is None else Layout.from_lengths(keys)
    q = torch.zeros(layout_q.num_tokens, 4, width, dtype=dtype, requires_grad=True)
    k = torch.zeros(layout_k.num_tokens, groups, width, dtype=dtype)
    v = torch.zeros(layout_k.num_tokens, groups, values or width, dtype=dtype)
    return AttentionInputs(q, k, v, layout_q, layout_k, Causal() if mask is None else mask, ScaledDot())


@pytest.mark.parametrize(
    ("inputs", "sm", "dropout", "says"),
    [
        (call(), 75, 0.0, "8.0 or newer; this is sm75"),
        (call(dtype=torch.float32), 80, 0.0, "float16 and bfloat16, not torch.float32"),
        (call(width=264), 80, 0.0, "heads of at most 256; these have 264"),
        (call(width=12), 80, 0.0, "a multiple of 8; these have 12"),
        (call(width=208), 86, 0.0, "no backward for heads of 208 on sm86"),
        (call(width=256), 89, 0.1, "no backward for heads of 256 on sm89"),
        (call([]), 80, 0.0, "no queries or no keys"),
        (call([0, 0]), 80, 0.0, "no queries or no keys"),
        (call([1, 0], [3, 2], groups=2, mask=Full()), 80, 0.0, "either each sequence has one query"),
        (call([0] * 65_536 + [1]), 80, 0.0, "65535 sequences"),
    ],
)
def test_what_the_operator_refuses_is_refused_before_it(inputs, sm, dropout, says):
    reason = unsupported_reason("varlen", inputs, dropout, on_cuda(sm))
    assert reason is not None and says in reason
    with emulated_flash(sm), pytest.raises(RuntimeError):
        varlen.run(inputs, dropout).sum().backward()
    with emulated_flash(sm):  # `auto` takes another kernel, and runs
        assert choose(inputs, dropout) != "varlen"
        if inputs.layout_q.num_sequences < 100:
            attend(inputs.q, inputs.k, inputs.v, inputs.layout_q, inputs.layout_k, mask=inputs.mask).sum().backward()


def test_a_wide_head_runs_where_there_is_memory_for_it():
    for sm, width, dropout in ((80, 208, 0.0), (90, 256, 0.1), (86, 256, 0.0), (86, 192, 0.1)):
        assert unsupported_reason("varlen", call(width=width), dropout, on_cuda(sm)) is None
        with emulated_flash(sm):
            varlen.run(call(width=width), dropout).sum().backward()


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        (call([3, 5], [3, 7]), "aligned with the last key"),
        (call([3, 5], [3, 5], starts=[0, 1]), "aligned with the last key"),
        (call(values=8), "as wide as keys"),
    ],
)
def test_what_it_would_compute_wrongly_is_refused(inputs, says):
    reason = unsupported_reason("varlen", inputs, 0.0, on_cuda(80))
    assert reason is not None and says in reason


def test_a_window_beyond_the_keys_is_not_dropped():
    """Of more queries than keys the first would see keys: the operator drops a right limit that exceeds the keys."""
    layout_q, layout_k = Layout.from_lengths([8]), Layout.from_lengths([2], [6])
    q, k, v = (torch.randn(n, 1, 8).to(torch.bfloat16) for n in (8, 2, 2))
    inputs = AttentionInputs(q, k, v, layout_q, layout_k, Window(9, 3), ScaledDot())
    reason = unsupported_reason("varlen", inputs, 0.0, on_cuda(80))
    assert reason is not None and "as many keys as queries" in reason
    with emulated_flash():
        assert varlen.run(inputs, 0.0)[0].abs().max() > 0
        assert not attend(q, k, v, layout_q, layout_k, mask=Window(9, 3))[0].any()


def test_rows_that_are_not_contiguous_are_copied():
    layout = Layout.from_lengths([3, 2])
    q, k, v = (torch.randn(5, 8, 2).to(torch.bfloat16).transpose(1, 2) for _ in range(3))
    with emulated_flash():
        got = attend(q, k, v, layout, layout)
    want = attend(q.float(), k.float(), v.float(), layout, layout, kernel="reference")
    assert (got.float() - want).abs().max() / want.abs().max() < TOLERANCE[torch.bfloat16]


def test_a_model_trains_with_it():
    """Encoder, decoder and cross-attention in bfloat16, with attention dropout in training mode."""
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=40, width=32, num_layers=2, num_heads=4, num_kv_heads=2, ffn_dim=48, dropout=0
    )
    model = build_encoder_decoder(config).to(torch.bfloat16)
    source, target = Layout.from_lengths([4, 9, 1]), Layout.from_lengths([6, 2, 3])
    batch = torch.randint(40, (14,)), source, torch.randint(40, (11,)), target
    want = model(*batch)
    with emulated_flash() as operator:
        got = model(*batch)
        got.float().square().sum().backward()
    assert operator.calls == 12  # three attentions of two layers, forward and backward
    assert (got - want).detach().abs().max() / want.detach().abs().max() < 2.5e-2
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_the_private_operator_is_the_one_that_is_called():
    """Another signature in a newer torch shows here, before dropout fails on a GPU."""
    schema = str(flash._forward._schema)
    assert schema.startswith(
        "aten::_flash_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k, "
        "SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, float? scale=None, "
        "SymInt? window_size_left=None, SymInt? window_size_right=None, "
    )
    assert "-> (Tensor output, Tensor softmax_logsumexp, Tensor rng_state, Tensor unused, " in schema
