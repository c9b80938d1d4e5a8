"""Tagging: every word is tagged at its first token, once, in the window where it has the most context."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data import Row, Rows
from clearhead.models import build
from clearhead.tasks import Tag, TaskConfig
from clearhead.tasks.tag import spaced, worded
from clearhead.text import train_tokenizer
from tests.tasks.test_classify import TINY, WORDS, loaded

NAMES = ["O", "B-PER", "I-PER"]


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("tag") / "text.txt"
    path.write_text((" ".join(WORDS) + "\n") * 20)
    return train_tokenizer(path, template="bert", vocab_size=70)  # so that words have several tokens


def rows(*sentences):
    return Rows(
        lambda: iter([Row({"words": list(w), "tags": list(t)}, "f", i) for i, (w, t) in enumerate(sentences, 1)])
    )


def made(tokenizer, max_len):
    labels = Tag.collect_labels(rows((["a"] * 3, NAMES)), ("words", "tags"))
    task = Tag.from_recipe(tokenizer, TaskConfig(max_len=max_len), labels)
    torch.manual_seed(0)
    model = build(task.config(TINY)).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return task, model


sentences = st.lists(
    st.lists(st.tuples(st.sampled_from([*WORDS, "unheard-of", "!", "'s"]), st.sampled_from(NAMES)), min_size=1, max_size=40),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(max_examples=50)
@given(sentences, st.integers(12, 64))
def test_every_word_is_tagged_once_at_its_first_token(tokenizer, given_sentences, max_len):
    task, model = made(tokenizer, max_len)
    data = rows(*(zip(*sentence, strict=True) for sentence in given_sentences))
    columns, left = task.encode(data)
    assert left == []
    batch = task.collate(columns, np.arange(len(given_sentences)))
    flat = [pair for sentence in given_sentences for pair in sentence]
    assert task.num_targets(columns).sum() == len(flat) == batch.labels.shape[1]
    assert [task.labels.names[i] for i in batch.labels[1].tolist()] == [tag for _, tag in flat]
    for (word, _), place in zip(flat, batch.labels[0].tolist(), strict=True):
        assert batch.ids[place] == tokenizer(word, special=False).ids[0]
    scores = model(batch.ids, batch.layout)[batch.labels[0]]
    want = F.cross_entropy(scores, batch.labels[1], reduction="sum")
    assert float(task.loss(model, batch).detach()) == pytest.approx(float(want.detach()), rel=1e-5)


def test_a_word_is_tagged_where_it_has_the_most_context(tokenizer):
    task, _ = made(tokenizer, 20)
    words = WORDS * 3
    text, spans = spaced(words)
    columns = task.read([text], [spans])
    sizes = columns["windows"].ids.astype(int).tolist()
    ends = np.cumsum(sizes)
    assert len(sizes) > 2
    first = tokenizer(text, special=False)
    tokens = tokenizer.windows([text], max_len=20, stride=task.reader.stride)
    for word, place in enumerate(columns["places"].ids.astype(int).tolist()):
        window = int(np.searchsorted(ends, place, side="right"))
        at = place - (ends[window] - sizes[window])
        mine = min(at, sizes[window] - 1 - at)
        start = spans[word][0]
        others = [
            min(j, size - 1 - j)
            for w, size in enumerate(sizes)
            for j, offset in enumerate(tokens.offsets[tokens.layout.rows(w)].tolist())
            if offset[0] == start and offset[1] > start
        ]
        assert mine == max(others)
    assert len(first.ids) == len({tuple(x) for x in tokens.offsets[tokens.parts >= 0].tolist()})


def test_answers_have_words_tags_and_names(tokenizer):
    task, model = made(tokenizer, 32)
    text = "The old-man's dog, ￼ sees 2 cats."
    answer = next(task.answer(loaded(model), [text]))
    assert answer.words == ("The", "old-man's", "dog", ",", "￼", "sees", "2", "cats", ".")
    assert len(answer.tags) == len(answer.scores) == len(answer.words)
    for name in answer.entities:
        assert text[name.start : name.end] == name.text
    again = next(task.answer(loaded(model), [list(answer.words)]))
    assert again.words == answer.words
    assert next(task.answer(loaded(model), [""])).words == ()


@given(st.lists(st.text("ab'", min_size=1, max_size=4), max_size=9))
def test_words_and_their_characters(words):
    text, spans = spaced(words)
    assert [text[a:b] for a, b in spans] == words
    assert worded(words) == (text, spans)


def test_the_caller_of_answers_may_still_train(tokenizer):
    task, model = made(tokenizer, 32)
    for _ in task.answer(loaded(model), ["the old dog", "a red tree"]):
        assert not torch.is_inference_mode_enabled()
