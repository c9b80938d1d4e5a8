"""Tokenizers of every kind and template, trained once on a small text that is made here."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest

from clearhead.text import KINDS, TEMPLATES, Tokenizer, train_tokenizer

TEXT = (
    "the a cat dog house tree river mountain under over near with and but sees finds likes takes small large green "
    "old naïve café Łódź STRASSE straße don't it's 1999 3.14 e-mail 日本 中文 한국 привет мир 😀 👍🏽 ( ) , . ! ? "
    "<s> </s> <pad> <mask> <unk> [CLS] [SEP] [MASK] [PAD] <|endoftext|> markup<s>inside</s> </s><s> <s>x"
)
WORDS = TEXT.split()
SPECIALS = sorted({token for template in TEMPLATES.values() for token in (*template.first, *template.last)})
ALL = [(kind, template) for kind in KINDS for template in TEMPLATES]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    rng = random.Random(0)
    lines = (" ".join(rng.choices(WORDS, k=rng.randint(3, 14))) for _ in range(1500))
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def made(corpus):
    @cache
    def make(kind: str, template: str, **options) -> Tokenizer:
        return train_tokenizer(corpus, kind=kind, template=template, vocab_size=500, **options)

    return make
