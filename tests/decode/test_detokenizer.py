"""Pieces put together are the text that all tokens give, whatever the tokens are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.decode.detokenizer import StreamDetokenizer
from clearhead.text import Tokenizer, train_tokenizer

MADE: dict[str, Tokenizer] = {}


@pytest.fixture(autouse=True)
def _trained(corpus):
    for kind, template in (("bpe", "gpt2"), ("unigram", "marian"), ("wordpiece", "bert")):
        if kind not in MADE:
            MADE[kind] = train_tokenizer(corpus, kind=kind, template=template, vocab_size=320 if kind == "bpe" else 90)


def flow(tokenizer: Tokenizer, prompt: list[int], ids: list[int]) -> list[str]:
    text = StreamDetokenizer(tokenizer, prompt)
    return [text.add(id, last=at == len(ids) - 1) for at, id in enumerate(ids)]


@given(st.data())
@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_any_tokens(kind, data):
    tokenizer = MADE[kind]
    token = st.integers(0, tokenizer.vocab_size - 1)
    prompt, ids = data.draw(st.lists(token, max_size=8)), data.draw(st.lists(token, min_size=1, max_size=30))
    before, whole = tokenizer.decode(prompt), tokenizer.decode([*prompt, *ids])
    if whole.startswith(before):  # half a character at the end of a prompt is completed by what follows
        assert before + "".join(flow(tokenizer, prompt, ids)) == whole


def test_half_a_character_waits_for_the_other_half():
    tokenizer = MADE["bpe"]
    face = "😀 café"
    byte = {tokenizer.tokens([i])[0]: i for i in range(tokenizer.vocab_size)}
    from tokenizers.pre_tokenizers import ByteLevel

    ids = [byte[c] for c in ByteLevel(add_prefix_space=False).pre_tokenize_str("😀")[0][0]]
    assert len(ids) == 4
    assert flow(tokenizer, [], [*ids, byte["t"]]) == ["", "", "", "😀", "t"]
    assert "".join(flow(tokenizer, [], tokenizer(face).ids.tolist())) == face
    assert all("�" not in part for part in flow(tokenizer, [], tokenizer("naïve 😀 naïve").ids.tolist()))
