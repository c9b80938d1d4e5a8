from __future__ import annotations

import gzip
import json
import lzma
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text import KINDS, TEMPLATES, corpus, train_tokenizer
from clearhead.text.tokenizer_training import _canonicalize
from tests.text.conftest import ALL

every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.parametrize(("kind", "template"), ALL)
def test_special_tokens_have_the_ids_of_their_family(made, kind, template):
    tokenizer, facts = made(kind, template), TEMPLATES[template]
    shift = 0 if kind == "bpe" or "unk_token" in facts.roles else 1  # gpt2 has no unknown token; others need one
    assert [tokenizer.id(t) for t in facts.first] == list(range(shift, shift + len(facts.first)))
    size = tokenizer.vocab_size
    assert [tokenizer.id(t) for t in facts.last] == list(range(size - len(facts.last), size))
    assert size <= 500
    pieces = tokenizer._content["model"]["vocab"]
    assert kind != "unigram" or len({p for p, _ in pieces}) == len(pieces)


@every_kind
def test_the_same_text_gives_the_same_tokenizer_in_another_process(corpus, made, kind):
    code = (
        "import sys; from clearhead.text import train_tokenizer\n"
        "t = train_tokenizer(sys.argv[1], kind=sys.argv[2], template='marian', vocab_size=500)\n"
        "print(t.fingerprint()['tokenizer_json'])"
    )
    wanted = made(kind, "marian").fingerprint()["tokenizer_json"]
    for seed in ("1", "2"):
        command, environment = [sys.executable, "-c", code, str(corpus), kind], {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert done.stdout.strip() == wanted
        assert done.stderr == ""  # and in silence


@every_kind
def test_compressed_files_and_many_files_give_the_same(corpus, made, tmp_path, kind):
    lines = corpus.read_bytes().splitlines(keepends=True)
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"".join(lines[:500])))
    (tmp_path / "b.xz").write_bytes(lzma.compress(b"".join(lines[500:700])))
    (tmp_path / "c").write_bytes(b"".join(lines[700:]))
    files = [tmp_path / name for name in ("a.gz", "b.xz", "c")]
    tokenizer = train_tokenizer(files, kind=kind, template="bert", vocab_size=500)
    assert tokenizer.fingerprint() == made(kind, "bert").fingerprint()


@every_kind
def test_lowercase(made, kind):
    tokenizer = made(kind, "bert", lowercase=True)
    assert tokenizer("THE Cat").ids.tolist() == tokenizer("the cat").ids.tolist()
    assert made(kind, "bert")("THE Cat").ids.tolist() != made(kind, "bert")("the cat").ids.tolist()


@every_kind
def test_extra_special_tokens_and_max_len(made, kind):
    tokenizer = made(kind, "marian", extra=(">>deu<<", "<user>", "</s>"), max_len=64)
    assert tokenizer.id(">>deu<<") == 2 and tokenizer.id("<user>") == 3 and tokenizer.max_len == 64
    assert tokenizer.pad_id == tokenizer.vocab_size - 1
    assert 2 in tokenizer(">>deu<< the cat", specials_in_text=True).ids
    assert 2 not in tokenizer(">>deu<< the cat").ids


def test_the_family_s_own_kind(corpus):
    for template, facts in TEMPLATES.items():
        tokenizer = train_tokenizer(corpus, template=template, vocab_size=500)
        assert tokenizer._content["model"]["type"].lower() == facts.kind


@every_kind
def test_vocabularies_too_small_are_refused(corpus, kind):
    for size in (-1, 0, 5, 30):
        with pytest.raises(ValueError, match=r"vocab_size"):
            train_tokenizer(corpus, kind=kind, template="bert", vocab_size=size)


