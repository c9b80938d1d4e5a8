"""What turns text into tokens: tokenizers loaded, trained, fingerprinted, and the ragged batches they give."""

from clearhead.text.sentences import sentences_of, tokens_of
from clearhead.text.templates import TEMPLATES, Template
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.tokens import Cut, Tokens
from clearhead.text.training import KINDS, train_tokenizer

__all__ = [
    "KINDS",
    "TEMPLATES",
    "Cut",
    "Template",
    "Tokenizer",
    "Tokens",
    "sentences_of",
    "tokens_of",
    "train_tokenizer",
]
