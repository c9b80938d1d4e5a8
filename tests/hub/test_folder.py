"""Folders opened and saved: old layouts, other heads, shards, manifests, drift."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from clearhead.attention import Layout
from clearhead.files import IntegrityError
from clearhead.hub import families
from clearhead.hub import folder as store
from clearhead.hub.families import FAMILIES
from clearhead.hub.folder import open_folder, save_folder
from clearhead.pipeline import load
from tests.files.hostile import valid
from tests.parts import output_layer, token_table


@pytest.fixture
def folder(tmp_path):
    """A small BERT with a tokenizer."""
    return valid(tmp_path / "bert")


def change_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    config.update(changes)
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v != "gone"}))


def change_weights(folder, edit):
    tensors = load_file(folder / "model.safetensors")
    save_file(edit(tensors), folder / "model.safetensors", metadata={"format": "pt"})


def outputs(opened, lengths=(5, 9, 1)):
    torch.manual_seed(0)
    ids = torch.randint(5, 30, (sum(lengths),))
    with torch.no_grad():
        return opened.model.hidden_states(ids, Layout.from_lengths(lengths))


def test_names_of_2018(folder):
    """gamma and beta, and a prefix where none is due."""
    want = outputs(open_folder(folder))
    change_weights(
        folder,
        lambda t: {f"bert.{re.sub('LayerNorm.weight$', 'LayerNorm.gamma', re.sub('LayerNorm.bias$', 'LayerNorm.beta', k))}": v for k, v in t.items()},
    )  # fmt: skip
    assert torch.equal(outputs(open_folder(folder)), want)


def test_a_prefix_that_is_missing(folder):
    """A plain body under the name of a model with a head: the head is new, and said to be."""
    want = outputs(open_folder(folder))
    change_config(folder, architectures=["BertForMaskedLM"])
    opened = open_folder(folder)
    assert torch.equal(outputs(opened), want)
    assert opened.missing_keys and all(name.startswith("head.") for name in opened.missing_keys)
    assert set(opened.unexpected_keys) == {"pooler.dense.weight", "pooler.dense.bias"}


def test_tensors_that_hold_nothing_are_passed_over(folder):
    change_weights(folder, lambda t: {**t, "embeddings.position_ids": torch.arange(32).unsqueeze(0)})
    assert open_folder(folder).unexpected_keys == ()


def test_keys_nobody_knows_survive(folder, tmp_path):
    change_config(folder, my_own_key={"a": [1, 2]}, torch_dtype="float32")
    save_folder(open_folder(folder), tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["my_own_key"] == {"a": [1, 2]}
    assert config["torch_dtype"] == "float32" and "dtype" not in config


def test_another_head(folder, tmp_path):
    opened = open_folder(folder, head="sequence", labels=["good", "bad", "so-so"])
    assert opened.architecture == "BertForSequenceClassification"
    assert opened.missing_keys == ("head.output.weight", "head.output.bias"), "the pooler comes from the folder"
    assert opened.model(torch.randint(5, 30, (6,)), Layout.from_lengths([2, 4])).shape == (2, 3)
    save_folder(opened, tmp_path / "out")
    again = open_folder(tmp_path / "out")
    assert again.config.head is not None and again.config.head.labels == ("good", "bad", "so-so")
    assert not again.missing_keys
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    assert theirs.config.id2label == {0: "good", 1: "bad", 2: "so-so"}
    assert torch.equal(theirs.classifier.weight, output_layer(again.model.head).weight)


def test_a_head_for_another_number_of_labels(folder, tmp_path):
    opened = open_folder(folder, head="sequence", labels=["good", "bad", "so-so"])
    save_folder(opened, tmp_path / "three")
    two = open_folder(tmp_path / "three", head="sequence", labels=["yes", "no"])
    assert two.missing_keys == ("head.output.weight", "head.output.bias")
    assert output_layer(two.model.head).weight.shape[0] == 2
    again = open_folder(tmp_path / "three", head="sequence", labels=["a", "b", "c"])
    assert torch.equal(output_layer(again.model.head).weight, output_layer(opened.model.head).weight)
    config = tmp_path / "three" / "config.json"
    values = json.loads(config.read_text())
    del values["clearhead"]
    config.write_text(json.dumps({**values, "id2label": {"0": "a", "1": "b"}}))
    (tmp_path / "three" / "clearhead.json").unlink()
    with pytest.raises(ValueError, match=r"classifier\.weight has shape"):
        open_folder(tmp_path / "three")  # a config that contradicts its weights is refused still


def test_a_head_the_family_does_not_have(folder):
    with pytest.raises(ValueError, match="BERT has no 'discriminator' head: choose one of"):
        open_folder(folder, head="discriminator")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_dtype(folder, tmp_path, dtype):
    opened = open_folder(folder, dtype=dtype)
    assert {p.dtype for p in opened.model.parameters()} == {dtype}
    save_folder(opened, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == str(dtype).removeprefix("torch.")
    again = open_folder(tmp_path / "out")
    assert {p.dtype for p in again.model.parameters()} == {dtype}


def test_shards(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MAX_SHARD_BYTES", "4KB")
    opened = open_folder(folder)
    save_folder(opened, tmp_path / "out")
    shards = sorted(p.name for p in (tmp_path / "out").glob("*.safetensors"))
    assert len(shards) > 2 and shards[0].startswith("model-00001-of-")
    assert torch.equal(outputs(open_folder(tmp_path / "out")), outputs(opened))
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "out").state_dict()
    assert all(torch.equal(theirs[k], v) for k, v in load_file(folder / "model.safetensors").items())


def test_tied_weights_are_one(folder, tmp_path):
    opened = open_folder(folder, head="lm")
    tokens = token_table(opened.model.encoder).weight
    assert output_layer(opened.model.head).weight is tokens
    save_folder(opened, tmp_path / "out")
    again = open_folder(tmp_path / "out")
    assert output_layer(again.model.head).weight is token_table(again.model.encoder).weight
    assert "cls.predictions.decoder.weight" not in load_file(tmp_path / "out" / "model.safetensors")


def test_vectors_of_the_vocabulary_that_differ_are_kept_apart(folder, tmp_path):
    """A folder says its weights are tied, and holds two different ones: they are not tied."""
    save_folder(open_folder(folder, head="lm"), tmp_path / "out")
    (tmp_path / "out" / "clearhead.json").unlink()
    change_config(tmp_path / "out", clearhead="gone")
    own = torch.randn(31, 16)
    change_weights(tmp_path / "out", lambda t: {**t, "cls.predictions.decoder.weight": own})
    opened = open_folder(tmp_path / "out")
    assert torch.equal(output_layer(opened.model.head).weight, own)
    save_folder(opened, tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["tie_word_embeddings"] is False
    assert torch.equal(output_layer(open_folder(tmp_path / "again").model.head).weight, own)


def test_position_limit(folder):
    opened = open_folder(folder)
    outputs(opened, (32,))
    with pytest.raises(ValueError, match="reaches position 32, but the learned positions end at 31"):
        outputs(opened, (33,))


def test_only_a_pickle(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="clearhead convert"):
        open_folder(folder)


def test_a_type_without_a_table(folder):
    change_config(folder, model_type="mamba")
    with pytest.raises(ValueError, match=r"model_type 'mamba', which is not supported; supported are: bert, "):
        open_folder(folder)


def test_no_such_folder(tmp_path):
    with pytest.raises(ValueError, match="there is no folder"):
        open_folder(tmp_path / "nowhere")


def test_a_value_that_would_need_other_modelling(folder):
    change_config(folder, position_embedding_type="relative_key")
    with pytest.raises(ValueError, match="position_embedding_type to 'relative_key'"):
        open_folder(folder)


def test_a_damaged_file_is_named(folder, tmp_path):
    save_folder(open_folder(folder), tmp_path / "out")
    path = tmp_path / "out" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"'model.safetensors' was changed"):
        load(tmp_path / "out")


def test_a_drifted_tokenizer_is_named(folder, tmp_path):
    """The files are in order, but the tokenizer is not the one the manifest's facts speak of."""
    from clearhead.files import read_manifest, write_manifest

    save_folder(open_folder(folder), tmp_path / "out")
    facts = read_manifest(tmp_path / "out").metadata
    path = tmp_path / "out" / "tokenizer.json"
    content = json.loads(path.read_text())
    content["normalizer"]["lowercase"] = False
    path.write_text(json.dumps(content))
    write_manifest(tmp_path / "out", facts)
    with pytest.raises(ValueError, match="tokenizer"):
        load(tmp_path / "out")


