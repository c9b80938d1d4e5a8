"""Layers of bytes: torchao's numbers, folders there and back, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

torchao = pytest.importorskip("torchao.quantization", exc_type=ImportError)

from clearhead.attention import Layout  # noqa: E402
from clearhead.attention.capture import look  # noqa: E402
from clearhead.export.compare import ragged  # noqa: E402
from clearhead.export.onnx import export_onnx  # noqa: E402
from clearhead.export.torchao import export_int8  # noqa: E402
from clearhead.hub.folder import open_folder, save_folder  # noqa: E402
from clearhead.layers.int8 import ROWS, Int8Linear, is_int8, to_int8  # noqa: E402
from clearhead.pipeline import load  # noqa: E402
from tests.files.hostile import valid  # noqa: E402
from tests.parity.cases import CASES  # noqa: E402


def filled(linear: nn.Linear) -> Int8Linear:
    """A layer of bytes from a linear one, rounded here and not by torchao."""
    scale = linear.weight.detach().abs().amax(1, keepdim=True) / 127
    layer = Int8Linear(linear.in_features, linear.out_features, bias=linear.bias is not None)
    layer.weight.data = (linear.weight.detach() / scale).round().to(torch.int8)
    layer.scale.data = scale
    if linear.bias is not None:
        assert layer.bias is not None
        layer.bias.data = linear.bias.detach()
    return layer.eval()


@pytest.fixture
def folder(tmp_path):
    return valid(tmp_path / "bert")


@pytest.mark.parametrize("rows", [0, 1, 7, ROWS, 2 * ROWS + 3])
@pytest.mark.parametrize("bias", [True, False])
def test_near_the_linear_layer(rows, bias):
    linear = nn.Linear(48, 20, bias=bias)
    x = torch.randn(rows, 48) * torch.rand(rows, 1) * 10
    got = filled(linear)(x)
    assert got.shape == (rows, 20) and got.dtype == torch.float32
    # half a step of weight and of activation on each of 48 products, all the same way: never reached
    bound = x.abs().amax(1, keepdim=True) * linear.weight.abs().max() * 48 / 127 if rows else 0
    assert ((got - linear(x).detach()).abs() <= bound).all()


def test_a_token_says_the_same_alone_and_in_a_batch():
    layer, x = filled(nn.Linear(48, 20)), torch.randn(2 * ROWS + 3, 48)
    x[5] = 0.0
    x[6] *= 1e4
    alone = torch.cat([layer(row.unsqueeze(0)) for row in x])
    assert torch.equal(layer(x), alone) and torch.isfinite(alone).all()


def test_the_numbers_are_torchaos():
    linear = nn.Linear(64, 32)
    x = torch.randn(40, 64)
    theirs = nn.Sequential(nn.Linear(64, 32))
    theirs[0].load_state_dict(linear.state_dict())
    torchao.quantize_(theirs, torchao.Int8DynamicActivationInt8WeightConfig(set_inductor_config=False))
    ours = Int8Linear(64, 32).eval()
    weight: Any = theirs[0].weight
    assert ours.bias is not None
    ours.weight.data, ours.scale.data, ours.bias.data = weight.qdata, weight.scale.reshape(32, 1), linear.bias.detach()
    with torch.no_grad():
        want = theirs(x)
    torch.testing.assert_close(ours(x), want, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "name", ["BertForTokenClassification", "AlbertForMaskedLM", "ModernBertModel", "T5EncoderModel"]
)
def test_there_and_back(name, tmp_path):
    """Of each table's shape: plain, shared, joined, without biases."""
    next(case for case in CASES if str(case) == name).make(tmp_path / "model")
    opened = open_folder(tmp_path / "model")
    export_int8(opened, tmp_path / "int8")
    back = open_folder(tmp_path / "int8")
    assert is_int8(back.model) and not back.missing_keys and not back.unexpected_keys
    assert not any(type(m) is nn.Linear for n, m in back.model.named_modules() if ".blocks." in n)
    by_hand = open_folder(tmp_path / "model")
    to_int8(by_hand.model)
    linear = dict(opened.model.named_modules())
    for at, layer in by_hand.model.named_modules():
        if isinstance(layer, Int8Linear):
            source = linear[at]
            assert isinstance(source, nn.Linear)
            layer.load_state_dict(filled(source).state_dict())
    layout, ids = Layout.from_lengths((7, 1, 24)), torch.randint(4, 58, (32,))
    got, want = (ragged(o)(ids, layout, None) for o in (back, by_hand))
    true = ragged(opened)(ids, layout, None)
    for answer in want:
        error = (got[answer] - true[answer]).norm() / true[answer].norm()
        apart = (got[answer] - want[answer]).norm() / true[answer].norm()
        assert error < 0.1 and apart < 0.1


