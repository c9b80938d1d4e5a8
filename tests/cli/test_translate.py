"""`clearhead translate`, `generate` and `export` as programs: in pipes, in files, stopped and misused."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clearhead.pipeline import load
from tests.cli.typed import refused
from tests.decode.conftest import corpus, folders  # noqa: F401
from tests.warm_command import run_command as run

COMMAND = [str(Path(sys.executable).parent / "clearhead")]
TEXTS = ["the man rides a red bicycle", "", "two children play", "a dog sees a cat"]


@pytest.fixture(scope="module")
def expected(folders):  # noqa: F811
    return load(folders["marian"], dtype="float32").translate(TEXTS, beam=3, nbest=2, align=True)


def test_lines_in_lines_out(folders, expected, tmp_path):  # noqa: F811
    file, out = tmp_path / "in.txt", tmp_path / "out.txt"
    file.write_text("\n".join(TEXTS))  # no newline at the end
    plain = ("translate", folders["marian"], "--dtype", "float32", "--beam", 3)
    want = "".join(t.text + "\n" for t in expected)
    for args, given in ((("-",), "\n".join(TEXTS) + "\n"), ((file,), None), ((), "\r\n".join(TEXTS))):
        done = run(*plain[:2], *args, *plain[2:], text=given)
        assert done.returncode == 0, done.stderr
        assert done.stdout == want
        assert "4 texts in" in done.stderr
    done = run(*plain, "--out", out, text="\n".join(TEXTS))
    assert done.returncode == 0 and done.stdout == "" and out.read_text() == want
    assert not out.with_name("out.txt.partial").exists()


def test_scores_alignments_and_more_hypotheses(folders, expected):  # noqa: F811
    args = ("translate", folders["marian"], "--dtype", "float32", "--beam", 3, "--nbest", 2)
    lines = run(*args, text="\n".join(TEXTS)).stdout.splitlines()
    assert lines[0] == f"0 ||| {expected[0].text} ||| {expected[0].score:.4f}"
    assert lines[1].startswith("0 ||| ") and lines[2] == "1 |||  ||| 0.0000"
    facts = [json.loads(line) for line in run(*args, "--json", "--align", text="\n".join(TEXTS)).stdout.splitlines()]
    for i, (fact, translation) in enumerate(zip(facts, expected, strict=True)):
        assert fact["line"] == i and fact["text"] == translation.text
        assert fact["score"] == pytest.approx(translation.score, abs=1e-4)
        if translation.text:
            assert fact["tokens"] == list(translation.tokens) and fact["source"] == list(translation.source)
            assert fact["alignment"] == [[s, t] for t, s in translation.pairs]
            assert [h["text"] for h in fact["nbest"]] == [h.text for h in translation.nbest]
    aligned = run("translate", folders["marian"], "--align", "--dtype", "float32", text=TEXTS[0]).stdout
    assert len(aligned.strip().partition("\t")[2].split()) > 0


def test_an_answer_to_each_line_as_it_comes(folders):  # noqa: F811
    """Somebody types: each line is answered before the next is there."""
    process = subprocess.Popen(
        [*COMMAND, "translate", str(folders["marian"]), "--beam", "1"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        assert process.stdin is not None and process.stdout is not None
        for text in (b"a dog\n", b"\n", b"two children\n"):
            process.stdin.write(text)
            process.stdin.flush()
            assert select.select([process.stdout], [], [], 120)[0], "no answer"
            line = os.read(process.stdout.fileno(), 4096)
            assert line.endswith(b"\n") and (line == b"\n") == (text == b"\n")
        process.stdin.close()
        assert process.wait(60) == 0


def test_a_reader_that_goes_is_no_error(folders):  # noqa: F811
    command = " ".join([*COMMAND, "translate", str(folders["marian"]), "--beam", "1"])
    text = "the man rides\n" * 5000
    done = subprocess.run(f"{command} | head -n 2", shell=True, input=text, capture_output=True, text=True)
    assert len(done.stdout.splitlines()) == 2
    assert "Traceback" not in done.stderr and "Broken pipe" not in done.stderr


def test_a_run_that_is_stopped_keeps_what_it_has(popen, folders, tmp_path):  # noqa: F811
    file, out = tmp_path / "many.txt", tmp_path / "out.txt"
    file.write_text("the man rides a red bicycle on the street\n" * 200_000)
    process = popen(
        [*COMMAND, "translate", str(folders["marian"]), str(file), "--out", str(out), "--beam", "1"],
        stderr=subprocess.PIPE,
    )  # fmt: skip
    partial = tmp_path / "out.txt.partial"
    while not (partial.exists() and partial.stat().st_size):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in said
    count = int(said.split("stopped: ")[1].split()[0].replace(",", ""))
    assert len(partial.read_text().splitlines()) == count and not out.exists()


def test_generation(folders):  # noqa: F811
    app = load(folders["gpt2"], dtype="float32")
    args = ("generate", folders["gpt2"], "the man", "--max-new-tokens", 8, "--dtype", "float32")
    assert run(*args).stdout == "the man" + app.generate("the man", max_new_tokens=8).text + "\n"
    assert run(*args, "--stream").stdout == run(*args).stdout
    drawn = ("--temperature", 0.9, "--top-k", 20, "--top-p", 0.9, "--seed", 11)
    want = app.generate("the man", max_new_tokens=8, temperature=0.9, top_k=20, top_p=0.9, seed=11)
    assert run(*args, *drawn, "--stream").stdout == f"the man{want.text}\n"
    facts = json.loads(run(*args, *drawn, "--json").stdout)
    assert facts["seed"] == 11 and facts["text"] == want.text and tuple(facts["ids"]) == want.ids
    assert run("generate", folders["gpt2"], "-", "--max-new-tokens", 3, text="a dog").stdout.startswith("a dog")


def test_export(folders, tmp_path):  # noqa: F811
    pytest.importorskip("ctranslate2")
    out = tmp_path / "int8"
    done = run("export", folders["marian"], "--to", "ctranslate2", "--out", out, "--quantization", "int8")
    assert done.returncode == 0, done.stderr
    assert {"model.bin", "config.json", "tokenizer.json"} <= {f.name for f in out.iterdir()} and "int8" in done.stdout


def test_wrong_input_is_told_in_a_line(folders, tmp_path):  # noqa: F811
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"fine\n\xff\xfe\n")
    marian, gpt2 = folders["marian"], folders["gpt2"]
    for args, words in (
        (("translate", marian, bad), "bad.txt, line 2: not UTF-8"),
        (("translate", gpt2), "does not translate: use `generate`"),
        (("translate", marian, "--max-len", 500), "give at most 48"),
    ):
        done = run(*args, text="a dog\n")
        assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr, (args, done.stderr)


def test_what_is_refused_before_anything_is_read(folders, tmp_path):  # noqa: F811
    marian, gpt2 = folders["marian"], folders["gpt2"]
    export = ("export", marian, "--out", tmp_path / "x", "--to")
    for args, words in (
        (("translate", marian, tmp_path / "none.txt"), "none.txt"),
        (("translate", marian, "--beam", 2, "--nbest", 3), "nbest is 3 with a beam of 2"),
        (("generate", marian, "a"), "use `translate`"),
        (("generate", gpt2, "a", "--top-p", 7), "top_p is 7.0"),
        (("generate", gpt2, "a", "--stream", "--json"), "cannot be combined with --json or --beam"),
        ((*export, "onnx"), "MarianMTModel is not an encoder"),
        ((*export, "ctranslate2", "--quantization", "q"), "no quantization 'q'"),
    ):
        assert words in refused(*args)


@pytest.mark.parametrize("name", ["translate", "generate", "export"])
def test_help_shows_an_example(name):
    done = run(name, "--help")
    assert done.returncode == 0 and f"Example: clearhead {name}" in " ".join(done.stdout.split())


def test_the_engine_is_chosen_and_named(folders, tmp_path):  # noqa: F811
    pytest.importorskip("ctranslate2")
    plain = ("translate", folders["marian"], "--dtype", "float32", "--beam", 1)
    ours = run(*plain, text="\n".join(TEXTS))
    theirs = run(*plain, "--engine", "ctranslate2", text="\n".join(TEXTS))
    assert theirs.returncode == 0, theirs.stderr
    assert theirs.stdout == ours.stdout
    assert "engine: clearhead float32" in ours.stderr and "engine: ctranslate2 float32" in theirs.stderr
    fast = run("translate", folders["marian"], "--beam", 1, text="\n".join(TEXTS))
    assert fast.returncode == 0 and "engine: ctranslate2 int8" in fast.stderr, fast.stderr
    assert len(list((Path(folders["marian"]) / ".ctranslate2").glob("int8-*"))) == 1
    assert "is not one of" in refused("translate", folders["marian"], "--engine", "marian")
    assert "does not translate texts" in refused("translate", folders["gpt2"], "--engine", "ctranslate2")
