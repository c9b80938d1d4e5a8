"""Question answering: spans are the best of their window, and their text is that of their characters."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.attention import Layout
from clearhead.data import Row, Rows
from clearhead.models import build
from clearhead.tasks import AnswerSpan, QaResult, QuestionAnswering, TaskConfig
from clearhead.tasks.answer_spans import MAX_ANSWER_TOKENS, answers_of, log_sums, measured, overlap, plain, window_spans
from clearhead.tasks.qa import _threshold
from clearhead.text import train_tokenizer

TEXT = "The old man sees a dog under the tree , and two children play café naïve 😀 with a red bicycle on the street ."
WORDS = TEXT.split()
TINY = {"width": 16, "num_heads": 2, "num_layers": 1, "ffn_dim": 16, "dropout": 0.0}


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("qa") / "text.txt"
    path.write_text((TEXT + "\n") * 20)
    return train_tokenizer(path, template="bert", vocab_size=140)


def rows(*values):
    return Rows(lambda: iter([Row(value, "file", i) for i, value in enumerate(values, 1)]))


def answer(text, start):
    return {"text": text, "start": start}


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), max_len=st.integers(20, 60))
def test_windows_hold_every_token_and_spans_are_what_stands_there(tokenizer, seed, max_len):
    draw = random.Random(seed)
    context = draw.choice(["", "  ", "\n"]) + draw.choice([" ", "  ", "\t"]).join(
        draw.choices(WORDS, k=draw.randint(1, 90))
    )
    task = QuestionAnswering(tokenizer, TaskConfig(max_len=max_len, segments=True))
    tokens = task.windows(["who sees the dog ?"], [context])
    whole = tokenizer(context, special=False)
    assert tokens.offsets is not None
    seen = {tuple(x) for x in tokens.offsets[tokens.parts == 1].tolist()}
    assert seen == {tuple(x) for x in whole.offsets.tolist()}
    said = torch.randn(len(tokens.ids), 2, generator=torch.Generator().manual_seed(seed))
    for i in range(tokens.layout.num_sequences):
        part = said[tokens.layout.rows(i)]
        for span in window_spans(tokens, i, part, context):
            assert context[span.start : span.end] == span.text and span.text.strip()


def test_the_best_span_of_a_window_is_found(tokenizer):
    task = QuestionAnswering(tokenizer, TaskConfig(max_len=128, segments=True))
    context = " ".join(WORDS * 3)
    tokens = task.windows(["who ?"], [context])
    own = (tokens.parts[tokens.layout.rows(0)] == 1).nonzero()[:, 0].tolist()
    said = torch.randn(tokens.layout.host_lengths[0], 2, generator=torch.Generator().manual_seed(3))
    found = window_spans(tokens, 0, said, context)
    pairs = {(i, j): float(said[i, 0] + said[j, 1]) for i in own for j in own if i <= j < i + MAX_ANSWER_TOKENS}
    best = sorted(pairs.values(), reverse=True)[: len(found)]
    assert [span.score for span in found] == pytest.approx(best)


@settings(max_examples=40)
@given(st.integers(0, 1000))
def test_the_answer_s_tokens_are_marked_in_each_window_that_holds_it(tokenizer, seed):
    draw = random.Random(seed)
    words = draw.choices(WORDS, k=60)
    first = draw.randrange(60)
    last = min(59, first + draw.randint(0, 4))
    context = " ".join(words)
    start = len(" ".join(words[:first])) + (first > 0)
    text = " ".join(words[first : last + 1])
    task = QuestionAnswering(tokenizer, TaskConfig(max_len=40, segments=True))
    columns, left = task.encode(rows({"question": "who ?", "context": context, "answers": [answer(text, start)]}))
    assert left == []
    tokens = task.windows(["who ?"], [context])
    assert tokens.offsets is not None
    held = 0
    for i in range(len(columns["label"])):
        a, b = columns["label"].ids[2 * i : 2 * i + 2].tolist()
        offsets = tokens.offsets[tokens.layout.rows(i)]
        if (a, b) != (0, 0):
            held += 1
            assert context[offsets[a, 0] : offsets[b, 1]] == text
    assert held > 0
    batch = task.collate(columns, np.arange(len(columns["ids"])))
    torch.manual_seed(0)
    model = build(task.config(TINY)).eval()
    said = model(batch.ids, batch.layout, segments=batch.segments)
    want = 0.0
    for i, part in enumerate(batch.layout.split(said)):
        begin = batch.layout.rows(i).start
        for side in (0, 1):
            want += (
                float(
                    torch.nn.functional.cross_entropy(part[:, side][None], batch.labels[side, i][None] - begin).detach()
                )
                / 2
            )
    assert float(task.loss(model, batch).detach()) == pytest.approx(want, rel=1e-5)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 99))
def test_log_sums(sizes, seed):
    x = 50 * torch.randn(sum(sizes), 2, generator=torch.Generator().manual_seed(seed))
    want = torch.stack([part.logsumexp(0) for part in x.split(sizes)])
    assert torch.allclose(log_sums(x, Layout.from_lengths(sizes).sequence_ids, len(sizes)), want)


def test_answers_without_a_place_stand_where_they_are_found():
    row = Row({"question": "who?", "context": "a dog, a cat", "answer": "a cat"}, "f", 1)
    assert answers_of(row) == [(7, 12)]
    assert answers_of(Row({**row.values, "answer": "a cow"}, "f", 1)) is None
    several = {"question": "q", "context": row.values["context"], "answers": ["a cow", row.values["context"][7:12]]}
    assert answers_of(Row(several, "f", 1)) == [(7, 12)], "a table may list several; those in the context count"
    assert answers_of(Row({**several, "answers": []}, "f", 1)) == []
    assert answers_of(Row({**several, "answers": ["a cow"]}, "f", 1)) is None
    assert answers_of(Row({**row.values, "answer": " "}, "f", 1)) == []


def test_squad_s_way_to_compare():
    assert plain("The  Cat, a dog!") == "cat dog"
    assert overlap("the red cat", "red cat") == 1.0
    assert overlap("red dog", "red cat") == 0.5
    assert overlap("", "") == 1.0 and overlap("cat", "") == 0.0
    assert measured("cat", ["dog", "The cat."]) == (1.0, 1.0)
    assert measured("", []) == (1.0, 1.0) and measured("cat", []) == (0.0, 0.0)


@given(st.lists(st.tuples(st.integers(-5, 5), st.booleans(), st.booleans()), min_size=1, max_size=20))
def test_no_threshold_is_better(cases):
    said = [QaResult(None, (AnswerSpan("cat", 0, 3, float(gap)),), 0.0, 0.0) for gap, _, _ in cases]
    due = [[] if empty else ["cat" if right else "dog"] for _, right, empty in cases]

    def worth(limit: float) -> float:
        texts = ["cat" if answered.spans[0].score > limit else "" for answered in said]
        return sum(measured(text, golds)[1] for text, golds in zip(texts, due, strict=True))

    best = _threshold(said, due)
    assert worth(best) == max(worth(limit) for limit in [-6.0, *(gap + 0.5 for gap, _, _ in cases), 6.0])


def test_an_answer_that_is_not_found_is_no_question_without_one():
    found, lost, none = ({"question": "who?", "context": "a dog", "answer": text} for text in ("dog", "cow", " "))
    assert QuestionAnswering.collect_labels(rows(found, lost), ()) == {"unanswered": False}
    assert QuestionAnswering.collect_labels(rows(found, none), ()) == {"unanswered": True}
