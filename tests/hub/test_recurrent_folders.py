"""Folders of recurrent nets: what is saved is opened to the bit, told by `clearhead info`, and refused where it is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from clearhead import load
from clearhead.attention import Layout
from clearhead.cli import app
from clearhead.hub.describe import describe
from clearhead.hub.families import FAMILIES
from clearhead.hub.families.recurrent import RECURRENT
from clearhead.hub.folder import LoadedModel, open_folder, save_folder
from clearhead.models import HeadConfig, ModelConfig, RecurrentConfig, build
from clearhead.text import Tokenizer
from tests.files.hostile import valid

ENCODER = RecurrentConfig(kind="lstm", vocab_size=31, width=6, hidden_size=5, num_layers=2, bidirectional=True)
DECODER = RecurrentConfig(vocab_size=31, width=6, hidden_size=8, attention="additive", input_feeding=True, dropout=0.2)
SPEAKER = replace(DECODER, attention="none", input_feeding=False)
WORDS = HeadConfig(kind="lm", width=6, vocab_size=31)
HEARD: dict[str, Any] = {"width": 10, "vocab_size": 31}
CONFIGS = {
    "RecurrentEncoder": ModelConfig(encoder=ENCODER),
    "RecurrentDecoder": ModelConfig(decoder=SPEAKER),
    "RecurrentEncoderDecoder": ModelConfig(encoder=ENCODER, decoder=DECODER),
    "RecurrentForSequenceClassification": ModelConfig(
        encoder=ENCODER,
        head=HeadConfig(kind="sequence", labels=("yes", "no"), pool="bidirectional_last", dropout=0.1, **HEARD),
    ),
    "RecurrentForTokenClassification": ModelConfig(
        encoder=ENCODER, head=HeadConfig(kind="token", labels=("A", "B", "C"), inner=4, activation="tanh", **HEARD)
    ),
    "RecurrentForQuestionAnswering": ModelConfig(
        encoder=ENCODER, head=HeadConfig(kind="span", labels=("start", "end"), **HEARD)
    ),
    "RecurrentForCausalLM": ModelConfig(decoder=SPEAKER, head=replace(WORDS, tied=False, bias=False)),
    "RecurrentForConditionalGeneration": ModelConfig(
        encoder=ENCODER, decoder=DECODER, head=WORDS, shared_embedding=False
    ),
}
every = pytest.mark.parametrize("architecture", list(CONFIGS))


def made(config, tokenizer=None):
    """A model that was just built, as training would save it."""
    torch.manual_seed(0)
    return LoadedModel(build(config).eval(), config, RECURRENT, RECURRENT.architecture_of(config), {}, tokenizer)


def outputs(opened):
    torch.manual_seed(0)
    source, target = Layout.from_lengths([4, 1, 3]), Layout.from_lengths([2, 5, 3])
    args = [torch.randint(31, (8,)), source]
    if opened.config.encoder is not None and opened.config.decoder is not None:
        args += [torch.randint(31, (10,)), target]
    with torch.no_grad():
        return opened.model(*args)


@every
def test_saved_and_opened_to_the_bit(architecture, tmp_path):
    first = made(CONFIGS[architecture])
    assert first.architecture == architecture
    save_folder(first, tmp_path / "net", metadata={"data": "none"})
    again = open_folder(tmp_path / "net")
    assert again.config == first.config and again.architecture == architecture
    assert not again.missing_keys and not again.unexpected_keys
    mine, theirs = first.model.state_dict(), again.model.state_dict()
    assert mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert torch.equal(outputs(again), outputs(first))
    save_folder(again, tmp_path / "again")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "net" / name).read_bytes()


@every
def test_the_config_of_a_new_model_reads_back(architecture):
    config = CONFIGS[architecture]
    raw = json.loads(json.dumps(RECURRENT.write(config, architecture)))
    assert RECURRENT.read(raw, architecture) == config


def test_the_folder_says_whose_it_is(tmp_path):
    save_folder(made(CONFIGS["RecurrentForConditionalGeneration"]), tmp_path / "net")
    config = json.loads((tmp_path / "net" / "config.json").read_text())
    assert config["model_type"] == "clearhead-recurrent"
    assert config["architectures"] == ["RecurrentForConditionalGeneration"]
    assert config["encoder"]["kind"] == "lstm" and config["decoder"]["attention"] == "additive"
    assert config["embedding"] == {"shared": False}
    tensors = load_file(tmp_path / "net" / "model.safetensors")
    assert "encoder.blocks.0.net.weight_ih_l1_reverse" in tensors and "decoder.start.maps.0.weight" in tensors
    assert "head.output.weight" not in tensors, "the output is the decoder's token vectors"


def test_gradients_reach_an_opened_net(tmp_path):
    """torch's nets keep a second list of their weights: it has to be that of the weights that were read."""
    save_folder(made(CONFIGS["RecurrentForCausalLM"]), tmp_path / "net")
    opened = open_folder(tmp_path / "net")
    opened.model(torch.randint(31, (5,)), Layout.from_lengths([5])).sum().backward()
    assert all(p.grad is not None for p in opened.model.parameters())
    with torch.no_grad():
        before = outputs(opened)
        for parameter in opened.model.parameters():
            parameter.add_(0.1)
    assert not torch.equal(outputs(opened), before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_dtype(tmp_path, dtype):
    save_folder(made(CONFIGS["RecurrentForConditionalGeneration"]), tmp_path / "net")
    opened = open_folder(tmp_path / "net", dtype=dtype)
    assert {p.dtype for p in opened.model.parameters()} == {dtype} and outputs(opened).dtype == dtype


def test_another_head_on_the_same_body(tmp_path):
    save_folder(made(CONFIGS["RecurrentEncoder"]), tmp_path / "net")
    opened = open_folder(tmp_path / "net", head="sequence", labels=["good", "bad"])
    assert opened.architecture == "RecurrentForSequenceClassification"
    assert opened.missing_keys == ("head.output.weight", "head.output.bias")
    assert outputs(opened).shape == (3, 2)
    with pytest.raises(ValueError, match="recurrent net has no 'discriminator' head: choose one of sequence, token"):
        open_folder(tmp_path / "net", head="discriminator")


@pytest.mark.parametrize("architecture", ["RecurrentForCausalLM", "RecurrentForConditionalGeneration"])
def test_the_head_it_has_already(architecture, tmp_path):
    """Two architectures have a head for words: the folder's own is meant."""
    save_folder(made(CONFIGS[architecture]), tmp_path / "net")
    opened = open_folder(tmp_path / "net", head="lm")
    assert opened.architecture == architecture and not opened.missing_keys


def test_an_architecture_nobody_has():
    config = ModelConfig(encoder=ENCODER, head=HeadConfig(kind="pooler", width=10, vocab_size=31))
    with pytest.raises(
        ValueError, match="has no architecture of encoder with a 'pooler' head: there are RecurrentEncoder"
    ):
        RECURRENT.architecture_of(config)
    assert RECURRENT.model_type not in FAMILIES, "it is not one of the field's, and transformers does not open it"


def test_texts_through_a_folder_with_a_tokenizer(tmp_path):
    tokenizer = Tokenizer.load(valid(tmp_path / "bert"))
    config = ModelConfig(encoder=replace(ENCODER, vocab_size=tokenizer.vocab_size))
    save_folder(made(config, tokenizer), tmp_path / "net")
    model = load(tmp_path / "net")
    assert model.encode(["a b", "c"], pool="bidirectional_last").shape == (2, 10)
    assert model.max_len is None or model.max_len == tokenizer.max_len


def test_info(tmp_path):
    save_folder(made(CONFIGS["RecurrentForConditionalGeneration"]), tmp_path / "net")
    found = describe(tmp_path / "net")
    assert found["encoder_layers"] == 2 and found["decoder_layers"] == 1 and found["heads"] == 1
    assert found["intact"] is True and found["max_len"] is None and found["vocab_size"] == 31
    assert found["parameters"] == sum(
        p.numel() for p in build(CONFIGS["RecurrentForConditionalGeneration"]).parameters()
    )
    done = CliRunner().invoke(app, ["info", str(tmp_path / "net")], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "RecurrentForConditionalGeneration (recurrent net)" in done.output
    assert "bidirectional lstm and gru, hidden size 5 and 8, additive attention with input feeding" in done.output
    save_folder(made(CONFIGS["RecurrentForCausalLM"]), tmp_path / "speaker")
    done = CliRunner().invoke(app, ["info", str(tmp_path / "speaker"), "--json"])
    told = json.loads(done.output)
    assert told["heads"] == 0 and told["recurrent"]["attention"] == "none" and told["recurrent"]["hidden_size"] == [8]


HOSTILE = {
    "encoder": [None, [], "gru", 3],
    "encoder.kind": ["eval", None, ["gru"], {}],
    "encoder.hidden_size": [0, -1, 2**62, 1e9, "5", None],
    "encoder.width": [2**30, True],
    "encoder.num_layers": [10**9, 999, 0],
    "encoder.vocab_size": [2**31, 2**63, -5],
    "encoder.bidirectional": ["yes", 1],
    "encoder.dropout": [1.0, -0.1, "x", None],
    "encoder.attention": ["dot", "self"],
    "decoder.bidirectional": [True],
    "decoder.attention": ["dot", None],
    "decoder.input_feeding": ["no"],
    "decoder.hidden_size": [9],
    "embedding.shared": ["yes", 2],
    "head": [[], 3],
    "head.bias": ["x"],
    "head.tied": [1],
    "head.inner": [-1, 2**40, "4"],
    "head.activation": ["os.system", ["gelu"]],
    "head.dropout": [2.0, "x", [1]],
}


@pytest.mark.parametrize(("key", "value"), [(k, v) for k, values in HOSTILE.items() for v in values], ids=str)
def test_a_config_that_lies_is_refused(key, value, tmp_path):
    """As a ValueError with words, whatever is in the file; the manifest is left out, as a stranger's folder has none."""
    save_folder(made(CONFIGS["RecurrentForConditionalGeneration"]), tmp_path / "net")
    (tmp_path / "net" / "clearhead.json").unlink()
    path = tmp_path / "net" / "config.json"
    config = json.loads(path.read_text())
    config.pop("clearhead")
    section, _, name = key.partition(".")
    if name:
        config.setdefault(section, {})[name] = value
    else:
        config[section] = value
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r".{12}"):
        open_folder(tmp_path / "net")


def test_a_pooling_that_is_not_there(tmp_path):
    save_folder(made(CONFIGS["RecurrentForSequenceClassification"]), tmp_path / "net")
    (tmp_path / "net" / "clearhead.json").unlink()
    path = tmp_path / "net" / "config.json"
    config = json.loads(path.read_text())
    config.pop("clearhead")
    path.write_text(json.dumps({**config, "head": {"pool": "soup"}}))
    with pytest.raises(ValueError, match=r"head.pool is 'soup'"):
        open_folder(tmp_path / "net")
