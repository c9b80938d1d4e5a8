from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from clearhead.cli import app
from clearhead.text import Tokenizer


def run(*words):
    return CliRunner().invoke(app, ["tokenizer", "train", *(str(w) for w in words)])


def test_a_tokenizer_from_files(corpus, made, tmp_path):
    done = run(corpus, "--template", "gpt2", "--kind", "bpe", "--vocab-size", 500, "--out", tmp_path / "t", "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    wanted = made("bpe", "gpt2")
    assert facts == {
        "folder": str(tmp_path / "t"),
        "kind": "bpe",
        "template": "gpt2",
        "vocab_size": wanted.vocab_size,
        "specials": wanted.specials,
        "fingerprint": wanted.fingerprint(),
    }
    Tokenizer.load(tmp_path / "t").check(facts["fingerprint"])


def test_the_summary_is_for_people(corpus, tmp_path):
    words = (
        corpus,
        corpus,
        "--template",
        "bert",
        "--vocab-size",
        300,
        "--out",
        tmp_path,
        "--lowercase",
        "--max-len",
        64,
    )
    done = run(*words, "--special", "[E1]", "--special", "[E2]")
    assert done.exit_code == 0, done.output
    assert "tokens in" in done.stdout and "[CLS]" in done.stdout
    made = Tokenizer.load(tmp_path)
    assert made.max_len == 64 and made.id("[E2]") == 6
    again = run(*words)
    assert again.exit_code == 2 and "--overwrite" in again.stderr
    assert run(*words, "--overwrite").exit_code == 0
    assert Tokenizer.load(tmp_path).id("[E2]") is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"--template": "elmo"}, "no template 'elmo'"),
        ({"--kind": "chars"}, "no kind 'chars'"),
        ({"--vocab-size": 3}, "vocab_size leaves room for 0"),
    ],
)
def test_mistakes_are_one_line(corpus, tmp_path, change, says):
    options = {"--template": "bert", "--kind": "bpe", "--vocab-size": 500, "--out": tmp_path / "t"} | change
    done = run(corpus, *(w for pair in options.items() for w in pair))
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1 and says in done.stderr and done.stdout == ""
    assert not (tmp_path / "t").exists()


def test_a_missing_file_is_one_line(tmp_path):
    done = run(tmp_path / "none", "--template", "bert", "--vocab-size", 500, "--out", tmp_path / "t")
    assert done.exit_code == 2 and done.stderr.count("\n") == 1 and "is not a file" in done.stderr


def test_the_help_has_an_example():
    assert "Example: clearhead tokenizer train" in run("--help").stdout
