"""Folders as transformers 4 wrote them are read as what they are."""

from __future__ import annotations

import json

import pytest
import torch

pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file

from clearhead.hub.folder import open_folder, save_folder
from clearhead.models import TransformerConfig
from tests.parity.cases import CASES
from tests.parity.test_families import Both, eval_error
from tests.parts import output_layer, token_table


def old_rope(config):
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    if rope["rope_type"] != "default":
        config["rope_scaling"] = {
            ("type" if k == "rope_type" and rope["rope_type"] == "linear" else k): v for k, v in rope.items()
        }
    return config


def old_modernbert(config):
    rope = config.pop("rope_parameters")
    config.pop("layer_types")
    return config | {
        "global_rope_theta": rope["full_attention"]["rope_theta"],
        "local_rope_theta": rope["sliding_attention"]["rope_theta"],
        "global_attn_every_n_layers": 3,
    }


def without_keys(*keys):
    return lambda config: {k: v for k, v in config.items() if k not in keys}


OLD = {
    "LlamaForCausalLM": old_rope,
    "LlamaForCausalLM-llama3": old_rope,
    "LlamaForCausalLM-linear": old_rope,
    "MistralForCausalLM": old_rope,
    "Qwen2ForCausalLM-sliding": lambda c: without_keys("layer_types")(old_rope(c)),
    "Qwen3ForCausalLM": old_rope,
    "ModernBertForMaskedLM": old_modernbert,
    "T5ForConditionalGeneration": without_keys("scale_decoder_outputs", "is_gated_act", "dense_act_fn"),
    "T5ForConditionalGeneration-v1.1": lambda c: (
        without_keys("scale_decoder_outputs")(c) | {"tie_word_embeddings": False}
    ),
    "BertForMaskedLM": lambda c: without_keys("tie_word_embeddings", "dtype")(c) | {"torch_dtype": "float32"},
}


@pytest.mark.parametrize("name", OLD)
def test_config_of_version_4(name, tmp_path):
    case = next(c for c in CASES if str(c) == name)
    theirs = case.make(tmp_path)
    new = open_folder(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(OLD[name](json.loads(path.read_text()))))
    old = open_folder(tmp_path)
    assert old.config == new.config
    assert eval_error(case, theirs, old) < 1e-5
    save_folder(old, tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "config.json").read_text())
    dtype = {} if "torch_dtype" in old.hf_config else {"dtype": "float32"}
    mark = {"manifest": "clearhead.json", "transformers_version": old.hf_config["transformers_version"]}
    assert saved == {**old.hf_config, **dtype, "clearhead": mark}, "old folders stay as they were"


def test_gpt2_of_version_2(tmp_path):
    """No prefix, and masks saved among the weights."""
    case = next(c for c in CASES if c.architecture == "GPT2LMHeadModel")
    theirs = case.make(tmp_path)
    tensors = {k.removeprefix("transformer."): v for k, v in load_file(tmp_path / "model.safetensors").items()}
    tensors["h.0.attn.bias"] = torch.ones(1, 1, 24, 24)
    tensors["h.0.attn.masked_bias"] = torch.tensor(-1e4)
    tensors["lm_head.weight"] = tensors["wte.weight"].clone()
    save_file(tensors, tmp_path / "model.safetensors")
    opened = open_folder(tmp_path)
    assert not opened.unexpected_keys and not opened.missing_keys
    assert output_layer(opened.model.head).weight is token_table(opened.model.decoder).weight
    assert eval_error(case, theirs, opened) < 1e-5


def test_a_t5_that_is_not_tied(tmp_path):
    """T5 1.1 keeps its own vectors for the vocabulary beside the shared ones."""
    case = next(c for c in CASES if str(c) == "T5ForConditionalGeneration-v1.1")
    theirs = case.make(tmp_path)
    own = torch.randn(61, 32)
    save_file({**load_file(tmp_path / "model.safetensors"), "lm_head.weight": own}, tmp_path / "model.safetensors")
    opened = open_folder(tmp_path)
    both = Both(case, theirs, opened)
    assert torch.equal(output_layer(opened.model.head).weight, own)
    with torch.no_grad():
        states = opened.model.hidden_states(*both.args)
        torch.testing.assert_close(opened.model(*both.args), states @ own.T, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["BertModel", "RobertaModel", "GPT2Model", "LlamaModel", "MarianModel", "BartModel"])
def test_position_limits(name, tmp_path):
    """The longest sequence runs as theirs does (the batches above hold one); one more is refused clearly."""
    from clearhead.attention import Layout

    case = next(c for c in CASES if str(c) == name)
    case.make(tmp_path)
    opened = open_folder(tmp_path)
    assert isinstance(opened.config.stack, TransformerConfig)
    most = opened.config.stack.max_len
    for length, fits in ((1, True), (most - 1, True), (most, True), (most + 1, False)):
        ids, layout = torch.full((length,), 5), Layout.from_lengths([length])
        target = (ids, layout) if opened.config.encoder and opened.config.decoder else (None, None)
        if fits:
            opened.model.hidden_states(ids, layout, *target)
        else:
            with pytest.raises(ValueError, match=f"positions end at {most - 1}"):
                opened.model.hidden_states(ids, layout, *target)
