"""Calling a tokenizer: special tokens, truncation, offsets, windows, for every kind and template."""

from __future__ import annotations

import json
import lzma
import pickle
import unicodedata
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders

from clearhead.text import TEMPLATES, Tokenizer, Truncation
from tests.text.conftest import ALL, SPECIALS, WORDS

DATA = Path(__file__).parents[3] / "shared" / "data"

every = pytest.mark.parametrize(("kind", "template"), ALL)
often = settings(max_examples=25)

letters = st.text(st.characters(codec="utf-8"), max_size=12)
text = st.lists(st.one_of(st.sampled_from(SPECIALS), st.sampled_from(WORDS), letters), max_size=12).flatmap(
    lambda words: st.sampled_from(["", " ", "  "]).map(lambda gap: gap.join(words))
)
pair = st.one_of(st.none(), text)


def around(tokenizer: Tokenizer, template: str, pair: bool) -> list[int | None]:
    """The frame of a family: ids of its special tokens, None where a text goes."""
    facts = TEMPLATES[template]
    places = (facts.pair if pair else facts.single).split()
    return [None if place.startswith("$") else tokenizer.id(place.partition(":")[0]) for place in places]


def expected(frame: list[int | None], parts: list[list[int]]) -> list[int]:
    rest = iter(parts)
    return [id for place in frame for id in (next(rest) if place is None else [place])]


def control(tokenizer: Tokenizer, template: str) -> set[int | None]:
    """The ids that a text must never reach; an unknown character may be unknown."""
    facts = TEMPLATES[template]
    return {tokenizer.id(t) for t in (*facts.first, *facts.last)} - {tokenizer.unk_id}


@every
def test_special_strings_in_a_text_are_text(made, kind, template):
    tokenizer = made(kind, template)
    forbidden = control(tokenizer, template)

    @often
    @given(text, pair, st.one_of(st.none(), st.integers(5, 20)))
    def check(a, b, max_len):
        got = tokenizer(a, b, max_len=max_len)
        inside = got.ids[got.parts >= 0]
        assert not forbidden & set(inside.tolist())
        frame = around(tokenizer, template, b is not None)
        parts = [got.ids[got.parts == i].tolist() for i in range(1 if b is None else 2)]
        assert got.ids.tolist() == expected(frame, parts)
        bos = tokenizer.bos_id
        if frame[0] is not None:  # exactly one beginning, at the front
            assert got.ids[0] == bos and (got.ids == bos).sum() == 1
        if max_len is not None:
            assert len(got.ids) <= max_len
            full = tokenizer(a, b)
            assert got.truncations == ((Truncation(0, len(full.ids), max_len),) if len(full.ids) > max_len else ())
            assert len(got.ids) == min(len(full.ids), max_len)
            for i in range(len(parts)):  # what is kept is a beginning
                assert full.ids[full.parts == i].tolist()[: len(parts[i])] == parts[i]

    check()


@every
def test_special_strings_are_tokens_if_asked_for_and_not_doubled(made, kind, template):
    tokenizer = made(kind, template)
    frame = around(tokenizer, template, False)
    at = frame.index(None)
    before = "".join(tokenizer.tokens(frame[:at]))
    after = "".join(tokenizer.tokens(frame[at + 1 :]))
    bare = tokenizer("the cat", specials_in_text=True)
    assert (
        tokenizer(f"{before}the cat{after}", specials_in_text=True).ids[: at + 1].tolist()
        == bare.ids[: at + 1].tolist()
    )
    for text in (f"{before}{before}the cat{after}", f"{before}the cat{after}{after}"):
        got = tokenizer(text, "the dog", specials_in_text=True)
        assert not before or (got.ids == bare.ids[0]).sum() == 1
        assert not after or (got.ids == bare.ids[-1]).sum() == around(tokenizer, template, True).count(frame[-1])
    for token in TEMPLATES[template].first + TEMPLATES[template].last:
        got = tokenizer(f"the cat {token} the dog", specials_in_text=True)
        assert tokenizer.id(token) in got.ids[got.parts >= 0]


