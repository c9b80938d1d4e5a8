"""Tokenizers: loading, training, fingerprints, and the ragged token batches they produce."""

from clearhead.text.sentences import split_sentences, tokenize_sentences
from clearhead.text.templates import TEMPLATES, TokenizerTemplate
from clearhead.text.token_batch import TokenBatch, Truncation
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.tokenizer_training import KINDS, train_tokenizer

__all__ = [
    "KINDS", "TEMPLATES", "TokenBatch", "Tokenizer", "TokenizerTemplate", "Truncation", "split_sentences",
    "tokenize_sentences", "train_tokenizer",
]  # fmt: skip
