"""Translating, generating and looking through the face; the same from `transformers` and CTranslate2."""

from __future__ import annotations

import gzip
import json
import os
import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch

import clearhead
from clearhead.attention import Layout
from clearhead.decode import BeamConfig, TextGenerator, export, generation_config, read_defaults
from tests.real import DATA

TEXTS = [
    "the man rides a red bicycle",
    "",
    "two children play",
    "a dog",
    "the woman sees the old house on the street and a cat",
    " ",
]


@pytest.fixture(scope="module")
def translator(folders):
    return clearhead.load(folders["marian"], dtype="float32")


@pytest.fixture(scope="module")
def speaker(folders):
    return clearhead.load(folders["gpt2"], dtype="float32")


def test_order_is_kept_and_blank_stays_blank(translator):
    found = translator.translate(TEXTS, beam=3)
    assert [t.text == "" for t in found] == [False, True, False, False, False, True]
    for text, translation in zip(TEXTS, found, strict=True):
        alone = translator.translate(text, beam=3)
        assert alone.ids == translation.ids
        assert translation.tokens == tuple(translator.tokenizer.tokens(translation.ids))
        assert translation.text == translator.tokenizer.decode(translation.ids)
    assert translator.translate([]) == []
    assert translator.translate(iter(TEXTS[:1]), beam=3)[0].ids == found[0].ids


def test_nbest_and_limits(translator):
    best = translator.translate(TEXTS[0], nbest=4)
    assert len(best.nbest) == 4 and best.text == best.nbest[0].text
    assert [h.score for h in best.nbest] == sorted((h.score for h in best.nbest), reverse=True)
    assert len({h.ids for h in best.nbest}) == 4
    assert all(len(h.ids) <= 3 for h in translator.translate(TEXTS[0], max_len=3, nbest=2).nbest)
    with pytest.raises(
        ValueError, match="99 new tokens after 1 do not fit: the model has 48 positions; give at most 48"
    ):
        translator.translate("a dog", max_len=99)
    with pytest.raises(ValueError, match="max_new_tokens is 0"):
        translator.translate("a dog", max_len=0)


def test_long_texts_are_cut_and_told(translator):
    with pytest.warns(
        UserWarning, match="1 of 2 texts were truncated to the 48 tokens this model reads; the longest had"
    ):
        translator.translate(["a dog", "the man " * 60], beam=1, max_len=2)


def test_transformers_writes_the_same(folders, translator, speaker):
    import transformers

    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folders["marian"]).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders["marian"])
    texts = [t for t in TEXTS if t.strip()]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    batch.pop("token_type_ids", None)
    want = model.generate(**batch)
    for row, translation in zip(want.tolist(), translator.translate(texts), strict=True):
        kept = row[1 : 1 + len(translation.ids)]
        assert tuple(kept) == translation.ids and set(row[1 + len(kept) :]) <= {model.config.pad_token_id}
        assert model.config.pad_token_id not in kept
    speaking: Any = transformers.AutoModelForCausalLM.from_pretrained(folders["gpt2"]).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders["gpt2"])
    ids = tokenizer("the man", return_tensors="pt")
    want = speaking.generate(**ids, max_new_tokens=9)[0, ids["input_ids"].shape[1] :].tolist()
    assert tuple(want) == speaker.generate("the man", max_new_tokens=9).ids


