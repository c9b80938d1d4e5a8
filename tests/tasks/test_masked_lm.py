"""Masked words: what is hidden is what is asked for, pairs are what they are said to be, and the loss is transformers'."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from clearhead.data import read_rows
from clearhead.hub.folder import LoadedModel, save_folder
from clearhead.models import build
from clearhead.tasks import MaskedLM, TaskConfig
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
    task = MaskedLM(corpus[2], TaskConfig(max_len=24, **settings))
    return task, task.encode(read_rows({"text": corpus[0] / "text.txt"}))[0]


def test_documents_are_read_whole_in_stretches_of_their_own(corpus):
    task, columns = task_of(corpus)
    said = [corpus[2].decode(columns["ids"].take(np.array([i]))[0]) for i in range(len(columns["ids"]))]
    assert "".join(" ".join(said).split()).lower() == "".join(" ".join(corpus[1]).split()).lower()
    assert (columns["ids"].lengths() <= 22).all() and (task.lengths(columns) <= 24).all()


@pytest.mark.parametrize("pairs", ["none", "nsp", "sop"])
def test_what_is_hidden_is_what_is_asked_for(corpus, pairs):
    task, columns = task_of(corpus, pairs=pairs)
    examples = np.arange(len(columns["ids"]))
    batch = task.collate(columns, examples, 3)
    assert batch.labels.shape[1] == task.num_targets(columns).sum()
    if pairs == "none":
        whole = [one.ids for _, one in task.passages.each(columns, examples, 3)]
        np.testing.assert_array_equal(np.concatenate(whole)[batch.labels[0]], batch.labels[1])
    again = task.collate(columns, examples[::-1].copy(), 3)  # another batch, the same examples
    sizes = np.array(batch.layout.host_lengths)
    ends = np.cumsum(sizes)
    for i in examples[:5].tolist():
        mine = batch.ids[ends[i] - sizes[i] : ends[i]]
        back = np.cumsum(sizes[::-1])
        theirs = again.ids[back[len(sizes) - 1 - i] - sizes[i] : back[len(sizes) - 1 - i]]
        assert torch.equal(mine, theirs)
    assert not torch.equal(batch.ids, task.collate(columns, examples, 4).ids)


def test_pairs_are_what_they_are_said_to_be(corpus):
    words = corpus[2]
    for pairs in ("nsp", "sop"):
        task, columns = task_of(corpus, pairs=pairs)
        kinds = []
        for i, one in task.passages.each(columns, np.arange(len(columns["ids"])), 1):
            ids, segment, (kind,) = one.ids, one.segments, one.follows
            own = columns["ids"].take(np.array([i]))[0]
            a, b = ids[segment == 0][1:-1], ids[segment == 1][:-1]
            assert ids[0] == words.bos_id and ids[-1] == words.eos_id and len(ids) <= 24
            if kind == 0:
                np.testing.assert_array_equal(np.concatenate([a, b]), own)
            elif pairs == "sop":
                np.testing.assert_array_equal(np.concatenate([b, a]), own)
            kinds.append(kind)
        assert 0.25 < np.mean(kinds) < 0.75


FAMILIES = [("bert", "none"), ("bert", "nsp"), ("albert", "sop"), ("albert", "none"), ("roberta", "none")]


@pytest.mark.parametrize(("family", "pairs"), FAMILIES)
def test_the_loss_is_that_of_transformers(corpus, family, pairs, tmp_path):
    transformers = pytest.importorskip("transformers")
    words = train_tokenizer(corpus[0] / "text.txt", template=family, vocab_size=300 if family == "roberta" else 90)
    task, columns = task_of((corpus[0], corpus[1], words), pairs=pairs, family=family)
    config = task.config({"family": family, "size": "tiny", "num_layers": 2, "dropout": 0.0})
    torch.manual_seed(0)
    model = build(config).eval()
    saved = task.save_format(config)
    raw = saved.family.write(config, saved.architecture, {})
    folder = LoadedModel(model, config, saved.family, saved.architecture, raw, words, {})
    save_folder(folder, tmp_path / "model")
    theirs = getattr(transformers, saved.architecture).from_pretrained(tmp_path / "model").eval()
    examples = np.arange(6)
    batch = task.collate(columns, examples, 1)
    with torch.no_grad():
        ours, measured = task.loss_and_metrics(model, batch)
        total, right, at = 0.0, 0, 0
        for n, size in enumerate(batch.layout.host_lengths):
            labels = torch.full((size,), -100)
            here = (batch.labels[0] >= at) & (batch.labels[0] < at + size)
            labels[batch.labels[0][here] - at] = batch.labels[1][here]
            given = {"input_ids": batch.ids[None, at : at + size]}
            if batch.segments is not None:
                given["token_type_ids"] = batch.segments[None, at : at + size]
            said = theirs(**given)
            scores = said.logits if pairs == "none" else said.prediction_logits
            total += float(torch.nn.functional.cross_entropy(scores[0], labels, reduction="sum"))
            right += int((scores[0].argmax(1) == labels).sum())
            if pairs != "none":
                assert batch.example_ids is not None
                share = batch.labels.shape[1] / len(examples)
                follows = said.seq_relationship_logits if family == "bert" else said.sop_logits
                total += share * float(torch.nn.functional.cross_entropy(follows, batch.example_ids[n : n + 1]))
            at += size
    assert float(ours) == pytest.approx(total, rel=1e-5)
    with torch.no_grad():
        again = task.loss(model, batch)
    assert float(again) == pytest.approx(total, rel=1e-5)
    assert measured["accuracy"] == (100.0 * right, batch.labels.shape[1])


def test_a_family_that_is_none_is_named(corpus):
    with pytest.raises(ValueError, match=r"'robberta'.*roberta"):
        task_of(corpus)[0].config({"family": "robberta"})
