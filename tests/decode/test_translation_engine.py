"""CTranslate2 as the engine of `translate`: the tokens and scores of clearhead's decoder, and what is refused."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any, cast

import pytest
import torch

import clearhead
from clearhead.attention.layout import Layout
from clearhead.decode import TranslationEngine, translation_engine
from clearhead.hub.folder import save_folder
from clearhead.pipeline import Pipeline
from tests.decode.conftest import WORDS, opened
from tests.real import DATA

pytest.importorskip("ctranslate2")
DRAW = random.Random(3)
TEXTS = [" ".join(DRAW.choices(WORDS, k=DRAW.randint(1, 5))) for _ in range(24)] + ["", "a dog"]


@pytest.fixture(scope="module")
def folder(corpus, tmp_path_factory):
    """A translator with sharp probabilities, whose texts end at different lengths."""
    loaded = opened(corpus, "marian")
    model: Any = loaded.model
    tokenizer: Any = loaded.tokenizer
    with torch.no_grad():
        for block in model.decoder.blocks:
            block.feedforward_norm.weight.mul_(2.0)
        model.head.output.bias[tokenizer.eos_id] += 2.5
    path = tmp_path_factory.mktemp("engine") / "model"
    save_folder(loaded, path)
    return path


@pytest.fixture(scope="module")
def model(folder):
    return clearhead.load(folder, dtype="float32")


def configured(model: Pipeline, **changes) -> Pipeline:
    """The same model with other settings; `constraints` of generation_config.json among them."""
    rules = {name: changes.pop(name) for name in list(changes) if hasattr(model.generator.defaults.constraints, name)}
    defaults = replace(model.generator.defaults, **changes)
    defaults = replace(defaults, constraints=replace(defaults.constraints, **rules))
    other = Pipeline(model.loaded, folder=model.folder)
    other.__dict__["generator"] = replace(model.generator, defaults=defaults)
    return other


def assert_equal(model: Pipeline, **options) -> list[int]:
    """Both engines find the same hypotheses with the same scores; returns the lengths of the best."""
    ours = model.translate(TEXTS, engine="clearhead", **options)
    theirs = model.translate(TEXTS, engine="ctranslate2", **options)
    for own, other in zip(ours, theirs, strict=True):
        assert [h.ids for h in own.nbest] == [h.ids for h in other.nbest]
        assert [h.text for h in own.nbest] == [h.text for h in other.nbest]
        assert [h.ended for h in own.nbest] == [h.ended for h in other.nbest]
        assert [h.score for h in own.nbest] == pytest.approx([h.score for h in other.nbest], abs=2e-4, rel=1e-5)
        assert own.source == other.source
    return [len(t.ids) for t in ours]


@pytest.mark.parametrize("penalty", [1.0, 0.0, 0.6, -1.0])
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_tokens_and_scores_are_equal(model, beam, penalty):
    plain = configured(model, early_stopping=True, bad_words_ids=())
    lengths = assert_equal(plain, beam=beam, length_penalty=penalty)
    assert max(lengths) > min(length for length in lengths if length) or beam == 1


def test_hypotheses_are_equal(model):
    assert_equal(configured(model, early_stopping=True, bad_words_ids=()), beam=5, nbest=3)
    assert_equal(configured(model, bad_words_ids=()), beam=5, length_penalty=0.0)


@pytest.mark.parametrize("forced", [True, False])
@pytest.mark.parametrize("beam", [1, 5])
def test_the_length_limit_is_equal(model, beam, forced):
    rules = {} if forced else {"forced_eos_token_ids": ()}
    plain = configured(model, early_stopping=True, bad_words_ids=(), **rules)
    assert max(assert_equal(plain, beam=beam, max_len=5)) == 5
    assert max(assert_equal(plain, beam=beam, max_len=1)) == 1


def test_forbidden_tokens_and_minimum_lengths_are_kept(model):
    """The tokens are equal; the scores are those among the allowed tokens."""
    for rules in ({}, {"min_new_tokens": 6}, {"min_len": 6}):
        limited = configured(model, early_stopping=True, **rules)
        ours = limited.translate(TEXTS, beam=1, engine="clearhead")
        theirs = limited.translate(TEXTS, beam=1, engine="ctranslate2")
        assert [t.ids for t in ours] == [t.ids for t in theirs]
        assert all(len(t.ids) >= 6 for t in theirs if t.text) or not rules
        assert all(t.score >= o.score - 1e-4 for t, o in zip(theirs, ours, strict=True))


def test_alignments_are_those_of_our_own_pass(model):
    ours = model.translate(TEXTS, beam=1, align=True, engine="clearhead")
    theirs = model.translate(TEXTS, beam=1, align=True, engine="ctranslate2")
    for own, other in zip(ours, theirs, strict=True):
        assert own.pairs == other.pairs and (own.alignment is None) == (other.alignment is None)
        if own.alignment is not None:
            torch.testing.assert_close(own.alignment, other.alignment)


def test_auto_is_int8_where_the_dtype_is_left_to_the_machine(folder, model):
    beam = model.generator.beam(default=5)
    assert model.translation_engine.select("auto", beam, 8).name == "clearhead float32"
    fast = clearhead.load(folder, dtype="auto")
    before = {name: p.clone() for name, p in fast.model.named_parameters()}
    assert fast.translation_engine.select("auto", beam, 8).name == "ctranslate2 int8"
    assert all(torch.equal(p, before[name]) for name, p in fast.model.named_parameters())
    assert fast.translation_engine.select("clearhead", beam, 8).name.startswith("clearhead ")
    found = fast.translate(TEXTS, beam=1)
    same = sum(a.ids == b.ids for a, b in zip(found, model.translate(TEXTS, beam=1), strict=True))
    assert same >= len(TEXTS) // 2  # int8 rounds
    with fast.look(), fast.ablate_heads({"decoder.0.cross": [0]}):
        assert fast.translation_engine.select("auto", beam, 8).name.startswith("clearhead ")
    with torch.no_grad():  # weights that change are not exported again and again
        next(iter(fast.model.parameters())).mul_(1.01)
    assert fast.translation_engine.select("auto", beam, 8).name.startswith("clearhead ")


def test_processors_with_bfloat16_keep_large_batches(folder, monkeypatch):
    fast = clearhead.load(folder, dtype="auto")
    monkeypatch.setattr(translation_engine, "has_bfloat16", lambda: True)
    select = fast.translation_engine.select
    assert select("auto", fast.generator.beam(1), 64).name == "ctranslate2 int8"
    assert select("auto", fast.generator.beam(1), 512).name.startswith("clearhead ")
    assert select("auto", fast.generator.beam(5), 128).name.startswith("clearhead ")


def test_changed_weights_are_exported_again(folder):
    changed = clearhead.load(folder, dtype="float32")
    before = changed.translate(TEXTS, beam=1, engine="ctranslate2")
    with torch.no_grad():
        bias = cast(Any, changed.model.head).output.bias
        bias += torch.linspace(-2, 2, len(bias))
    ours = changed.translate(TEXTS, beam=1, engine="clearhead")
    theirs = changed.translate(TEXTS, beam=1, engine="ctranslate2")
    assert [t.ids for t in ours] == [t.ids for t in theirs] != [t.ids for t in before]


def test_what_cannot_run_there_is_refused_by_name(folder, model, monkeypatch):
    def refused(match: str, translator: Pipeline = model) -> None:
        with pytest.raises(ValueError, match=match):
            translator.translate("a dog", engine="ctranslate2")

    with pytest.raises(ValueError, match="no engine 'marian': choose auto, clearhead, ctranslate2"):
        model.translate("a dog", engine="marian")
    refused("repetition_penalty, no_repeat_ngram_size: remove the setting",
            configured(model, repetition_penalty=1.2, no_repeat_ngram_size=3))  # fmt: skip
    refused("several values of eos_token_id", configured(model, eos_token_ids=(0, 3), forced_eos_token_ids=()))
    refused("forced_eos_token_id other than eos_token_id", configured(model, forced_eos_token_ids=(3,)))
    refused("bad_words_ids with sequences of tokens", configured(model, bad_words_ids=((3, 4),)))
    refused("forced_bos_token_id", configured(model, forced_bos_token_id=3))
    refused("begin_suppress_tokens", configured(model, begin_suppress_tokens=(3,)))
    refused("early_stopping: never", configured(model, early_stopping="never"))
    with model.look():
        refused("hooks, which it would skip")
    training = clearhead.load(folder, dtype="float32")
    training.model.train()
    refused("in training mode", training)
    refused("in torch.float16: load it with dtype='float32'", clearhead.load(folder, dtype="float16"))
    refused("exact scaled dot-product attention, but a layer has linformer", linformer(model))
    monkeypatch.setattr(translation_engine, "is_installed", lambda: False)
    refused(r"not installed: pip install 'clearhead\[ctranslate2\]'; or give engine 'clearhead'")
    assert TranslationEngine(model.generator, None, fastest=True).select("auto", model.generator.beam(), 1).name == (
        "clearhead float32"
    )


def linformer(model: Pipeline) -> Pipeline:
    from clearhead.efficient import Linformer

    return model.with_attention(Linformer(rank=8, max_len=48), stack="encoder")


def test_a_language_model_keeps_its_error(folders):
    with pytest.raises(ValueError, match="use `generate`"):
        clearhead.load(folders["gpt2"]).translate("a dog")
    with pytest.raises(ValueError, match="does not translate texts"):
        clearhead.load(folders["gpt2"]).translate("a dog", engine="ctranslate2")


def test_a_full_disk_leaves_our_own_decoder(folder, monkeypatch):
    from clearhead.decode import ctranslate2_search

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ctranslate2_search, "cached_export", full)
    fast = clearhead.load(folder, dtype="auto")
    with pytest.warns(UserWarning, match="cannot be written .*No space left"):
        fast.translate("a dog")
    fast.translate("a dog")  # warns once
    with pytest.raises(OSError, match="No space left"):
        fast.translate("a dog", engine="ctranslate2")


def test_scores_are_the_log_probabilities_of_the_model(model):
    plain = configured(model, bad_words_ids=(), forced_eos_token_ids=())
    found = plain.translate(TEXTS[0], beam=5, engine="ctranslate2", length_penalty=0.5)
    source = plain.tokens(TEXTS[0])
    target = torch.tensor([plain.generator.start, *found.ids[:-1]])
    with torch.no_grad():
        scores = plain.model(source.ids, source.layout, target, Layout.from_lengths([len(found.ids)]))
    total = torch.log_softmax(scores, 1)[range(len(found.ids)), list(found.ids)].sum().item()
    assert found.score == pytest.approx(total / len(found.ids) ** 0.5, abs=1e-4)


@pytest.mark.data
def test_a_trained_translator_is_equal_on_real_sentences():
    """200 sentences of Multi30k through the folder that CLEARHEAD_TRANSLATOR names; near-ties aside."""
    import gzip

    path, source = os.environ.get("CLEARHEAD_TRANSLATOR"), DATA / "multi30k" / "test_2016_flickr.en.gz"
    if path is None or not source.exists():
        pytest.skip("set CLEARHEAD_TRANSLATOR to a Marian folder from English; needs Multi30k")
    with gzip.open(source, "rt", encoding="utf-8") as file:
        texts = [line.strip() for line in file][:200]
    model = configured(clearhead.load(path, dtype="float32"), early_stopping=True)
    for beam in (1, 5):
        ours = model.translate(texts, beam=beam, engine="clearhead")
        theirs = model.translate(texts, beam=beam, engine="ctranslate2")
        different = [(a, b) for a, b in zip(ours, theirs, strict=True) if a.ids != b.ids]
        assert all(abs(a.score - b.score) < 1e-3 for a, b in different) and len(different) <= 2, different