@every
def test_both_readings_agree_on_ordinary_text(made, kind, template):
    tokenizer = made(kind, template)
    ordinary = [w for w in WORDS if not set(w) & set("<[")]

    @often
    @given(st.lists(st.sampled_from(ordinary), max_size=20).map(" ".join))
    def check(a):
        assert tokenizer(a).ids.tolist() == tokenizer(a, specials_in_text=True).ids.tolist()

    check()


@every
def test_offsets_are_where_a_token_came_from(made, kind, template):
    tokenizer = made(kind, template)

    @often
    @given(text, pair)
    def check(a, b):
        got = tokenizer(a, b)
        for id, part, (start, end), word in zip(
            got.ids.tolist(), got.parts.tolist(), got.offsets.tolist(), got.words.tolist(), strict=True
        ):
            if part < 0:
                assert (start, end, word) == (-1, -1, -1)
                continue
            source = (a, b)[part]
            assert 0 <= start <= end <= len(source)
            piece = tokenizer.tokens([id])[0]
            if kind == "bpe":
                shown = decoders.ByteLevel().decode([piece])
                assert "\ufffd" in shown or shown.strip() in source[start:end]  # else a part of a character
            elif id != tokenizer.unk_id:
                bare = piece.removeprefix("##") if kind == "wordpiece" else piece.removeprefix("▁")
                assert plain(bare) in plain(source[start:end])
        for part, source in enumerate((a,) if b is None else (a, b)):
            covered = set()
            for start, end in got.offsets[got.parts == part].tolist():
                covered |= set(range(start, end))
            left = [c for i, c in enumerate(source) if i not in covered]
            assert kind != "bpe" or not "".join(left).strip()

    check()


def plain(text: str) -> str:
    """What normalisation may change, taken away."""
    return unicodedata.normalize("NFKC", text)


@every
def test_one_text_alone_or_among_many(made, kind, template):
    tokenizer = made(kind, template)

    @settings(max_examples=10)
    @given(st.lists(text, max_size=6), st.booleans())
    def check(texts, paired):
        pairs = texts[::-1] if paired else None
        for offsets in (True, False):
            many = tokenizer(texts, pairs, offsets=offsets)
            assert many.layout.num_sequences == len(texts) and many.sources.tolist() == list(range(len(texts)))
            for i, ids in enumerate(many.layout.split(many.ids)):
                alone = tokenizer(texts[i], pairs and pairs[i])
                rows = many.layout.rows(i)
                assert ids.tolist() == alone.ids.tolist()
                assert many.segments[rows].tolist() == alone.segments.tolist()
                assert many.parts[rows].tolist() == alone.parts.tolist()
                if offsets:
                    assert many.offsets is not None and alone.offsets is not None
                    assert many.words is not None and alone.words is not None
                    assert many.offsets[rows].tolist() == alone.offsets.tolist()
                    assert many.words[rows].tolist() == alone.words.tolist()
                else:
                    assert many.offsets is None and many.words is None

    check()


@every
def test_windows_cover_every_token(made, kind, template):
    tokenizer = made(kind, template)

    @often
    @given(st.lists(text, min_size=1, max_size=3), st.booleans(), st.integers(1, 12), st.integers(1, 15))
    def check(texts, paired, room, stride):
        pairs = texts if paired else None
        texts = ["the cat"] * len(texts) if paired else texts
        first = len(tokenizer(texts[0], special=False).ids) if paired else 0
        overhead = len(tokenizer("", "" if paired else None).ids)
        got = tokenizer.windows(texts, pairs, max_len=overhead + first + room, stride=stride)
        assert got.layout.max_len <= overhead + first + room
        whole = tokenizer(texts, pairs)
        part = 1 if paired else 0
        for i in range(len(texts)):
            rows = whole.layout.rows(i)
            wanted = whole.ids[rows][whole.parts[rows] == part].tolist()
            places = whole.offsets[rows][whole.parts[rows] == part].tolist()
            frame = whole.ids[rows][whole.parts[rows] != part].tolist()
            begin = ends = 0
            for w in (got.sources == i).nonzero().flatten().tolist():
                at = got.layout.rows(w)
                mine = got.parts[at] == part
                assert got.ids[at][~mine].tolist() == frame  # the question and the special tokens, every time
                begin = 0 if ends == 0 else begin + min(stride, room)
                assert begin <= ends  # no gap
                ids = got.ids[at][mine].tolist()
                assert ids == wanted[begin : begin + room]
                assert got.offsets[at][mine].tolist() == places[begin : begin + room]
                assert begin + len(ids) > ends or not wanted  # each brings something new
                ends = begin + len(ids)
            assert ends == len(wanted)

    check()


