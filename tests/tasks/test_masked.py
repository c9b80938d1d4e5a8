"""Masked words: what is hidden is what is asked for, pairs are what they are said to be, and the loss is transformers'."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from clearhead.data import read_rows
from clearhead.models import build
from clearhead.models.store import Opened, save_folder
from clearhead.tasks import Masked
from clearhead.text import train_tokenizer

WORDS = ["the", "old", "house", "stood", "near", "a", "river", "and", "people", "went", "there", "often", "to", "see"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    here = tmp_path_factory.mktemp("masked")
    draw = random.Random(0)
    documents = [
        "\n".join(
            " ".join(draw.choices(WORDS, k=draw.randint(3, 9))).capitalize() + "." for _ in range(draw.randint(1, 8))
        )
        for _ in range(40)
    ]
    (here / "text.txt").write_text("\n\n".join(documents) + "\n")
    return here, documents, train_tokenizer(here / "text.txt", template="bert", vocab_size=90)


def task_of(corpus, **settings):
    task = Masked(corpus[2], max_len=24, **settings)
    return task, task.encode(read_rows({"text": corpus[0] / "text.txt"}))[0]


def test_documents_are_read_whole_in_stretches_of_their_own(corpus):
    task, columns = task_of(corpus)
    said = [corpus[2].decode(columns["ids"].take(np.array([i]))[0]) for i in range(len(columns["ids"]))]
    assert "".join(" ".join(said).split()).lower() == "".join(" ".join(corpus[1]).split()).lower()
    assert (columns["ids"].lengths <= 22).all() and (task.lengths(columns) <= 24).all()


@pytest.mark.parametrize("pairs", ["none", "next", "order"])
def test_what_is_hidden_is_what_is_asked_for(corpus, pairs):
    task, columns = task_of(corpus, pairs=pairs)
    examples = np.arange(len(columns["ids"]))
    batch = task.collate(columns, examples, 3)
    assert batch.labels.shape[1] == task.counts(columns).sum()
    if pairs == "none":
        whole = [task._framed(columns, i, 3)[0] for i in examples]
        np.testing.assert_array_equal(np.concatenate(whole)[batch.labels[0]], batch.labels[1])
    again = task.collate(columns, examples[::-1].copy(), 3)  # another batch, the same examples
    sizes = np.array(batch.layout.sizes)
    ends = np.cumsum(sizes)
    for i in examples[:5].tolist():
        mine = batch.ids[ends[i] - sizes[i] : ends[i]]
        back = np.cumsum(sizes[::-1])
        theirs = again.ids[back[len(sizes) - 1 - i] - sizes[i] : back[len(sizes) - 1 - i]]
        assert torch.equal(mine, theirs)
    assert not torch.equal(batch.ids, task.collate(columns, examples, 4).ids)


def test_pairs_are_what_they_are_said_to_be(corpus):
    words = corpus[2]
    for pairs in ("next", "order"):
        task, columns = task_of(corpus, pairs=pairs)
        kinds = []
        for i in range(len(columns["ids"])):
            ids, segment, kind = task._framed(columns, i, 1)
            own = columns["ids"].take(np.array([i]))[0]
            a, b = ids[segment == 0][1:-1], ids[segment == 1][:-1]
            assert ids[0] == words.bos_id and ids[-1] == words.eos_id and len(ids) <= 24
            if kind == 0:
                np.testing.assert_array_equal(np.concatenate([a, b]), own)
            elif pairs == "order":
                np.testing.assert_array_equal(np.concatenate([b, a]), own)
            kinds.append(kind)
        assert 0.25 < np.mean(kinds) < 0.75


@pytest.mark.parametrize("pairs", ["none", "next"])
def test_the_loss_is_that_of_transformers(corpus, pairs, tmp_path):
    transformers = pytest.importorskip("transformers")
    task, columns = task_of(corpus, pairs=pairs)
    config = task.config({"size": "tiny", "num_layers": 2, "dropout": 0.0})
    torch.manual_seed(0)
    model = build(config).eval()
    family, architecture = task.layout(config)
    raw = family.write(config, architecture, {})
    save_folder(Opened(model, config, family, architecture, raw, corpus[2], {}), tmp_path / "model")
    theirs = getattr(transformers, architecture).from_pretrained(tmp_path / "model").eval()
    examples = np.arange(6)
    batch = task.collate(columns, examples, 1)
    with torch.no_grad():
        ours = task.loss(model, batch)
        total, at = 0.0, 0
        for n, size in enumerate(batch.layout.sizes):
            labels = torch.full((size,), -100)
            here = (batch.labels[0] >= at) & (batch.labels[0] < at + size)
            labels[batch.labels[0][here] - at] = batch.labels[1][here]
            given = {"input_ids": batch.ids[None, at : at + size]}
            if batch.segments is not None:
                given["token_type_ids"] = batch.segments[None, at : at + size]
            said = theirs(**given)
            scores = said.logits if pairs == "none" else said.prediction_logits
            total += float(torch.nn.functional.cross_entropy(scores[0], labels, reduction="sum"))
            if pairs != "none":
                share = batch.labels.shape[1] / len(examples)
                total += share * float(
                    torch.nn.functional.cross_entropy(said.seq_relationship_logits, batch.owners[n : n + 1])
                )
            at += size
    assert float(ours) == pytest.approx(total, rel=1e-5)
