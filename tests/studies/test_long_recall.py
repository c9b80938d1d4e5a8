"""Recall from long texts: the texts ask what they hold, and a model learns to answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.models import TransformerStack
from clearhead.models.heads import LMHead
from clearhead.studies import long_recall
from clearhead.studies.long_recall import METHODS, recall_model
from clearhead.studies.recall_texts import COMMON_WORDS, MIN_LEN, NOT_ASKED, NUM_PAIRS, NUM_RARE, RecallTexts

TASK = RecallTexts()


@settings(max_examples=50, deadline=None)
@given(length=st.integers(MIN_LEN, 400), number=st.integers(0, 1000), draw=st.integers(0, 2**41))
def test_every_question_is_answered_by_the_text(length, number, draw):
    columns = TASK.examples(np.full(number + 1, length))
    batch = TASK.collate(columns, np.array([number]), draw)
    ids, labels = batch.ids.numpy(), batch.labels.numpy()
    assert len(ids) == length == batch.layout.num_tokens
    asked = np.flatnonzero(labels != NOT_ASKED)
    targets = TASK.num_targets(columns, np.array([number]))
    assert targets is not None and len(asked) == int(targets[0])
    assert asked.min() >= length - NUM_RARE
    for place in asked:
        (earlier,) = np.flatnonzero(ids[: length - NUM_RARE] == ids[place])  # a rare word occurs once before the end
        assert ids[earlier + 1] == labels[place]
    assert (ids[: length - NUM_RARE] >= COMMON_WORDS).sum() == NUM_RARE


def test_texts_depend_on_number_and_draw_only():
    columns = TASK.examples(np.full(10, 100))
    one = TASK.collate(columns, np.array([3]), 5)
    among = TASK.collate(columns, np.array([1, 3, 8]), 5)
    assert torch.equal(one.ids, among.ids[100:200]) and torch.equal(one.labels, among.labels[100:200])
    assert not torch.equal(one.ids, TASK.collate(columns, np.array([3]), 6).ids)
    assert among.example_ids is not None and among.example_ids.tolist() == [1, 1, 0]
    assert TASK.lengths(columns).tolist() == [100] * 10
    with pytest.raises(ValueError, match="a text of 63 tokens is too short for 16 rare words: use 64"):
        TASK.examples(np.array([63, 64]))


def test_accuracy_counts_each_kind():
    """A model that always gives one word is right where that word is the answer."""
    batch = TASK.collate(TASK.examples(np.full(2, 80)), np.array([0, 1]), 1)
    asked = batch.labels[batch.labels != NOT_ASKED]
    model = recall_model(None, 8, 128)
    assert isinstance(model.head, LMHead)
    output = model.head.output
    with torch.no_grad():
        output.weight.zero_()
        output.bias = torch.nn.Parameter(torch.zeros(len(output.weight)))
        output.bias[asked[0]] = 1.0
    _, accuracy = TASK.loss_and_metrics(model, batch)
    assert accuracy == {"needle": (100.0, NUM_PAIRS), "induction": (0.0, NUM_RARE - 1)}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_reads_and_is_trained(name):
    options = METHODS[name]
    model = recall_model(None if options is None else {"kind": name, **options}, 16, 256)
    batch = TASK.collate(TASK.examples(np.full(2, 200)), np.array([0, 1]))
    TASK.loss(model, batch).backward()
    assert isinstance(model.decoder, TransformerStack)
    first, second = model.decoder.blocks  # the first layer is exact in all models
    methods = [block.get_submodule("attention.core").method for block in (first, second)]
    assert methods[0] is None and (methods[1] is None) == (name == "exact")
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


def test_a_finished_study_is_not_repeated(tmp_path):
    sizes = {"steps": 4, "methods": ("exact", "sink_window"), "lengths": (64, 128), "texts": 2, "batch_tokens": 256}
    first = long_recall.measure(tmp_path, width=8, **sizes)
    again = long_recall.measure(tmp_path, width=8, **sizes)
    assert [r.points for r in first.runs] == [r.points for r in again.runs]
    assert [r.loss for r in first.runs] == [r.loss for r in again.runs]
    assert [r.method for r in first.runs] == ["exact", "sink_window"]
    needle, induction, _ = long_recall.draw(first).axes
    assert len(needle.lines) == len(induction.lines) == 2


@pytest.mark.slow
def test_exact_attention_recalls_from_longer_texts_and_a_window_does_not(tmp_path):
    measured = long_recall.measure(tmp_path, steps=1000, methods=("exact", "sink_window"), lengths=(128, 2048))
    exact, window = ({(p.kind, p.length): p.accuracy for p in run.points} for run in measured.runs)
    assert min(exact.values()) > 95
    assert window["needle", 2048] < 20