@every_kind
def test_little_text_gives_a_small_vocabulary(tmp_path, kind):
    (tmp_path / "a").write_text("a")
    tokenizer = train_tokenizer(tmp_path / "a", kind=kind, template="bert", vocab_size=1000)
    assert tokenizer.vocab_size < 270 and tokenizer.unk_id not in tokenizer("a").ids


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("bad", b"fine\nfine\nbad \xff here\n", r"bad, line 3: b'\\xff' is not UTF-8"),
        ("cut", b"fine\nbad \xe4", r"cut, line 2: b'\\xe4' is not UTF-8"),
        ("t.gz", gzip.compress(b"the cat\n" * 99, mtime=0)[:-9], r"t.gz, line 100: cannot be decompressed"),
        ("t.xz", lzma.compress(b"the cat\n" * 99)[:-9], r"t.xz, line \d+: cannot be decompressed"),
        ("d.gz", gzip.compress(b"", mtime=0)[:10] + b"\xff" * 20, r"d.gz, line 1: cannot be decompressed"),
        ("n.gz", b"not gzip", r"n.gz, line 1: cannot be decompressed"),
        ("n.xz", b"not xz", r"n.xz, line 1: cannot be decompressed"),
        ("empty", b"", "there is no text in"),
        ("blank", b" \n\t\n\r\n", "there is no text in"),
    ],
)
@every_kind
def test_files_that_are_no_text(tmp_path, kind, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=says):
        train_tokenizer(tmp_path / name, kind=kind, template="bert", vocab_size=500)


def test_what_cannot_be(tmp_path, corpus):
    for options, says in (
        ({"template": "elmo"}, "no template 'elmo': choose from bert"),
        ({"kind": "chars"}, "no kind 'chars': choose from wordpiece"),
    ):
        arguments: dict[str, Any] = {"template": "bert", "vocab_size": 500} | options
        with pytest.raises(ValueError, match=says):
            train_tokenizer(corpus, **arguments)
    with pytest.raises(ValueError, match="is not a file"):
        train_tokenizer(tmp_path / "none", template="bert", vocab_size=500)
    with pytest.raises(ValueError, match="no files"):
        train_tokenizer([], template="bert", vocab_size=500)


@every_kind
def test_a_word_without_end_takes_no_time(tmp_path, kind):
    """One line of 600,000 letters; uncut, the trainers' time grows with its square."""
    (tmp_path / "long").write_text("é" * 300_000 + "ab" * 150_000, encoding="utf-8")
    assert train_tokenizer(tmp_path / "long", kind=kind, template="bert", vocab_size=400).vocab_size > 5


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\ufeff"), max_size=40), max_size=20))
def test_the_corpus_is_read_line_by_line_whole(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    text = "\n".join(lines)
    path.write_bytes(text.encode())
    heard = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "MAX_CHUNK_BYTES", 5)  # cuts characters in two
        read = list(corpus.read_corpus([path, path], heard.append))
    assert "".join(read) == text * 2
    assert heard[-1] == 2 * len(text.encode())


def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / "a").write_bytes("\ufeffthe\n".encode())
    assert list(corpus.read_corpus([tmp_path / "a"])) == ["the\n"]


def test_scores_do_not_depend_on_the_order_of_a_run():
    one = [("ab", -2.0), ("x", -9.0), ("y", -8.9999), ("z", -8.9998), ("c", -3.3)]
    two = [("ab", -2.0 - 1e-13), ("y", -9.0), ("z", -8.9999), ("x", -8.9998), ("c", -3.3 + 1e-13)]
    assert (
        _canonicalize(one) == _canonicalize(two) == [("ab", -2.0), ("c", -3.3), ("x", -9.0), ("y", -9.0), ("z", -9.0)]
    )


def test_progress_is_shown_on_a_terminal(corpus, capfd, monkeypatch):
    train_tokenizer(corpus, template="bert", vocab_size=500)
    assert capfd.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    train_tokenizer(corpus, template="bert", vocab_size=500, progress=True)
    out, err = capfd.readouterr()
    assert out == "" and "training" in err


def test_the_config_is_what_transformers_reads(made):
    config = made("wordpiece", "bert").config
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert config["model_input_names"] == ["input_ids", "token_type_ids", "attention_mask"]
    assert "model_max_length" not in config and json.dumps(config)