def test_transformers_opens_it(folder, tmp_path):
    transformers = pytest.importorskip("transformers")
    export_int8(open_folder(folder), tmp_path / "int8")
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "int8")
    assert "Int8Tensor" in type(theirs.encoder.layer[0].output.dense.weight).__name__
    assert type(theirs.pooler.dense.weight) is nn.Parameter
    ours, true = open_folder(tmp_path / "int8"), open_folder(folder)
    ids = torch.randint(5, 30, (12,))
    with torch.no_grad():
        want = theirs(ids.unsqueeze(0)).last_hidden_state[0]
    got, exact = (ragged(o)(ids, Layout.from_lengths([12]), None)["last_hidden_state"] for o in (ours, true))
    assert (got - want).abs().max() <= 2 * (exact - want).abs().max()


def test_the_face_looks_and_encodes(folder, tmp_path):
    export_int8(open_folder(folder), tmp_path / "int8")
    app = load(tmp_path / "int8")
    with look(app.model) as seen:
        vectors = app.encode(["a b c", "d"])
    assert torch.isfinite(vectors).all() and len(seen) == 1
    assert load(tmp_path / "int8", dtype="bfloat16").encode("a b").dtype == torch.float32


def test_what_is_refused(folder, tmp_path):
    export_int8(open_folder(folder), tmp_path / "int8")
    opened = open_folder(tmp_path / "int8")
    with pytest.raises(ValueError, match="int8 model cannot be saved"):
        save_folder(opened, tmp_path / "again")
    with pytest.raises(ValueError, match="already int8: copy its folder"):
        export_int8(opened, tmp_path / "again")
    with pytest.raises(ValueError, match="already int8: export the original"):
        export_onnx(opened, tmp_path / "again")
    with pytest.raises(ValueError, match="cannot be trained"):
        opened.model.train()(torch.tensor([5, 6]), Layout.from_lengths([2]))
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda name, t: {} if name.endswith("_scale") else {name: t}, r"is int8 and needs .*_scale"),
        (lambda name, t: {name: t[:-1]} if name.endswith("_scale") else {name: t}, r"is int8 and needs .*_scale"),
        (lambda name, t: {name: t.float()} if name.endswith("_qdata") else {name: t}, "int8 layers need I8"),
        (lambda name, t: {name: t + 1} if name.endswith("_zero_point") else {name: t}, "nonzero zero point"),
    ],
)
def test_damaged_folders(change, words, folder, tmp_path):
    export_int8(open_folder(folder), tmp_path / "int8")
    (tmp_path / "int8" / "clearhead.json").unlink()
    config = json.loads((tmp_path / "int8" / "config.json").read_text())
    (tmp_path / "int8" / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "clearhead"}))
    tensors = load_file(tmp_path / "int8" / "model.safetensors")
    changed = {n: t.contiguous() for name, tensor in tensors.items() for n, t in change(name, tensor).items()}
    save_file(changed, tmp_path / "int8" / "model.safetensors")
    with pytest.raises(ValueError, match=words):
        open_folder(tmp_path / "int8")
