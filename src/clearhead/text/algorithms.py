"""Tokenization algorithms: WordPiece, byte-level BPE and Unigram pipelines of the `tokenizers` library."""

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers


def wordpiece(
    model: models.WordPiece, *, lowercase: bool = False, accents: bool | None = None, chinese: bool = True
) -> tokenizers.Tokenizer:
    """Returns a WordPiece tokenizer: splits at spaces and punctuation, then longest match first (Devlin et al. 2019).

    Lowercasing also strips accents, unless `accents` is given; with `chinese`, Chinese characters are separate words.
    """
    rust = tokenizers.Tokenizer(model)
    strip = None if accents is None else not accents
    rust.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=chinese, strip_accents=strip, lowercase=lowercase
    )
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rust.decoder = decoders.WordPiece()
    return rust


def byte_pairs(model: models.BPE, *, lowercase: bool = False, prefix_space: bool = False) -> tokenizers.Tokenizer:
    """Returns a byte-level BPE tokenizer, which has no unknown tokens (Radford et al. 2019, section 2.2)."""
    rust = tokenizers.Tokenizer(model)
    if lowercase:
        rust.normalizer = normalizers.Lowercase()
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    rust.decoder = decoders.ByteLevel()
    return rust


def unigram(model: models.Unigram, *, lowercase: bool = False) -> tokenizers.Tokenizer:
    """Returns a Unigram tokenizer: the most likely segmentation; words begin with ▁ (Kudo 2018, section 3.2)."""
    rust = tokenizers.Tokenizer(model)
    steps = [normalizers.Nmt(), normalizers.NFKC()]
    rust.normalizer = normalizers.Sequence([*steps, normalizers.Lowercase()] if lowercase else steps)
    rust.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    rust.decoder = decoders.Metaspace()
    return rust
