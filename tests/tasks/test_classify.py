"""Classification: windows of a long text count as one text, labels of every kind, and answers as in transformers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data import Row, Rows
from clearhead.hub.folder import LoadedModel
from clearhead.models import Model, build
from clearhead.tasks import Classify, Pair, TaskConfig
from clearhead.text import train_tokenizer

TINY = {"width": 16, "num_heads": 2, "num_layers": 1, "ffn_dim": 16, "dropout": 0.0}
WORDS = [
    "the",
    "old",
    "man",
    "sees",
    "a",
    "dog",
    "under",
    "tree",
    "and",
    "two",
    "children",
    "play",
    "with",
    "red",
    "bicycle",
    "on",
    "street",
]


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("classify") / "text.txt"
    path.write_text((" ".join(WORDS) + "\n") * 20)
    return train_tokenizer(path, template="bert", vocab_size=120)


def rows(*values):
    return Rows(lambda: iter([Row(value, "file", i) for i, value in enumerate(values, 1)]))


def loaded(model: Model) -> LoadedModel:
    """As much of a loaded model as answering reads."""
    return cast("LoadedModel", SimpleNamespace(model=model))


def made(tokenizer, given_rows, max_len=16, kind=Classify, **changes):
    """A task for these rows, and its model."""
    columns = tuple(next(iter(given_rows)).values)
    settings = TaskConfig(max_len=max_len, columns=columns, segments=True, **changes)
    task = kind.from_recipe(tokenizer, settings, kind.collect_labels(given_rows, columns))
    torch.manual_seed(0)
    model = build(task.config(TINY)).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return task, model


texts = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join), min_size=2, max_size=8)


@settings(max_examples=40)
@given(texts)
def test_a_text_s_scores_are_the_mean_of_its_windows_by_length(tokenizer, many):
    data = rows(*({"text": text, "label": "ab"[i % 2]} for i, text in enumerate(many)))
    task, model = made(tokenizer, data)
    columns, left = task.encode(data)
    assert left == [] and task.num_targets(columns).tolist() == [1] * len(many)
    found = task.outputs(model, columns)
    for text, row in zip(many, found, strict=True):
        tokens = tokenizer.windows([text], max_len=16, stride=task.reader.stride)
        alone = torch.stack([
            model(tokens.ids[tokens.layout.rows(i)], type(tokens.layout).from_lengths([size]))[0]
            for i, size in enumerate(tokens.layout.host_lengths)
        ])  # fmt: skip
        weights = torch.tensor(tokens.layout.host_lengths, dtype=torch.float32)
        assert torch.allclose(row, (alone * (weights / weights.sum())[:, None]).sum(0), atol=1e-5)
    batch = task.collate(columns, np.arange(len(many)))
    target = torch.tensor([i % 2 for i in range(len(many))])
    assert float(task.loss(model, batch).detach()) == pytest.approx(
        float(F.cross_entropy(found, target, reduction="sum")), rel=1e-5
    )


def test_rare_labels_weigh_more_while_training(tokenizer):
    data = rows(*({"text": "a dog", "label": label} for label in "aaab"))
    task, model = made(tokenizer, data, balance_classes=True)
    columns, _ = task.encode(data)
    batch = task.collate(columns, np.arange(4))
    scores = task.outputs(model, columns)
    model.train()
    want = F.cross_entropy(scores, batch.labels, reduction="none") * torch.tensor([2 / 3, 2 / 3, 2 / 3, 2.0])
    assert float(task.loss(model, batch).detach()) == pytest.approx(float(want.sum()), rel=1e-5)


def test_weighted_rows_weigh_more_while_training(tokenizer):
    given_rows = [
        Row({"text": "a dog", "label": label}, "f", 1, weight)
        for label, weight in zip("aab", (2, 0.5, 0.5), strict=True)
    ]
    data = Rows(lambda: iter(given_rows))
    task, model = made(tokenizer, data, balance_classes=True)
    columns, _ = task.encode(data)
    batch = task.collate(columns, np.array([0, 2, 1]))
    assert batch.weights is not None and batch.weights.tolist() == [2.0, 0.5, 0.5]
    losses = F.cross_entropy(task.outputs(model, columns)[[0, 2, 1]], batch.labels, reduction="none")
    assert float(task.loss(model, batch).detach()) == pytest.approx(float(losses.sum()), rel=1e-5)
    model.train()
    weighted = losses * torch.tensor([2.0, 0.5, 0.5]) * torch.tensor([0.75, 1.5, 0.75])
    assert float(task.loss(model, batch).detach()) == pytest.approx(float(weighted.sum()), rel=1e-5)
    plain = rows({"text": "a dog", "label": "a"}, {"text": "a dog", "label": "b"})
    assert "weight" not in task.encode(plain)[0]


def test_several_labels(tokenizer):
    data = rows(
        {"text": "a dog", "labels": "animal|one"},
        {"text": "two children", "labels": ["people"]},
        {"text": "red", "labels": ""},
    )
    task, model = made(tokenizer, data)
    columns, _ = task.encode(data)
    batch = task.collate(columns, np.arange(3))
    assert task.labels.names == ("animal", "one", "people")
    assert batch.labels.tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 0]]
    scores = task.outputs(model, columns)
    want = F.binary_cross_entropy_with_logits(scores, batch.labels, reduction="none").mean(1).sum()
    assert float(task.loss(model, batch).detach()) == pytest.approx(float(want), rel=1e-5)
    limited = Classify(tokenizer, task.labels, task.settings, (0.0, 1.1, 0.0))
    assert [a.answer for a in limited.answer(loaded(model), ["a dog"])] == [("animal", "people")]


def test_numbers_are_standardized_in_training_and_answered_in_their_own_scale(tokenizer):
    data = rows({"text": "a dog", "number": "1000"}, {"text": "two children play", "number": "3000"})
    task, model = made(tokenizer, data)
    columns, _ = task.encode(data)
    scores = task.outputs(model, columns)
    batch = task.collate(columns, np.arange(2))
    want = float(((scores[:, 0] - torch.tensor([-1.0, 1.0])) ** 2).sum())
    assert float(task.loss(model, batch).detach()) == pytest.approx(want, rel=1e-5)
    predicted = [a.answer for a in task.answer(loaded(model), ["a dog"])]
    assert predicted == pytest.approx([2000 + 1000 * float(scores[0, 0])], rel=1e-5)


def test_pairs_are_read_together_and_their_order_matters(tokenizer):
    data = rows(
        {"text": "a dog", "second": "the old man", "label": "no"}, {"text": "red", "second": "red", "label": "yes"}
    )
    task, model = made(tokenizer, data, kind=Pair, max_len=32)
    columns, _ = task.encode(data)
    want = tokenizer(["a dog", "red"], ["the old man", "red"])
    assert columns["ids"].ids.tolist() == want.ids.tolist()
    assert columns["segments"].ids.tolist() == want.segments.tolist()
    swapped = [next(task.answer(loaded(model), [pair])).scores for pair in (("a dog", "red"), ("red", "a dog"))]
    assert swapped[0] != swapped[1]


def test_a_first_text_that_is_too_long_leaves_room_for_the_second(tokenizer):
    long = " ".join(WORDS * 5)
    data = rows({"text": long, "second": long, "label": "no"}, {"text": "red", "second": "red", "label": "yes"})
    task, _ = made(tokenizer, data, kind=Pair, max_len=24)
    columns, _ = task.encode(data)
    assert columns["windows"].ids.max() <= 24
    tokens = task.reader.halved([long])
    assert len(tokenizer(tokens[0], special=False).ids) == 12
    second = tokenizer(long, special=False).ids.tolist()
    seen = set(columns["ids"].ids[columns["segments"].ids == 1].tolist())
    assert set(second) <= seen


def test_an_unknown_label_is_skipped_and_reported(tokenizer):
    data = rows({"text": "a dog", "label": "a"}, {"text": "red", "label": "b"})
    task, _ = made(tokenizer, data)
    columns, left = task.encode(rows({"text": "a dog", "label": "c"}, {"text": "red", "label": "b"}))
    assert len(columns["ids"]) == 1 and left[0].count == 1
    assert "file line 1: the label 'c' is not among" in left[0].reason
