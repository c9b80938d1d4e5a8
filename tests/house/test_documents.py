"""README and docs: the blocks of every page run in page order, and every link between pages resolves."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.page_runner import ROOT, PageRunner, check_install, copy_clone, page_blocks

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LONG = (  # run by `make slow`
    "attention.md", "audit.md", "bertviz.md", "cluster.md", "decode.md", "embeddings.md", "export.md", "folders.md", "gpu.md", "index.md", "install.md",
    "integrations.md", "joeynmt.md", "look.md", "nnsight.md", "pretrain.md", "quickstart-learn.md", "quickstart-look.md",
    "quickstart-serve.md", "scale.md", "search.md", "see.md", "sentence-transformers.md", "serve.md", "studies.md", "tei.md",
    "train.md", "trainer.md", "transformerlens.md", "tune.md", "vision.md", "vllm.md",
)  # fmt: skip
RUN = [pytest.param(page, marks=[pytest.mark.slow] if page.name in LONG else [], id=page.name) for page in PAGES]


@pytest.mark.parametrize("page", RUN)
def test_blocks_run_in_page_order(page, tmp_path):
    """Nothing is prepared: a page has the files of a clone, and what its own blocks wrote. `pip` lines are checked."""
    if not any(block.runs for block in page_blocks(page)):
        pytest.skip("nothing to run on this page")
    copy_clone(tmp_path)
    with PageRunner(tmp_path, Path(sys.executable).parent) as runner:
        runner.run_page(page)


@pytest.mark.slow
def test_readme_runs_in_a_fresh_environment(tmp_path):
    """A new virtual environment, the README's own `pip` lines, then every block in order."""
    copy_clone(tmp_path)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / ".venv"], check=True)
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    with PageRunner(tmp_path, tmp_path / ".venv" / "bin", install=True, environment=environment) as runner:
        runner.run_page(ROOT / "README.md")


@pytest.mark.parametrize(
    "command",
    [
        "pip install '.[sea]'",
        "pip install -r no-weights.txt",
        "pip install torhc==2.13.0",
        "pip install transformers==4.0",
    ],
)
def test_wrong_install_lines_are_found(command):
    with pytest.raises(AssertionError):
        check_install(command)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (5, "```python\nopen('examples/reviews.csv')\nx = 1\n```\n```python\nx + y\n```\n"),
        (1, "```console\n$ clearhead info no-such-folder\n```\n"),
        (1, "```console\n$ test -e made.txt\n```\n```python\nopen('made.txt', 'w')\n```\n"),
    ],
    ids=["unknown name", "failing command", "file that a later block writes"],
)
def test_a_page_that_does_not_run_is_found(line, text, tmp_path):
    page, folder = tmp_path / "page.md", tmp_path / "clone"
    page.write_text(text, encoding="utf-8")
    copy_clone(folder)
    with (
        PageRunner(folder, Path(sys.executable).parent) as runner,
        pytest.raises(AssertionError, match=f"^line {line}: "),
    ):
        runner.run_page(page)


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
