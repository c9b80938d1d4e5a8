"""Translation: what is read, what is predicted, and what the loss counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data import Row, Rows
from clearhead.models import build
from clearhead.tasks import Translate

SENTENCE = st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=12).map(" ".join)
TINY = {"width": 16, "num_heads": 2, "num_layers": 1, "ffn_dim": 16, "dropout": 0.0}


def pairs(*texts: tuple[str, str]) -> Rows:
    return Rows(lambda: iter([Row({"source": a, "target": b}, "file", i) for i, (a, b) in enumerate(texts, 1)]))


@pytest.fixture
def task(words):
    return Translate(words["marian"], max_len=10)


@given(texts=st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=6), data=st.data())
def test_the_decoder_reads_what_it_has_said_before(words, texts, data):
    """Labels end with one end mark and have no other; the input is the labels moved on, from padding."""
    task = Translate(words["marian"], max_len=20)
    columns, _ = task.encode(pairs(*texts))
    chosen = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=5))
    batch = task.collate(columns, np.array(chosen))
    eos, pad = task.tokenizer.eos_id, task.tokenizer.pad_id
    assert batch.target is not None and batch.target_layout is not None
    sides = (batch.layout.split(batch.ids), batch.target_layout.split(batch.labels))
    for place, (source, labels) in enumerate(zip(*sides, strict=True)):
        for ids, text in zip((source, labels), texts[chosen[place]], strict=True):
            assert ids.tolist().count(eos) == 1 and ids[-1] == eos
            assert pad not in ids
            assert task.tokenizer.decode(ids) == text
        given_ids = batch.target_layout.split(batch.target)[place]
        assert given_ids.tolist() == [pad, *labels[:-1].tolist()]
    assert batch.num_tokens == len(batch.ids) + len(batch.labels)
    assert task.lengths(columns)[chosen].sum() == batch.num_tokens
    assert task.num_targets(columns)[chosen].sum() == len(batch.labels)


def test_marks_that_stand_in_the_text_are_text(task):
    """Exactly one end mark, whatever somebody wrote."""
    columns, _ = task.encode(pairs(("a </s> b", "<pad> </s>")))
    batch = task.collate(columns, np.array([0]))
    for ids in (batch.ids, batch.labels):
        assert ids.tolist().count(task.tokenizer.eos_id) == 1
        assert task.tokenizer.pad_id not in ids


def test_long_pairs_are_skipped_and_reported(task):
    long = "a " * 10
    columns, left = task.encode(pairs(("a b", "c"), (long, "c"), ("a", long), ("a " * 9, "b " * 9)))
    assert [str(out) for out in left] == ["2 of 4 examples were skipped: a side has more than 10 tokens (data.max_len)"]
    assert columns["source"].lengths().tolist() == [3, 10]
    assert columns["target"].lengths().tolist() == [2, 10]
    assert task.encode(pairs(("a", "b")))[1] == []


def test_more_rows_than_a_chunk(task):
    columns, _ = task.encode(pairs(*[("a b", "c")] * 2001))
    assert len(columns["source"]) == len(columns["target"]) == 2001


def test_the_loss_is_the_sum_over_every_label_and_an_end_mark_counts(task):
    model = build(task.config(TINY)).eval()
    columns, _ = task.encode(pairs(("a b c", "c b"), ("d", "e f g")))
    batch = task.collate(columns, np.array([0, 1]))
    scores = model(batch.ids, batch.layout, batch.target, batch.target_layout)
    each = F.cross_entropy(scores, batch.labels, reduction="none")
    assert batch.labels.tolist().count(task.tokenizer.eos_id) == 2
    torch.testing.assert_close(task.loss(model, batch), each.sum())
    ends = batch.labels == task.tokenizer.eos_id
    assert (each[ends] > 0).all(), "without the end marks the sum would be another"


def test_labels_are_smoothed_while_training_only(words):
    plain, smooth = (Translate(words["marian"], 10, smoothing) for smoothing in (0.0, 0.3))
    model = build(plain.config(TINY))
    columns, _ = plain.encode(pairs(("a b c", "c b a")))
    batch = plain.collate(columns, np.array([0]))
    assert not torch.equal(plain.loss(model.train(), batch), smooth.loss(model, batch))
    assert torch.equal(plain.loss(model.eval(), batch), smooth.loss(model, batch))


def test_no_example_at_all_runs_both_ways(task):
    model = build(task.config(TINY)).train()
    columns, _ = task.encode(pairs(("a", "b")))
    loss = task.loss(model, task.collate(columns, np.zeros(0, dtype=np.int64)))
    loss.backward()
    assert loss.item() == 0.0
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_a_tokenizer_without_padding_is_refused(words):
    with pytest.raises(ValueError, match="no padding token"):
        _ = Translate(words["gpt2"]).start


def test_the_generation_config(task):
    generation = task.save_format(task.config(TINY)).generation
    assert generation["decoder_start_token_id"] == generation["pad_token_id"] == task.tokenizer.pad_id
    assert generation["eos_token_id"] == generation["forced_eos_token_id"] == task.tokenizer.eos_id
    assert generation["bad_words_ids"] == [[task.tokenizer.pad_id]]


@pytest.mark.parametrize(
    ("settings", "family", "architecture"),
    [
        (TINY, "marian", "MarianMTModel"),
        ({"kind": "gru", "width": 16, "hidden_size": 16}, "clearhead-recurrent", "RecurrentForConditionalGeneration"),
    ],
)
def test_the_family_it_is_saved_as(task, settings, family, architecture):
    saved = task.save_format(task.config(settings))
    assert (saved.family.model_type, saved.architecture) == (family, architecture)
    assert saved.architecture in saved.family.heads
