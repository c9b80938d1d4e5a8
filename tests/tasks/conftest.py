from __future__ import annotations

import pytest

from clearhead.text import train_tokenizer


@pytest.fixture(scope="session")
def words(tmp_path_factory):
    """Tokenizers of a few words, by template."""
    path = tmp_path_factory.mktemp("words") / "text.txt"
    path.write_text("a b c d e f g h i j\n" * 20 + "one two three </s> <pad> <|endoftext|>\n" * 3)
    return {
        name: train_tokenizer(path, template=name, vocab_size=size, kind=kind)
        for name, size, kind in (("marian", 60, "wordpiece"), ("gpt2", 300, None))
    }
