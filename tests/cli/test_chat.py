"""`clearhead chat`: lines in, answers out; commands that undo turns; the same seed, the same conversation."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from clearhead.hub.folder import LoadedModel, save_folder
from clearhead.models import build
from clearhead.tasks import LanguageModel
from clearhead.text import train_tokenizer
from tests.files.hostile import valid
from tests.warm_command import run_command as run

COMMAND = Path(sys.executable).with_name("clearhead")


@pytest.fixture(scope="module")
def talker(tmp_path_factory):
    here = tmp_path_factory.mktemp("talker")
    (here / "t.txt").write_text("how are you\nfine thanks\nwhere is it\nover there\n" * 20)
    words = train_tokenizer(here / "t.txt", template="gpt2", vocab_size=280)
    task = LanguageModel(words, max_len=64)
    config = task.config({"width": 16, "num_layers": 1, "num_heads": 2, "ffn_dim": 32})
    torch.manual_seed(0)
    saved = task.save_format(config)
    family, architecture = saved.family, saved.architecture
    raw = family.write(config, architecture, {})
    save_folder(LoadedModel(build(config).eval(), config, family, architecture, raw, words, {}), here / "model")
    return here / "model"


def test_a_line_in_a_line_out(talker):
    done = run("chat", talker, "--json", "--seed", "1", "--max-new-tokens", "5", text="how are you\n\nwhere\n")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["turn"] for line in lines] == ["how are you", "where"] and done.returncode == 0
    again = run("chat", talker, "--json", "--seed", "1", "--max-new-tokens", "5", text="how are you\n\nwhere\n")
    assert again.stdout == done.stdout
    other = run("chat", talker, "--json", "--seed", "2", "--max-new-tokens", "5", text="how are you\n\nwhere\n")
    assert other.stdout != done.stdout


def test_what_is_taken_back_is_not_read(talker):
    once = run(
        "chat", talker, "--seed", "3", "--max-new-tokens", "5", "--temperature", "0", text="fine\n/new\nwhere is it\n"
    )
    alone = run(
        "chat", talker, "--seed", "3", "--max-new-tokens", "5", "--temperature", "0", text="where is it\n/quit\nno\n"
    )
    assert once.stdout.splitlines()[-1] == alone.stdout.splitlines()[-1]


def test_the_oldest_turns_are_dropped(talker):
    turns = "how are you where is it over there fine thanks\n" * 12
    done = run("chat", talker, "--json", "--seed", "1", "--max-new-tokens", "8", text=turns)
    counts = [json.loads(line)["dropped_turns"] for line in done.stdout.splitlines()]
    assert len(counts) == 12 and counts == sorted(counts) and counts[-1] > 5


def test_a_model_that_does_not_write_is_refused(tmp_path):
    done = run("chat", valid(tmp_path / "bert"), text="hello\n")
    assert done.returncode == 2 and "does not generate text" in done.stderr
