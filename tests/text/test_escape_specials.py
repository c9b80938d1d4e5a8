"""Special tokens that a model could reach from text by itself, without anyone looking for their strings."""

from __future__ import annotations

import json

import tokenizers
from tokenizers import AddedToken, models, pre_tokenizers

from clearhead.text import Tokenizer


def wrap(model, specials: list[str], more: list[AddedToken] = []) -> Tokenizer:  # noqa: B006
    rust = tokenizers.Tokenizer(model)
    rust.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    rust.add_special_tokens(specials)
    rust.add_tokens(more)
    return Tokenizer(json.loads(rust.to_str()))


def test_merges_that_make_a_special_token():
    vocab = {c: i for i, c in enumerate(["<", "s", ">", "x", "<s", "<s>", "<s>x"])}
    tokenizer = wrap(models.BPE(vocab, [("<", "s"), ("<s", ">"), ("<s>", "x")]), ["<s>"])
    assert tokenizer.tokens(tokenizer("<s> <s>x").ids) == ["<s", ">", "<s", ">", "x"]
    assert tokenizer.tokens(tokenizer("<s> <s>x", specials_in_text=True).ids) == ["<s>", "<s>", "x"]


def test_words_that_are_a_special_token():
    vocab = {"[UNK]": 0, "[CLS]": 1, "[": 2, "##C": 3, "##L": 4, "##S": 5, "##]": 6, "hi": 7}
    tokenizer = wrap(models.WordPiece(vocab, unk_token="[UNK]"), ["[UNK]", "[CLS]"])
    assert tokenizer.tokens(tokenizer("hi [CLS] xyz").ids) == ["hi", "[", "##C", "##L", "##S", "##]", "[UNK]"]
    whole = wrap(models.WordLevel({"[UNK]": 0, "[CLS]": 1, "hi": 2}, unk_token="[UNK]"), ["[UNK]", "[CLS]"])
    assert whole(["hi [CLS]"]).ids.tolist() == [2, 0]


def test_pieces_with_the_best_of_scores():
    pieces = [("<unk>", 0.0), ("</s>", 0.0), ("<", -3.0), ("/", -3.0), ("s", -3.0), (">", -3.0)]
    tokenizer = wrap(models.Unigram(pieces, 0, False), ["<unk>", "</s>"])
    assert tokenizer.tokens(tokenizer("</s>").ids) == ["<", "/", "s", ">"]
    assert tokenizer("</s>", special=False, specials_in_text=True).ids.tolist() == [1]


def test_a_letter_declared_special_stays_a_letter():
    """Some folders pad with "!"; text must not lose its exclamation marks."""
    tokenizer = wrap(models.BPE({"h": 0, "i": 1, "!": 2}, []), ["!"])
    assert tokenizer("hi!").ids.tolist() == [0, 1, 2]


def test_added_tokens_keep_their_ids():
    """Tokens that are not special stay tokens, beside special ones that the model does and does not know."""
    model = models.BPE({"<s>": 0, "h": 1, "i": 2, "<": 3, "s": 4, ">": 5}, [])
    tokenizer = wrap(model, ["<s>", "<new>"], [AddedToken("hi", normalized=False)])
    assert tokenizer.id("<new>") == 6 and tokenizer.id("hi") == 7 and tokenizer.vocab_size == 8
    for mode in (False, True):
        assert tokenizer("hi h", specials_in_text=mode).ids.tolist() == [7, 1]
    assert tokenizer("<s>").ids.tolist() == [3, 4, 5]
