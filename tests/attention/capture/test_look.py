import copy
import csv
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clearhead.attention import AttentionCore, Causal, Layout, MultiHead, Window, ablate_heads
from clearhead.attention.capture import look
from clearhead.attention.capture.bins import Pool
from clearhead.attention.kernels.reference import dense_weights
from clearhead.layers import Block
from clearhead.models import TransformerConfig, TransformerStack, build_encoder, build_encoder_decoder

CONFIG = TransformerConfig(vocab_size=50, width=32, num_layers=2, num_heads=4, ffn_dim=48, dropout=0.0)
SOURCE, TARGET = Layout.from_lengths([5, 40, 1]), Layout.from_lengths([3, 2, 7])
SOURCE_IDS, TARGET_IDS = torch.arange(46) % 50, torch.arange(12) % 50


@pytest.fixture
def model():
    return build_encoder_decoder(CONFIG).eval()


def test_names_and_kinds(model):
    with look(model) as seen:
        model(SOURCE_IDS, SOURCE, TARGET_IDS, TARGET)
    assert list(seen) == ["encoder.0", "encoder.1", "decoder.0", "decoder.0.cross", "decoder.1", "decoder.1.cross"]
    assert seen["decoder.1.cross"].shape(1) == (2, 40)
    with look(model, kinds=["cross"]) as seen:
        model(SOURCE_IDS, SOURCE, TARGET_IDS, TARGET)
    assert list(seen) == ["decoder.0.cross", "decoder.1.cross"]
    with look(model, layers=[1], kinds=["self"]) as seen:
        pass
    assert list(seen) == ["encoder.1", "decoder.1"]
    with look(model, layers=["decoder.0"]) as seen:
        pass
    with pytest.raises(LookupError, match="did not run it"):
        seen["decoder.0"]
    with pytest.raises(LookupError, match=r"no attention is named 'encoder.0'; captured: decoder.0"):
        seen["encoder.0"]


def test_wrong_words_are_refused(model):
    with (
        pytest.raises(ValueError, match=r"no attention 'encoder.9': it has encoder.0, encoder.1"),
        look(model, layers=["encoder.9"]),
    ):
        pass
    with pytest.raises(ValueError, match="'self' or 'cross'"), look(model, kinds=["both"]):  # type: ignore[list-item]
        pass
    with pytest.raises(ValueError, match="the model has none"), look(torch.nn.Linear(2, 2)):
        pass


