"""Kinds: the three ways from text to pieces, each a pipeline of `tokenizers` around a model."""

from __future__ import annotations

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers


def wordpiece(
    model: models.WordPiece, *, lowercase: bool = False, accents: bool | None = None, chinese: bool = True
) -> tokenizers.Tokenizer:
    """WordPiece: words split at spaces and punctuation, then longest piece first (Devlin et al. 2019, section 3).

    Lowercasing takes accents away too, unless `accents` says otherwise; `chinese` characters are words of their own.
    """
    rust = tokenizers.Tokenizer(model)
    rust.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=chinese,
        strip_accents=None if accents is None else not accents,
        lowercase=lowercase,
    )
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rust.decoder = decoders.WordPiece()
    return rust


def byte_pairs(model: models.BPE, *, lowercase: bool = False, prefix_space: bool = False) -> tokenizers.Tokenizer:
    """Byte-level pair encoding: any text in pieces of its bytes, nothing unknown (Radford et al. 2019, section 2.2)."""
    rust = tokenizers.Tokenizer(model)
    if lowercase:
        rust.normalizer = normalizers.Lowercase()
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    rust.decoder = decoders.ByteLevel()
    return rust


def unigram(model: models.Unigram, *, lowercase: bool = False) -> tokenizers.Tokenizer:
    """Unigram: the likeliest pieces of words that begin with ▁ (Kudo 2018, section 3.2)."""
    rust = tokenizers.Tokenizer(model)
    steps = [normalizers.Nmt(), normalizers.NFKC()]
    rust.normalizer = normalizers.Sequence([*steps, normalizers.Lowercase()] if lowercase else steps)
    rust.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    rust.decoder = decoders.Metaspace()
    return rust