@pytest.mark.parametrize("template", TEMPLATES)
def test_bytes_decode_to_the_text(made, template):
    tokenizer = made("bpe", template)

    @often
    @given(text)
    def check(a):
        assert tokenizer.decode(tokenizer(a).ids) == a

    check()


@every
def test_what_is_decoded_encodes_to_the_same(made, kind, template):
    tokenizer = made(kind, template)

    @often
    @given(st.lists(st.sampled_from([w for w in WORDS if not set(w) & set("<[")]), max_size=12).map(" ".join))
    def check(a):
        ids = tokenizer(a).ids
        assert tokenizer(tokenizer.decode(ids)).ids.tolist() == ids.tolist()

    check()


def test_special_tokens_of_other_names_and_roles(made):
    bert, gpt2, marian = made("wordpiece", "bert"), made("bpe", "gpt2"), made("unigram", "marian")
    assert (bert.pad_id, bert.unk_id, bert.bos_id, bert.eos_id, bert.mask_id) == (0, 1, 2, 3, 4)
    assert bert.specials == {"bos": "[CLS]", "eos": "[SEP]", "pad": "[PAD]", "mask": "[MASK]", "unk": "[UNK]"}
    assert gpt2.bos_id == gpt2.eos_id == gpt2.vocab_size - 1
    assert gpt2.pad_id is gpt2.mask_id is gpt2.unk_id is None
    assert marian.pad_id == marian.vocab_size - 1 and marian.eos_id == 0 and marian.bos_id is None
    assert marian.require_eos_id == 0
    assert bert.max_len is None and f"{bert.vocab_size} tokens" in repr(bert)
    assert bert.id("no such piece") is None


def test_segments(made):
    got = made("wordpiece", "bert")("the cat", "a dog")
    assert got.segments.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert got.parts.tolist() == [-1, 0, 0, -1, 1, 1, -1]
    assert not made("bpe", "roberta")("the cat", "a dog").segments.any()


def test_special_false_adds_nothing(made):
    tokenizer = made("wordpiece", "bert")
    assert tokenizer.tokens(tokenizer("the cat", special=False).ids) == ["the", "cat"]
    assert tokenizer.tokens(tokenizer("[CLS] the cat", special=False, specials_in_text=True).ids) == [
        "[CLS]",
        "the",
        "cat",
    ]


def test_a_pair_is_shortened_as_asked(made):
    tokenizer = made("wordpiece", "bert")
    a, b = "the " * 4, "cat " * 10
    longest, second = (tokenizer(a, b, max_len=10, shorten=how) for how in ("longest", "second"))
    assert [(longest.parts == i).sum() for i in (0, 1)] == [3, 4]
    assert [(second.parts == i).sum() for i in (0, 1)] == [4, 3]
    assert longest.truncations == second.truncations == (Truncation(0, 17, 10),)
    with pytest.raises(ValueError, match="pair 1 leaves no room in 7 tokens"):
        tokenizer(["a", a], [b, b], max_len=7, shorten="second")


def test_the_report(made):
    tokenizer = made("wordpiece", "bert")
    assert tokenizer(["the cat"] * 3, max_len=4).report() == ""
    assert tokenizer("the " * 9, max_len=6).report() == (
        "1 of 1 texts was longer than 6 tokens and was truncated; the longest had 11"
    )
    got = tokenizer(["the", "the " * 9, "the", "the " * 7], max_len=6)
    assert got.report() == "2 of 4 texts were longer than 6 tokens and were truncated; the longest had 11"
    assert got.truncations == (Truncation(1, 11, 6), Truncation(3, 9, 6)) and "2 truncated" in repr(got)


def test_nothing_is_cut_unless_asked(made):
    got = made("wordpiece", "bert", max_len=16)("the " * 50)
    assert len(got.ids) == 52 and not got.truncations