def test_the_manifest_says_what_it_is(folder, tmp_path):
    from clearhead.files import read_manifest

    load(folder, head="sequence", labels=["yes", "no"]).save(tmp_path / "out", metadata={"data": "none"})
    facts = read_manifest(tmp_path / "out").metadata
    assert facts["head"] == "sequence" and facts["labels"] == ["yes", "no"] and facts["data"] == "none"
    assert set(facts["tokenizer"]) >= {"probe", "tokenizers"}


def test_saving_needs_an_empty_place(folder, tmp_path):
    app = load(folder)
    app.save(tmp_path / "out")
    with pytest.raises(FileExistsError):
        app.save(tmp_path / "out")
    app.save(tmp_path / "out", overwrite=True)


@pytest.mark.parametrize("path", sorted(Path(families.__file__).parent.glob("*.py")), ids=lambda p: p.stem)
def test_a_family_is_a_table(path):
    """No modelling code: a family's file defines no class, and stays short."""
    text = path.read_text(encoding="utf-8")
    if path.stem != "table":
        assert not re.search(r"^\s*class \w|^\s*(import|from) torch", text, re.M)
        assert text.count("\n") < 150


def test_a_folder_that_transformers_saved_again_is_opened(tmp_path, minilm):
    """Its config still names a manifest, which transformers does not write; a manifest that was deleted is missed."""
    import shutil

    import transformers

    minilm.save(tmp_path / "ours")
    transformers.AutoModel.from_pretrained(tmp_path / "ours").save_pretrained(tmp_path / "theirs")
    shutil.copy(tmp_path / "ours" / "tokenizer.json", tmp_path / "theirs")
    assert "clearhead" in json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert load(tmp_path / "theirs").loaded.config == minilm.loaded.config
    (tmp_path / "ours" / "clearhead.json").unlink()
    with pytest.raises(IntegrityError, match="missing"):
        load(tmp_path / "ours")


def test_dropout_in_a_config_is_replaced_where_the_family_stores_it():
    gpt2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "resid_pdrop": 0.1}
    wanted = {"dropout": 0.0, "attention_dropout": 0.3}
    found = FAMILIES["gpt2"].with_dropout(gpt2, wanted)
    assert found == {**gpt2, "resid_pdrop": 0.0, "attn_pdrop": 0.3} and gpt2["resid_pdrop"] == 0.1
    bert = {"model_type": "bert", "architectures": ["BertForSequenceClassification"], "classifier_dropout": 0.5}
    found = FAMILIES["bert"].with_dropout(bert, {"dropout": 0.2})
    assert found["classifier_dropout"] == found["hidden_dropout_prob"] == 0.2, "the head's too"
    t5 = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]}
    assert FAMILIES["t5"].with_dropout(t5, {"dropout": 0.0})["dropout_rate"] == 0.0
    with pytest.raises(ValueError, match="T5 has no such dropout, or the same one for several places"):
        FAMILIES["t5"].with_dropout(t5, wanted)
