"""README and docs: every Python block and every `clearhead` command runs, every link between pages resolves."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def save_small_llama(folder: Path, text: Path) -> None:
    """Save a small Llama with its tokenizer, and a text of a few thousand tokens."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from clearhead.text import train_tokenizer

    text.write_text("the animal did not cross the street because it was too tired " * 200)
    tokenizer = train_tokenizer(text, template="gpt2", vocab_size=300)
    tokenizer.save(folder)
    config = LlamaConfig(
        vocab_size=tokenizer.vocab_size, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=8192,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_code_and_commands_run(page, tmp_path):
    """The Python blocks of a page run in order as one program, then its commands in the same folder."""
    code = "\n".join(blocks(page, "python"))
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ clearhead ")]
    if not code and not commands:
        pytest.skip("nothing to run on this page")
    (tmp_path / "questions.txt").write_text("Who wrote this?\nWhen?\n")  # files that the pages refer to
    rows = [f"The {noun} was {label}.,{label}\n" for label in ("good", "bad") for noun in ("food", "room", "staff")]
    (tmp_path / "reviews.csv").write_text("review,verdict\n" + "".join(rows * 3))
    if "my-llama" in code:
        save_small_llama(tmp_path / "my-llama", tmp_path / "long.txt")
    environment = {**os.environ, "BROWSER": "true"}  # opens no browser
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    for command in commands:
        words = shlex.split(command.partition(" | ")[0])
        result = subprocess.run(
            [str(Path(sys.executable).parent / words[0]), *words[1:]], cwd=tmp_path, capture_output=True, text=True
        )
        assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_resolve(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_readme_lists_all_packages():
    """The source tree in the README has one line for each package, and no other."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tree = next(b for b in re.findall(r"^```text\n(.*?)^```", text, re.S | re.M) if "src/clearhead/" in b)
    listed = set(re.findall(r"^  (\w+)/", tree, re.M))
    packages = {p.name for p in (ROOT / "src" / "clearhead").iterdir() if (p / "__init__.py").exists()}
    assert listed == packages
