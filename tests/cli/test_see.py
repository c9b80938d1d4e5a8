"""`clearhead see`: pages, figures and a live page from the shell, and what it says to wrong input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest
from typer.testing import CliRunner

from clearhead.cli import app
from tests.real import MINILM

pytestmark = pytest.mark.skipif(MINILM is None, reason="MiniLM is not installed")
TEXT = "The animal did not cross the street because it was too tired."


def run(*words: object, text: str | None = None):
    return CliRunner().invoke(app, ["see", str(MINILM), *map(str, words)], input=text)


def test_a_page(tmp_path):
    result = run(TEXT, "--out", tmp_path / "a.html", "--no-open", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"address": (tmp_path / "a.html").as_uri()}
    assert "Content-Security-Policy" in (tmp_path / "a.html").read_text()


def test_methods_beside_exact_attention(tmp_path):
    words = TEXT, "--method", "bigbird", "--method", "linformer", "--layer", "encoder.1"
    result = run(*words, "--out", tmp_path / "m.html", "--no-open")
    assert result.exit_code == 0, result.output
    scene = json.loads((tmp_path / "m.html").read_text().split('id="scene">')[1].split("</script>")[0])
    names = [layer["name"] for layer in scene["sequences"][0]["maps"]]
    assert names == ["encoder.1", "encoder.1 bigbird", "encoder.1 bigbird missed", "encoder.1 linformer"]
    two = run(TEXT, TEXT, "--method", "bigbird")
    assert two.exit_code == 2 and "on one text" in two.stderr
    unknown = run(TEXT, "--method", "gated_linear")
    assert unknown.exit_code == 2 and "choose bigbird" in unknown.stderr


def test_lines_of_standard_input_and_of_a_file(tmp_path):
    (tmp_path / "texts.txt").write_text("One sentence.\n\nIs it?\tIt is.\n")
    for words, text in (((), "One sentence.\n\nAnother.\n"), (("--file", tmp_path / "texts.txt"), None)):
        result = run(*words, "--out", tmp_path / "b.html", "--no-open", text=text)
        assert result.exit_code == 0, result.output
        scene = (tmp_path / "b.html").read_text().split('id="scene">')[1].split("</script>")[0]
        assert len(json.loads(scene)["sequences"]) == 2


@pytest.mark.parametrize("kind", ["alignment", "heads", "model", "head_stats", "rollout"])
def test_figures(tmp_path, kind):
    result = run("A small cat.", "--plot", kind, "--out", tmp_path / "figure", "--dark")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "figure.svg").exists() and (tmp_path / "figure.png").exists()


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["  "], "text 0 is empty"),
        (["a", "--plot", "pie"], "no figure 'pie'"),
        (["a", "--plot", "word"], "needs a word"),
        (["a", "--plot", "heads", "--layer", "encoder.9"], "no layer 'encoder.9'; there are encoder.0"),
        (["a", "b", "--pair", "c"], "2 texts but 1 second texts"),
        (["word " * 1, "--out", "/nowhere/a.html", "--no-open"], "nowhere"),
    ],
)
def test_what_cannot_be_shown_is_told(words, fault):
    result = run(*words)
    assert result.exit_code == 2
    assert fault in result.stderr and "Traceback" not in result.output


def test_the_live_page_ends_with_ctrl_c():
    command = [sys.executable, "-m", "clearhead.cli", "see", str(MINILM), TEXT, "--live", "--no-open", "--json"]
    heard = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731  a job in the background would not hear it
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heard
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            address = json.loads(process.stdout.readline())["address"]
            with urllib.request.urlopen(address + "scene") as answer:
                scene = json.loads(answer.read())
            assert scene["live"] and scene["sequences"][0]["answer"]["metric"] == "cosine with itself"
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
        assert "Traceback" not in process.stderr.read()
