"""Conversations: every answer is learnt from what it answers, the oldest turns are forgotten first, and both kinds talk."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead import load
from clearhead.data import read_rows
from clearhead.decode.chat import turn_ids
from clearhead.tasks import Dialogue, TaskConfig
from clearhead.text import Tokenizer, train_tokenizer
from clearhead.train import make_recipe, prepare, train

TURNS = [["how are you", "fine thanks", "good to hear"], ["where is it", "over there"], ["one", "two", "three", "four"]]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    here = tmp_path_factory.mktemp("dialogues")
    (here / "d.txt").write_text("".join(" __eou__ ".join(turns) + " __eou__\n" for turns in TURNS * 12))
    roles = ("user", "assistant")
    lines = [[{"role": roles[i % 2], "content": t} for i, t in enumerate(turns)] for turns in TURNS]
    (here / "d.jsonl").write_text("".join(json.dumps({"messages": line}) + "\n" for line in lines))
    (here / "plain.txt").write_text("\n".join(t for turns in TURNS for t in turns))
    return here


def test_dialogues_are_read_from_text_and_from_json(files):
    text = [row.values["turns"] for row in read_rows(files / "d.txt", {"turns": "__eou__"})]
    chat = [row.values["turns"] for row in read_rows(files / "d.jsonl", {"turns": "messages"})]
    assert text[:3] == chat == TURNS


def test_what_is_no_dialogue_is_told(tmp_path):
    bad = ['{"turns": ["a", "b"]}', '{"turns": ["alone"]}', '{"turns": "text"}', "{", '{"turns": ["a", {"role": 1}]}']
    (tmp_path / "x.jsonl").write_text("\n".join(bad) + "\n")
    rows = read_rows(tmp_path / "x.jsonl", {"turns": "turns"})
    assert len(list(rows)) == 1 and rows.num_skipped == 4
    reasons = [one.reason for one in rows.skipped]
    assert reasons == [
        "has 1 turn: a dialogue needs at least two",
        "missing list 'turns'",
        "broken JSON",
        "a turn without text",
    ]


@pytest.fixture(scope="module")
def words(files) -> Tokenizer:
    return train_tokenizer(files / "plain.txt", template="gpt2", vocab_size=280)


@given(sizes=st.lists(st.integers(1, 12), min_size=2, max_size=9), most=st.integers(4, 20))
def test_every_answer_is_learnt_from_what_it_answers(words, sizes, most):
    """In some part each turn stands behind the one before it, unless the two do not fit together."""
    task = Dialogue.from_recipe(words, TaskConfig(max_len=most), {})
    turns = [[n + 1] * size + [0] for n, size in enumerate(sizes)]
    parts = list(task._blocks([list(t) for t in turns]))
    assert all(len(part) <= most + 1 for part in parts)
    held = ["".join(chr(97 + i) for i in part) for part in parts]
    for a, b in itertools.pairwise(turns):
        if len(a) + len(b) <= most + 1:
            assert any("".join(chr(97 + i) for i in a + b) in part for part in held)


def test_answers_have_what_was_said_before_them(words):
    task = Dialogue.from_recipe(words, TaskConfig(max_len=6, encoder=True), {})
    turns = [[1, 2, 0], [3, 0], [4, 5, 6, 0]]
    assert list(task._replies(turns)) == [([1, 2, 0], [3, 0]), ([1, 2, 0, 3, 0], [4, 5, 6, 0])]
    turns[0] = [1, 1, 2, 2, 2, 2, 0]
    assert next(task._replies(turns)) == ([1, 2, 2, 2, 2, 0], [3, 0])  # the end of it


@pytest.mark.parametrize("encoder", [False, True])
def test_it_learns_to_answer(files, tmp_path, encoder):
    values = {
        "task": "dialogue",
        "data": {
            "train": {"file": str(files / "d.txt"), "turns": "__eou__"},
            "valid": {"file": str(files / "d.jsonl"), "turns": "messages"},
            "max_len": 48,
        },
        "tokenizer": {"vocab_size": 300 if not encoder else 60},
        "model": {"width": 32, "num_layers": 1, "num_heads": 2, "ffn_dim": 64, "dropout": 0.0, "encoder": encoder},
        "train": {
            "steps": 120, "batch_tokens": 600, "evaluate_every": 60, "save_every": 60, "dtype": "float32",
            "optimizer": {"lr": 0.01}, "schedule": {"kind": "linear", "warmup": 5},
        },
    }  # fmt: skip
    train(prepare(make_recipe(values), files, tmp_path / "run"), shown=False)
    model = load(tmp_path / "run" / "model")
    forgotten, pieces = model.chat(["how are you"], temperature=0.0)
    assert forgotten == 0 and "".join(p.text for p in pieces).strip() == "fine thanks"
    turns = ["one", "two", "three"]
    assert "".join(p.text for p in model.chat(turns, temperature=0.0)[1]).strip() == "four"
    forgotten, pieces = model.chat(["over there"] * 30 + ["where is it"], temperature=0.0, max_new_tokens=8)
    assert forgotten > 15 and 1 <= len(list(pieces)) <= 8
    with pytest.raises(ValueError, match="the last turn is empty"):
        model.chat([" "])
    if not encoder:
        transformers = pytest.importorskip("transformers")
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "run" / "model")
        said = [{"role": "user", "content": "how are you"}, {"role": "assistant", "content": "fine thanks"}]
        ids = theirs.apply_chat_template(said, return_dict=False)
        assert ids == [i for part in turn_ids(model.tokenizer, [m["content"] for m in said]) for i in part]
    columns, _ = Dialogue.from_recipe(model.tokenizer, TaskConfig(max_len=48, encoder=encoder), {}).encode(
        read_rows(files / "d.txt", {"turns": "__eou__"})
    )
    assert len(next(iter(columns.values()))) == (12 * (2 + 1 + 3) if encoder else 36)
    assert np.all(next(iter(columns.values())).lengths() <= 49)