def test_the_winner_is_seen_and_not_the_search(translator):
    """Inside `look` each attention ran once, over the translations as they are, in the order of the texts."""
    with translator.look() as seen:
        found = translator.translate(TEXTS, beam=4, nbest=2)
    real = [(text, t) for text, t in zip(TEXTS, found, strict=True) if text.strip()]
    assert set(seen) == {"encoder.0", "encoder.1", "decoder.0", "decoder.1", "decoder.0.cross", "decoder.1.cross"}
    assert all(len(seen.calls(name)) == 1 for name in seen)
    for i, (text, translation) in enumerate(real):
        S, T = len(translation.source), len(translation.ids)
        assert seen["encoder.0"].shape(i) == (S, S)
        assert seen["decoder.1"].shape(i) == (T, T)
        assert seen["decoder.0.cross"].shape(i) == (T, S)
        source = translator.tokens(text)
        target = torch.tensor([translator.tokenizer.pad_id, *translation.ids[:-1]])
        with torch.no_grad(), translator.look() as again:
            scores = translator.model(source.ids, source.layout, target, Layout.from_lengths([T]))
        for name in seen:
            torch.testing.assert_close(seen[name].heads(i), again[name].heads(0), atol=1e-5, rtol=1e-4)
        total = torch.log_softmax(scores, 1)[range(T), list(translation.ids)].sum().item()
        if translation.ended:  # an end that was forced at the limit has no score
            assert total / T == pytest.approx(translation.score, abs=1e-4)
    with translator.look() as seen:
        assert len(translator.translate(TEXTS[0], align=True).pairs) == len(translator.translate(TEXTS[0]).ids)
    assert all(len(seen.calls(name)) == 2 for name in seen)  # once for each, and not for the alignment


def test_alignments_are_cross_attention(translator):
    translation = translator.translate(TEXTS[0], align=True)
    with translator.look(kinds=("cross",)) as seen:
        translator.translate(TEXTS[0])
    mean = torch.stack([seen[name].heads().mean(0) for name in seen]).mean(0)
    torch.testing.assert_close(translation.alignment, mean, atol=1e-6, rtol=1e-4)
    assert translation.alignment.sum(1) == pytest.approx(1.0, abs=1e-5)
    assert translator.translate(TEXTS[0]).alignment is None


def test_heads_that_are_off_are_off_in_the_search(translator):
    plain = translator.translate(TEXTS[0], beam=3)
    with translator.ablate_heads({"decoder.0.cross": "all", "decoder.1.cross": "all"}):
        blind = [translator.translate(t, beam=3).ids for t in (TEXTS[0], TEXTS[2])]
    assert blind[0] == blind[1] != plain.ids  # without the source, every text is translated alike


def test_generation(speaker):
    prompts = ["the man", "a", "two children play with"]
    found = speaker.generate(prompts, max_new_tokens=12)
    assert [g.prompt for g in found] == prompts and all(g.seed is None for g in found)
    for prompt, generation in zip(prompts, found, strict=True):
        assert speaker.generate(prompt, max_new_tokens=12).ids == generation.ids
        whole = [*speaker.tokens(prompt).ids.tolist(), *generation.ids]
        assert speaker.tokenizer.decode(whole) == prompt + generation.text
    assert len(speaker.generate("", max_new_tokens=3).ids) == 3  # it begins from the token that begins texts
    drawn = speaker.generate(prompts, max_new_tokens=12, temperature=1.0, seed=5)
    assert [g.ids for g in drawn] == [
        speaker.generate(p, max_new_tokens=12, temperature=1.0, seed=5).ids for p in prompts
    ]
    again = speaker.generate("a", max_new_tokens=12, top_p=0.9)
    assert again.ids == speaker.generate("a", max_new_tokens=12, top_p=0.9, seed=again.seed).ids
    beamed = speaker.generate(prompts, max_new_tokens=6, beam=3)
    assert beamed[1].ids == speaker.generate("a", max_new_tokens=6, beam=3).ids


def test_pieces_are_the_text(speaker):
    prompts = ["the man", "a"]
    texts = {0: "", 1: ""}
    done = []
    for piece in speaker.stream(prompts, max_new_tokens=15, temperature=1.2, seed=[1, 2]):
        texts[piece.request] += piece.text
        done += [piece.request] * piece.done
    assert sorted(done) == [0, 1]
    want = speaker.generate(prompts, max_new_tokens=15, temperature=1.2, seed=[1, 2])
    assert [texts[0], texts[1]] == [g.text for g in want]