@pytest.mark.parametrize("kernel", ["reference", "grouped"])
@pytest.mark.parametrize("training", [False, True])
def test_weights_are_the_reference(kernel, training):
    torch.manual_seed(1)
    model = MultiHead(32, 4, num_kv_heads=2, core=AttentionCore(kernel=kernel, dropout=0.5)).train(training)
    x = torch.randn(46, 32)
    with look(model) as seen:
        model(x, SOURCE, mask=Causal())
    view = seen["attention"]
    assert not view.inputs.q.requires_grad
    for sequence in range(3):
        want = dense_weights(view.inputs, sequence)
        torch.testing.assert_close(view.heads(sequence), want, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(view.rows([-1], 2, sequence), want[2, -1:], atol=1e-6, rtol=1e-5)


def test_nothing_is_copied_and_nothing_stays(model):
    kept = {}

    def spy(module, args):
        kept["call"] = args[0]

    handle = model.encoder.blocks[0].attention.core.register_forward_pre_hook(spy)
    with look(model) as seen:
        model(SOURCE_IDS, SOURCE, TARGET_IDS, TARGET)
    handle.remove()
    call = seen["encoder.0"].inputs
    assert call.q.data_ptr() == kept["call"].q.data_ptr()
    assert call.v.data_ptr() == kept["call"].v.data_ptr()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_hooks_leave_even_after_an_error(model):
    with pytest.raises(RuntimeError, match="stop"), look(model), ablate_heads(model, {"encoder.0": [0]}):
        raise RuntimeError("stop")
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_tiles_pool_what_they_say():
    torch.manual_seed(2)
    model = MultiHead(16, 2)
    layout = Layout.from_lengths([9, 61])
    with look(model) as seen:
        model(torch.randn(70, 16) * 3, layout, mask=Window(30, 20))
    view = seen["attention"]
    whole = dense_weights(view.inputs, 1)[1]  # (61, 61)
    norms = view.norms(1, 1)
    for queries, keys, size in (
        (slice(None), slice(None), (61, 61)),
        (slice(None), slice(None), (7, 10)),
        (slice(5, 40), slice(11, 60), (8, 6)),
        (slice(60, 61), slice(0, 3), (4, 4)),
    ):
        part = whole[queries, keys]
        tall, wide = min(size[0], part.shape[0]), min(size[1], part.shape[1])
        rows = [part.shape[0] * i // tall for i in range(tall + 1)]
        columns = [part.shape[1] * i // wide for i in range(wide + 1)]
        for moved in (False, True):
            scaled = part * norms[keys] if moved else part
            cells = [
                [scaled[rows[i] : rows[i + 1], columns[j] : columns[j + 1]] for j in range(wide)] for i in range(tall)
            ]
            pools: tuple[tuple[Pool, Callable[[torch.Tensor], torch.Tensor]], ...]
            pools = (("max", torch.max), ("mean", torch.mean))
            for pool, reduce in pools:
                want = torch.stack([torch.stack([reduce(c) for c in line]) for line in cells])
                got = view.tile(1, queries, keys, size=size, pool=pool, sequence=1, value_weighted=moved)
                torch.testing.assert_close(got, want, atol=1e-6, rtol=1e-5)


def test_tiles_of_extreme_scores():
    """Scores far beyond what exponentials hold: pooled maps still are the softmax."""
    torch.manual_seed(3)
    model = MultiHead(16, 2)
    with look(model) as seen:
        model(torch.randn(40, 16) * 100, Layout.from_lengths([40]))
    view = seen["attention"]
    whole = dense_weights(view.inputs, 0)[0]
    torch.testing.assert_close(view.overview(0, 40), whole, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(view.tile(0, keys=slice(3, 30)), whole[:, 3:30], atol=1e-6, rtol=1e-5)


def test_moved_is_the_norm_of_value_times_output():
    torch.manual_seed(4)
    model = MultiHead(12, 3)
    x, layout = torch.randn(5, 12), Layout.from_lengths([5])
    with look(model) as seen:
        model(x, layout)
    view, head = seen["attention"], 2
    value = model.value(x)[:, 8:12]
    want = (value @ model.output.weight[:, 8:12].T).norm(dim=1)
    torch.testing.assert_close(view.norms(head), want, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        view.rows([1], head, value_weighted=True), view.rows([1], head) * want, atol=1e-6, rtol=1e-5
    )


def test_entropy_distance_and_rollout(model):
    with look(model, kinds=["self"]) as seen:
        model(SOURCE_IDS, SOURCE, TARGET_IDS, TARGET)
    view = seen["encoder.1"]
    weights = view.heads(1)
    entropy = -(weights * weights.clamp_min(1e-30).log()).sum(-1).mean(-1)
    at = torch.arange(40.0)
    distance = (weights * (at[:, None] - at).abs()).sum(-1).mean(-1)
    torch.testing.assert_close(view.entropy(1), entropy, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(view.distance(1), distance, atol=1e-4, rtol=1e-5)
    flow = torch.eye(40)
    for name in ("encoder.0", "encoder.1"):
        flow = (0.5 * torch.eye(40) + 0.5 * seen[name].heads(1).mean(0)) @ flow
    torch.testing.assert_close(seen.rollout(sequence=1), flow, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(seen.rollout([3, 7], sequence=1), flow[[3, 7]], atol=1e-6, rtol=1e-5)
    with pytest.raises(LookupError, match="stack named 'middle'"):
        seen.rollout(stack="middle")


def test_numpy_and_csv(tmp_path, model):
    with look(model) as seen:
        model(SOURCE_IDS, SOURCE, TARGET_IDS, TARGET)
    view = seen["decoder.0.cross"]
    view.to_csv(tmp_path / "head.csv", 1, 0, queries=["a", "b,", 'c"'], keys=list("vwxyz"))
    with open(tmp_path / "head.csv", newline="") as file:
        table = list(csv.reader(file))
    assert table[0] == ["", "v", "w", "x", "y", "z"]
    assert [row[0] for row in table[1:]] == ["a", "b,", 'c"']
    numbers = np.array([[float(x) for x in row[1:]] for row in table[1:]])
    np.testing.assert_allclose(numbers, view.numpy(1, 0), rtol=1e-6)
    with pytest.raises(ValueError, match="the map is 3 x 5, but 2 query"):
        view.to_csv(tmp_path / "no.csv", 1, 0, queries=["a", "b"])


def test_questions_out_of_range(model):
    with look(model) as seen:
        model(SOURCE_IDS, SOURCE, TARGET_IDS, TARGET)
    view = seen["encoder.0"]
    with pytest.raises(ValueError, match="heads are 0 to 3"):
        view.head(4)
    with pytest.raises(ValueError, match="batch has 0 to 2"):
        view.head(0, sequence=3)
    with pytest.raises(ValueError, match=r"queries 0 to 4, not \[5\]"):
        view.rows([5], 0)
    with pytest.raises(ValueError, match="empty block"):
        view.tile(0, slice(3, 3))


@pytest.mark.parametrize("kernel", ["reference", "grouped"])
def test_without_heads(kernel):
    """Switching heads off is the model whose output projection never hears them."""
    torch.manual_seed(5)
    model = MultiHead(32, 4, core=AttentionCore(kernel=kernel))
    x = torch.randn(46, 32)
    before = model(x, SOURCE)
    with ablate_heads(model, {"attention": [1, 3]}):
        got = model(x, SOURCE)
    deaf = model.output.weight.detach().clone().view(32, 4, 8)
    deaf[:, [1, 3]] = 0
    with look(model):
        heard = []
        handle = model.core.register_forward_hook(lambda m, a, out: heard.append(out))
        model(x, SOURCE)
        handle.remove()
    torch.testing.assert_close(
        got, F.linear(heard[0].flatten(1), deaf.flatten(1), model.output.bias), atol=1e-6, rtol=1e-5
    )
    with ablate_heads(model, {"attention": "all"}):
        assert torch.equal(model(x, SOURCE), model.output.bias.expand(46, 32))
    assert torch.equal(model(x, SOURCE), before)
    with (
        pytest.raises(ValueError, match=r"attention has heads 0 to 3, not \[4\]"),
        ablate_heads(model, {"attention": [4]}),
    ):
        model(x, SOURCE)


def test_calls_in_order():
    model = build_encoder(CONFIG).eval()
    with look(model) as seen:
        for n in (2, 3, 4):
            model(torch.zeros(n, dtype=torch.long), Layout.from_lengths([n]))
    assert [v.shape() for v in seen.calls("0")] == [(2, 2), (3, 3), (4, 4)]
    assert seen["0"].shape() == (4, 4)


def test_low_precision_models_are_read_in_float32():
    model = MultiHead(32, 4).to(torch.bfloat16)
    with look(model) as seen:
        model(torch.randn(46, 32).to(torch.bfloat16), SOURCE)
    rows = seen["attention"].rows([0, 1], 0, 1)
    assert rows.dtype == torch.float32
    assert torch.allclose(rows.sum(-1), torch.ones(2), atol=1e-6)


def shared_and_apart():
    """A model whose layers share one block in the encoder and one in the decoder, and its twin with copies."""
    shared = build_encoder_decoder(CONFIG).eval()
    for stack in (shared.encoder, shared.decoder):
        assert isinstance(stack, TransformerStack)
        stack.blocks = torch.nn.ModuleList([stack.blocks[0]] * 3)
    apart = copy.deepcopy(shared)
    for stack in (apart.encoder, apart.decoder):
        assert isinstance(stack, TransformerStack)
        stack.blocks = torch.nn.ModuleList([copy.deepcopy(stack.blocks[0]) for _ in range(3)])
    return shared, apart


def test_layers_that_share_a_block_have_names_of_their_own():
    shared, apart = shared_and_apart()
    with look(shared) as seen, look(apart) as want:
        for _ in range(2):
            shared(SOURCE_IDS, SOURCE, TARGET_IDS, TARGET)
            apart(SOURCE_IDS, SOURCE, TARGET_IDS, TARGET)
    names = [f"encoder.{i}" for i in range(3)] + [n for i in range(3) for n in (f"decoder.{i}", f"decoder.{i}.cross")]
    assert list(seen) == list(want) == names
    for name in names:
        for got, expected in zip(seen.calls(name), want.calls(name), strict=True):
            assert torch.equal(got.heads(1), expected.heads(1))
    assert not torch.equal(seen["encoder.0"].heads(1), seen["encoder.1"].heads(1))
    assert torch.equal(seen.rollout([0], sequence=1), want.rollout([0], sequence=1))


def test_shared_layers_stay_aligned_after_an_error_and_under_filters():
    shared, apart = shared_and_apart()
    assert isinstance(shared.encoder, TransformerStack)
    block = shared.encoder.blocks[0]
    assert isinstance(block, Block)
    with look(apart) as want:
        apart(SOURCE_IDS, SOURCE, TARGET_IDS, TARGET)
    with look(shared, layers=["encoder.1", "decoder.2.cross"]) as seen:
        shared.encoder(SOURCE_IDS, SOURCE)  # a part of the model alone
        with pytest.raises(RuntimeError, match="shape"):
            block.attention(torch.zeros(46, 31), SOURCE)
        block.attention(torch.zeros(46, 32), SOURCE)  # one layer alone, out of turn
        shared(SOURCE_IDS, SOURCE, TARGET_IDS, TARGET)
    for name in seen:
        assert torch.equal(seen[name].heads(1), want[name].heads(1))
    assert [len(seen.calls(name)) for name in seen] == [2, 1]


def test_shared_layers_are_switched_off_one_by_one():
    shared, apart = shared_and_apart()
    heads = {"encoder.1": [0, 3], "decoder.2.cross": "all"}
    before = shared(SOURCE_IDS, SOURCE, TARGET_IDS, TARGET)
    for _ in range(2):
        with ablate_heads(shared, heads), ablate_heads(apart, heads):
            got = shared(SOURCE_IDS, SOURCE, TARGET_IDS, TARGET)
            assert torch.equal(got, apart(SOURCE_IDS, SOURCE, TARGET_IDS, TARGET))
            assert not torch.equal(got, before)
    assert torch.equal(shared(SOURCE_IDS, SOURCE, TARGET_IDS, TARGET), before)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in shared.modules())


def test_another_name_for_a_module_is_no_other_layer(model):
    model.again = model.encoder
    with look(model) as seen:
        model(SOURCE_IDS, SOURCE, TARGET_IDS, TARGET)
    assert list(seen) == ["encoder.0", "encoder.1", "decoder.0", "decoder.0.cross", "decoder.1", "decoder.1.cross"]
    assert all(len(seen.calls(name)) == 1 for name in seen)


def test_views_may_be_made_when_asked():
    made = []

    def make():
        made.append(1)
        return view

    with look(MultiHead(16, 2)) as seen:
        pass
    model = MultiHead(16, 2)
    with look(model) as source:
        model(torch.randn(3, 16), Layout.from_lengths([3]))
    view = source["attention"]
    seen.add("attention", make)
    assert repr(seen) == "AttentionCapture(attention: 1)"
    assert not made
    assert seen["attention"] is seen.calls("attention")[0] is view
    assert made == [1]


def test_a_capture_names_the_kernel_that_ran():
    model = MultiHead(32, 4, core=AttentionCore(dropout=0.1))
    for lengths, training, kernel in (
        ([9] * 4, False, "sdpa"),
        ([9, 8] * 8, False, "bucketed"),
        ([9, 40], True, "bucketed"),
        ([9, 80], False, "grouped"),
    ):
        layout = Layout.from_lengths(lengths)
        with torch.set_grad_enabled(training), look(model.train(training)) as capture:
            model(torch.randn(layout.num_tokens, 32), layout)
        assert capture["attention"].kernel == kernel