def test_no_texts_and_empty_texts(made):
    tokenizer = made("wordpiece", "bert")
    assert tokenizer([]).layout.num_sequences == 0 and tokenizer([], []).ids.shape == (0,)
    assert tokenizer([], max_len=5).offsets.shape == (0, 2)
    assert tokenizer.windows([], max_len=5, stride=2).layout.num_sequences == 0
    assert tokenizer(["", "the"]).layout.host_lengths == (2, 3)
    assert tokenizer.windows("", max_len=5, stride=2).layout.host_lengths == (2,)
    assert made("bpe", "gpt2")(["", "the"]).layout.host_lengths[0] == 0


def test_what_is_no_text_is_refused(made):
    tokenizer = made("wordpiece", "bert")
    for texts, says in (
        (["a", None], "text 1 is None, a NoneType"),
        (["a", "b\ud83d"], "text 1 holds half a character"),
        ([3], "text 0 is 3"),
    ):
        with pytest.raises(ValueError, match=says):
            tokenizer(texts)
    with pytest.raises(ValueError, match="2 texts but 1 pairs"):
        tokenizer(["a", "b"], ["c"])
    with pytest.raises(ValueError, match="max_len is 2, but 2 special tokens are added"):
        tokenizer("a", max_len=2)
    with pytest.raises(ValueError, match="shorten is 'first'"):
        tokenizer("a", "b", max_len=9, shorten="first")
    with pytest.raises(ValueError, match="stride is 0"):
        tokenizer.windows("a", max_len=9, stride=0)
    with pytest.raises(ValueError, match="pair 0 leaves no room"):
        tokenizer.windows("the " * 9, "a", max_len=9, stride=3)


@pytest.mark.parametrize("ids", [[-1], [500], [2**70]])
def test_ids_that_are_none_of_the_vocabulary(made, ids):
    with pytest.raises(ValueError, match="there is no token"):
        made("bpe", "bert").decode(ids)
    with pytest.raises(ValueError, match="there is no token"):
        made("bpe", "bert").tokens(ids)


def test_decode_shows_special_tokens_if_asked(made):
    tokenizer = made("wordpiece", "bert")
    ids = tokenizer("the cat").ids
    assert tokenizer.decode(ids) == "the cat"
    assert tokenizer.decode(ids, special=True) == "[CLS] the cat [SEP]"


@every
def test_a_pickled_tokenizer_is_the_same(made, kind, template):
    tokenizer = made(kind, template)
    other = pickle.loads(pickle.dumps(tokenizer))
    assert other.fingerprint() == tokenizer.fingerprint() and other.specials == tokenizer.specials


def test_tokens_move(made):
    got = made("wordpiece", "bert")("the cat").to("meta")
    assert {t.device.type for t in (got.ids, got.offsets, got.segments, got.parts, got.words)} == {"meta"}
    assert got.layout.device == torch.device("meta")


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason="the data sets are not here")
@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_answers_of_squad_lie_where_the_offsets_say(made, kind):
    tokenizer = made(kind, "roberta")
    articles = json.loads(lzma.decompress((DATA / "squad" / "dev-v1.1.json.xz").read_bytes()))["data"][:2]
    for paragraph in (p for article in articles for p in article["paragraphs"]):
        context = paragraph["context"]
        questions = [q["question"] for q in paragraph["qas"]]
        got = tokenizer.windows(questions, [context] * len(questions), max_len=200, stride=60)
        for i, qa in enumerate(paragraph["qas"]):
            begin = qa["answers"][0]["answer_start"]
            end = begin + len(qa["answers"][0]["text"])
            found = set()
            for w in (got.sources == i).nonzero().flatten().tolist():
                rows = got.layout.rows(w)
                for (start, stop), part in zip(got.offsets[rows].tolist(), got.parts[rows].tolist(), strict=True):
                    if part == 1:
                        found |= set(range(start, stop))
            assert {c for c in range(begin, end) if not context[c].isspace()} <= found


def test_an_end_token_that_is_needed_and_missing_is_explained():
    from tokenizers import Tokenizer as Fast
    from tokenizers import models

    endless = Tokenizer(json.loads(Fast(models.WordLevel({"a": 0, "b": 1}, unk_token="a")).to_str()))
    assert endless.eos_id is None
    with pytest.raises(ValueError, match="no end token, which ends a text"):
        _ = endless.require_eos_id
