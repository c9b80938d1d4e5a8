"""Language modelling: every token but the first is predicted once, and blank lines stay."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data import Row, Rows, read_rows
from clearhead.models import build
from clearhead.tasks import LanguageModel

TINY = {"width": 16, "num_heads": 2, "num_layers": 1, "ffn_dim": 16, "dropout": 0.0}


def lines(*texts: str) -> Rows:
    return Rows(lambda: iter([Row({"text": text}, "file", i) for i, text in enumerate(texts, 1)]))


@given(
    texts=st.lists(st.text("abc ", min_size=1, max_size=9).filter(str.strip), min_size=1, max_size=30),
    max_len=st.integers(2, 40),
)
def test_every_token_but_the_first_is_predicted_once(words, texts, max_len):
    task = LanguageModel(words["gpt2"], max_len)
    columns, left = task.encode(lines(*texts))
    stream = task.tokenizer("".join(text + "\n" for text in texts), special=False, offsets=False).ids.tolist()
    batch = task.collate(columns, np.arange(len(columns["text"])))
    assert left == []
    assert batch.labels.tolist() == stream[1:]
    assert batch.ids.tolist() == stream[:-1]
    sizes = batch.layout.lengths.tolist()
    assert all(size == max_len for size in sizes[:-1]) and 1 <= sizes[-1] <= max_len
    assert task.lengths(columns).tolist() == task.num_targets(columns).tolist() == sizes


@given(st.data())
def test_stretches_in_any_order_keep_their_labels(words, data):
    task = LanguageModel(words["gpt2"], 5)
    columns, _ = task.encode(lines(*["a b c d e f g"] * 5))
    chosen = data.draw(st.lists(st.integers(0, len(columns["text"]) - 1), min_size=1, max_size=6))
    batch = task.collate(columns, np.array(chosen))
    parts = zip(batch.layout.split(batch.ids), batch.layout.split(batch.labels), strict=True)
    for i, (ids, labels) in zip(chosen, parts, strict=True):
        whole = columns["text"].ids[columns["text"].offsets[i] : columns["text"].offsets[i + 1]].tolist()
        assert [*ids.tolist(), labels[-1].item()] == whole
        assert labels.tolist() == whole[1:]


def said(task: LanguageModel, rows: Rows) -> str:
    columns, _ = task.encode(rows)
    batch = task.collate(columns, np.arange(len(columns["text"])))
    return task.tokenizer.decode([int(batch.ids[0]), *batch.labels.tolist()])


@pytest.fixture
def task(words):
    return LanguageModel(words["gpt2"], 8)


def test_blank_lines_of_a_text_file_stay(task, tmp_path):
    text = "a b\n\n\nc d\n e\n\nf\n"
    (tmp_path / "text.txt").write_text(text)
    assert said(task, read_rows({"text": tmp_path / "text.txt"})) == text


def test_files_of_a_folder_run_on(task, tmp_path):
    (tmp_path / "1.txt").write_text("a\n\nb\n")
    (tmp_path / "2.txt").write_text("c\n\nd\n")
    assert said(task, read_rows({"text": tmp_path})) == "a\n\nb\nc\n\nd\n"


def test_line_ends_inside_the_cells_of_a_table_are_no_blank_lines(task, tmp_path):
    (tmp_path / "t.csv").write_text('n,text\n"1\n2\n3",a b\n4,"c\n\nd"\n5,e\n')
    assert said(task, read_rows(tmp_path / "t.csv", {"text": "text"})) == "a b\nc\n\nd\ne\n"


def test_more_rows_than_a_chunk(task):
    assert said(task, lines(*["a b"] * 2500)) == "a b\n" * 2500


def test_marks_that_stand_in_the_text_are_text(task):
    columns, _ = task.encode(lines("a <|endoftext|> b"))
    assert task.tokenizer.eos_id not in columns["text"].ids


@pytest.mark.parametrize("texts", [(), ("",)])
def test_too_little_text_gives_no_example(task, texts):
    columns, _ = task.encode(lines(*texts))
    assert len(columns["text"]) == 0


def test_the_loss_is_the_sum_over_every_next_token(task):
    model = build(task.config(TINY)).eval()
    columns, _ = task.encode(lines("a b c d e f", "g h"))
    batch = task.collate(columns, np.arange(len(columns["text"])))
    each = F.cross_entropy(model(batch.ids, batch.layout), batch.labels, reduction="sum")
    torch.testing.assert_close(task.loss(model, batch), each)


@pytest.mark.parametrize(
    ("settings", "family", "architecture"),
    [
        (TINY, "gpt2", "GPT2LMHeadModel"),
        ({"kind": "lstm", "width": 16, "hidden_size": 16}, "clearhead-recurrent", "RecurrentForCausalLM"),
    ],
)
def test_the_family_it_is_saved_as(task, settings, family, architecture):
    saved = task.save_format(task.config(settings))
    assert (saved.family.model_type, saved.architecture) == (family, architecture)
    assert saved.architecture in saved.family.heads
    assert set(saved.generation.values()) == {task.tokenizer.eos_id}
