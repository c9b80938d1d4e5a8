"""Offsets on real texts: windows hold every token, and a span is always what stands at its characters."""

from __future__ import annotations

import pytest
import torch

from clearhead.data import Row
from clearhead.data.squad import squad_rows
from clearhead.tasks import QuestionAnswering, TaskConfig
from clearhead.tasks.answer_spans import answers_of, place_answer, window_spans
from clearhead.text import Tokenizer
from tests.real import DATA, MINILM

pytestmark = [
    pytest.mark.skipif(not DATA.is_dir(), reason="the data sets are not here"),
    pytest.mark.skipif(MINILM is None, reason="MiniLM is not installed"),
]
LANGUAGES = ["ar", "de", "el", "en", "es", "hi", "ro", "ru", "th", "tr", "vi", "zh"]
FILES = {
    "squad": ("squad/dev-v1.1.json.xz", 4),
    **{f"xquad {language}": (f"xquad/xquad.{language}.json.xz", 4) for language in LANGUAGES},
    "covid": ("covid_qa/200423_covidQA.json.xz", 20),
}


def check(rows: list[Row], seed: int) -> tuple[int, int]:
    """Windows and spans that were looked at; with scores drawn by chance, spans stand anywhere."""
    assert MINILM is not None
    task = QuestionAnswering(Tokenizer.load(MINILM), TaskConfig(max_len=384, segments=True))
    draw = torch.Generator().manual_seed(seed)
    spans = windows = 0
    for lo in range(0, len(rows), 32):
        part = rows[lo : lo + 32]
        contexts = [row.values["context"] for row in part]
        tokens = task.windows([row.values["question"] for row in part], contexts)
        whole = task.tokenizer(contexts, special=False)
        assert tokens.offsets is not None and whole.offsets is not None
        due = [{tuple(x) for x in each.tolist()} for each in whole.layout.split(whole.offsets)]
        seen: list[set[tuple[int, ...]]] = [set() for _ in part]
        last_of: list[set[tuple[int, ...]]] = [set() for _ in part]
        shared = [384] * len(part)  # the fewest tokens that a window shares with the one before it
        answered = [False] * len(part)
        said = torch.randn(len(tokens.ids), 2, generator=draw)
        for i, source in enumerate(tokens.sources.tolist()):
            own = tokens.layout.rows(i)
            assert tokens.layout.host_lengths[i] <= 384
            at, parts = tokens.offsets[own], tokens.parts[own]
            here = {tuple(x) for x in at[parts == 1].tolist()}
            if seen[source]:
                shared[source] = min(shared[source], len(here & last_of[source]))
            last_of[source] = here
            seen[source] |= here
            for span in window_spans(tokens, i, said[own], contexts[source]):
                assert contexts[source][span.start : span.end] == span.text and span.text.strip()
                spans += 1
            first, last = place_answer(tokens, i, answers_of(part[source]) or [])
            if (first, last) != (0, 0):
                answers = answers_of(part[source])
                assert answers is not None
                start, end = answers[0]
                held = {c for a, b in at[parts == 1].tolist() for c in range(a, b)}  # no token holds space, nor marks
                chosen = {c for a, b in at[first : last + 1].tolist() for c in range(a, b)}  # that the tokenizer drops
                assert held & set(range(start, end)) <= chosen
                ends = at[[first, last]].tolist()
                assert all(a < end and b > start for a, b in ends), "and no more than the answer"
                answered[source] = True
        assert seen == due
        for source, row in enumerate(
            part
        ):  # an answer longer than what two windows share may be in both, in neither whole
            start, end = (answers_of(row) or [(0, 0)])[0]
            size = sum(a < end and b > start for a, b in due[source])
            assert answered[source] or size > shared[source], "every answer that could be is whole in some window"
        windows += tokens.layout.num_sequences
    return windows, spans


@pytest.mark.parametrize("name", FILES)
def test_every_token_and_every_span(name):
    file, step = FILES[name]
    rows = [row for row in squad_rows(DATA / file) if isinstance(row, Row)]
    check(rows[:: 3 * step], 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_token_and_every_span_of_all_questions(name, capsys):
    rows = [row for row in squad_rows(DATA / FILES[name][0]) if isinstance(row, Row)]
    windows, spans = check(rows, 1)
    with capsys.disabled():
        print(f"\n{name}: {len(rows):,} questions, {windows:,} windows, {spans:,} spans, all right")
