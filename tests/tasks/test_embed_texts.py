from __future__ import annotations

import tracemalloc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.hub.sentence import SentenceConfig, read_sentence
from clearhead.pipeline import load
from clearhead.tasks.embed_texts import batches
from tests.files.hostile import valid


@given(st.lists(st.integers(0, 50)), st.integers(1, 100))
def test_batches_keep_order_and_budget(sizes, budget):
    counts = list(batches(sizes, budget))
    assert sum(counts) == len(sizes) and all(counts)
    at = 0
    for n in counts:
        part = sizes[at : at + n]
        assert n == 1 or sum(part) <= budget
        assert at + n == len(sizes) or sum(part) + sizes[at + n] > budget, "no batch is smaller than it must be"
        at += n


@pytest.fixture
def app(tmp_path):
    return load(valid(tmp_path / "bert"))


def test_nothing_to_encode(app):
    assert app.encode([]).shape == (0, 16)
    assert app.encode(["", "a"]).shape == (2, 16)
    assert app.encode("a b").shape == (16,)


def test_pooling_and_length(app):
    raw = app.encode(["a b c", "d"], normalize=False)
    unit = app.encode(["a b c", "d"], normalize=True)
    torch.testing.assert_close(unit, torch.nn.functional.normalize(raw, dim=1))
    assert not torch.allclose(app.encode(["a b c"], pool="first"), raw[:1])
    with pytest.raises(ValueError, match="there is no pooling 'median': choose first, last, bidirectional_last, mean"):
        app.encode(["a"], pool="median")


def test_what_is_no_text_is_refused(app):
    with pytest.raises(TypeError, match="text 1 is int"):
        app.encode(["a", 3])


def test_a_stream_is_read_as_it_comes(app):
    """Texts without end: nothing is held but the batch at hand."""
    drawn = 0

    def endless():
        nonlocal drawn
        while True:
            drawn += 1
            yield "a b c d"

    stream = app.encode_batches(endless(), batch_tokens=64)
    next(stream)
    tracemalloc.start()
    held = []
    for _ in range(200):
        next(stream)
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert drawn < 4000
    assert max(held[100:]) < 2 * max(held[:100]) + 100_000


def test_what_folders_say_of_sentences():
    modules = (
        b'[{"type": "sentence_transformers.models.Transformer"}, {"type": "sentence_transformers.models.Pooling"}%s]'
    )
    old = {"modules.json": modules % b"", "1_Pooling/config.json": b'{"pooling_mode_cls_token": true}'}
    assert read_sentence(old) == SentenceConfig(pool="first")
    new = {
        "modules.json": modules % b', {"type": "sentence_transformers.models.Normalize"}',
        "1_Pooling/config.json": b'{"pooling_mode": "lasttoken"}',
        "sentence_bert_config.json": b'{"max_seq_length": 99}',
        "config_sentence_transformers.json": b'{"prompts": {"query": "search: "}, "default_prompt_name": "query"}',
    }
    config = SentenceConfig(
        pool="last", normalize=True, max_len=99, prompts={"query": "search: "}, default_prompt="query"
    )
    assert read_sentence(new) == config and config.prompt() == "search: "
    assert read_sentence({}) == SentenceConfig()
    with pytest.raises(ValueError, match="Dense"):
        read_sentence({"modules.json": b'[{"type": "sentence_transformers.models.Dense"}]'})
    with pytest.raises(ValueError, match="pools by"):
        read_sentence({**old, "1_Pooling/config.json": b'{"pooling_mode_mean_sqrt_len_tokens": true}'})