def test_a_language_model_is_looked_at_once(speaker):
    with speaker.look() as seen:
        found = speaker.generate("the man", max_new_tokens=5)
    size = len(speaker.tokens("the man").ids) + len(found.ids) - 1
    assert all(len(seen.calls(name)) == 1 and seen[name].shape() == (size, size) for name in seen)


def test_limits_of_a_prompt_are_told(speaker):
    with pytest.raises(
        ValueError, match=r"60 new tokens after \d+ do not fit: the model has 48 positions; give at most"
    ):
        speaker.generate("the man", max_new_tokens=60)
    with pytest.raises(
        ValueError, match=r"the prompt has \d+ tokens, but the model has 48 positions: shorten the prompt"
    ):
        speaker.generate("man 😀 " * 30)
    assert len(speaker.generate("the man " * 2, max_new_tokens=None).ids) <= 48
    with pytest.raises(ValueError, match="2 seeds for 1 prompts"):
        speaker.generate("a", temperature=1.0, seed=[1, 2])
    with pytest.raises(ValueError, match="beam search does not sample"):
        speaker.generate("a", temperature=1.0, beam=3)


def test_each_says_what_it_does_not_do(translator, speaker, folders):
    with pytest.raises(ValueError, match="translates: use `translate`"):
        translator.generate("a")
    with pytest.raises(ValueError, match="does not translate: use `generate`"):
        speaker.translate("a")
    bare = clearhead.load(folders["marian"])
    bare.model.train()
    with pytest.raises(ValueError, match=r"in training mode"):
        bare.translate("a dog")


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_ctranslate2_writes_the_same(translator, tmp_path, beam):
    ctranslate2 = pytest.importorskip("ctranslate2")
    writer = translator.generator
    export(writer.model, writer.tokenizer, writer.defaults.constraints, tmp_path / "out")
    engine = ctranslate2.Translator(str(tmp_path / "out"), device="cpu", compute_type="float32")
    sources = [translator.tokens(t).ids.tolist() for t in TEXTS if t.strip()]
    named = [translator.tokenizer.tokens(source) for source in sources]
    # a random model hardly ends by itself, and the engines differ in what they do at a limit: the same length for all
    got = engine.translate_batch(named, beam_size=beam, min_decoding_length=10, max_decoding_length=10)
    rules = replace(writer.defaults.constraints, min_new_tokens=10, forced_eos_token_ids=())
    same = TextGenerator(
        writer.model, writer.tokenizer, replace(writer.defaults, constraints=rules), writer.max_positions
    )
    with torch.inference_mode():
        found = same.search(sources, BeamConfig(size=beam), 10)
    for result, best in zip(got, found, strict=True):
        assert result.hypotheses[0] == translator.tokenizer.tokens(best[0].ids)


def test_ctranslate2_goes_on_the_same(speaker, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    writer = speaker.generator
    export(writer.model, writer.tokenizer, writer.defaults.constraints, tmp_path / "out", quantization="float32")
    engine = ctranslate2.Generator(str(tmp_path / "out"), device="cpu", compute_type="float32")
    prompt = speaker.tokenizer.tokens(speaker.tokens("the man").ids)
    got = engine.generate_batch([prompt], max_length=9, include_prompt_in_result=False, sampling_topk=1)
    want = speaker.generate("the man", max_new_tokens=9)
    assert got[0].sequences_ids[0] == [i for i in want.ids if i != speaker.tokenizer.eos_id]


def test_what_ctranslate2_cannot_hold_is_told(translator, tmp_path):
    pytest.importorskip("ctranslate2")
    writer = translator.generator
    with pytest.raises(ValueError, match="there is no quantization 'int3'"):
        export(writer.model, writer.tokenizer, writer.defaults.constraints, tmp_path / "a", quantization="int3")
    rules = read_defaults({"eos_token_id": 0, "decoder_start_token_id": 3, "no_repeat_ngram_size": 3}, {}).constraints
    with pytest.raises(ValueError, match="constraints that CTranslate2's format cannot store"):
        export(writer.model, writer.tokenizer, rules, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_generation_configs():
    assert generation_config("marian", eos=0, pad=9)["decoder_start_token_id"] == 9
    assert generation_config("marian", eos=0, pad=9)["bad_words_ids"] == [[9]]
    assert generation_config("gpt2", eos=5) == {"bos_token_id": 5, "eos_token_id": 5}
    with pytest.raises(ValueError, match="give `pad`"):
        generation_config("marian", eos=0)
    with pytest.raises(ValueError, match="no generation config for 'vit'"):
        generation_config("vit", eos=0)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"num_beams": "five"}, "num_beams to 'five': it must be an integer"),
        ({"eos_token_id": -4}, "eos_token_id holds -4, which is not a token id"),
        ({"early_stopping": "often"}, "early_stopping is 'often'"),
        ({"penalty_alpha": 0.6}, "penalty_alpha to 0.6, which is not supported"),
        ({"min_length": -1}, "min_length to -1: it must be 0 or more"),
    ],
)
def test_a_generation_config_that_cannot_be_is_told(told, words):
    with pytest.raises(ValueError, match=words):
        read_defaults(told, {})


@pytest.mark.slow
@pytest.mark.data
def test_a_trained_translator_writes_what_transformers_and_ctranslate2_write(tmp_path):
    """200 sentences of Multi30k through the folder that CLEARHEAD_TRANSLATOR names: the same but for near-ties."""
    folder, path = os.environ.get("CLEARHEAD_TRANSLATOR"), DATA / "multi30k" / "test_2016_flickr.en.gz"
    if folder is None or not path.exists():
        pytest.skip("set CLEARHEAD_TRANSLATOR to a Marian folder from English; needs Multi30k")
    import ctranslate2
    import transformers

    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = [line.strip() for line in file][:200]
    app = clearhead.load(folder, dtype="float32")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
    sources = [app.tokens(t).ids.tolist() for t in texts]
    export(app.model, app.tokenizer, app.generator.defaults.constraints, tmp_path / "ct2")
    engine = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu", compute_type="float32")
    named = [app.tokenizer.tokens(s) for s in sources]
    figures = {}
    for beam in (1, 5):
        ours = app.translate(texts, beam=beam)
        peer, scores = [], []
        for begin in range(0, 200, 40):
            part = sources[begin : begin + 40]
            longest = max(map(len, part))
            ids = torch.tensor([s + [model.config.pad_token_id] * (longest - len(s)) for s in part])
            mask = torch.tensor([[1] * len(s) + [0] * (longest - len(s)) for s in part])
            with torch.inference_mode(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                out = model.generate(input_ids=ids, attention_mask=mask, num_beams=beam, do_sample=False,
                                     return_dict_in_generate=True, output_scores=True)  # fmt: skip
            peer += out.sequences[:, 1:].tolist()
            scores += out.sequences_scores.tolist() if beam > 1 else [float("nan")] * len(part)
        limit = app.generator.token_budget(1, None, 256)
        options = {"beam_size": beam, "length_penalty": 1.0, "max_batch_size": 64, "max_decoding_length": limit}
        theirs = engine.translate_batch(named, **options)
        same = ties = engine_same = 0
        for mine, row, score, result in zip(ours, peer, scores, theirs, strict=True):
            equal = tuple(row[: len(mine.ids)]) == mine.ids
            same, ties = same + equal, ties + (not equal and abs(mine.score - score) < 1e-4)
            kept = [
                t
                for t, i in zip(mine.tokens, mine.ids, strict=True)
                if i not in app.generator.defaults.constraints.eos_token_ids
            ]
            engine_same += result.hypotheses[0] == kept
        figures[f"beam {beam}"] = {"same": same, "near-ties": ties, "same as ctranslate2": engine_same}
    print(json.dumps(figures))
    assert all(f["same"] + f["near-ties"] == 200 for f in figures.values()), figures
    assert all(f["same as ctranslate2"] >= 190 for f in figures.values()), figures
