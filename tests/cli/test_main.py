"""`clearhead` itself: light to import, a command per module, help with an example."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from clearhead.cli import app, options
from clearhead.cli.main import COMMANDS

HELP = {name: text for section in COMMANDS.values() for name, text in section.items()}
MAX_CPU_S = 0.3  # measured: 0.2


def cpu_seconds(*command: str) -> float:
    """User and system time of a child process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_takes_little_time():
    assert min(cpu_seconds(sys.executable, "-m", "clearhead.cli", "--help") for _ in range(3)) < MAX_CPU_S


WORDS = [["tokenizer", "train"] if name == "tokenizer" else [name] for name in HELP]


@pytest.mark.parametrize("args", [[], ["--version"], *WORDS])
def test_help_does_not_import_torch(args):
    words = args if args == ["--version"] else [*args, "--help"]
    code = f"""
import sys
from clearhead.cli import app
try:
    app({words!r})
finally:
    heavy = [name for name in ("torch", "numpy", "rich", "transformers") if name in sys.modules]
    assert not heavy, heavy
"""
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    if args and args != ["--version"]:
        assert f"Example: clearhead {' '.join(args)}" in " ".join(done.stdout.split())


def test_every_command_is_listed_with_the_first_line_of_its_help():
    for name, text in HELP.items():
        done = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "80"})
        assert done.stdout.splitlines()[2].strip() == text, name
    listed = " ".join(CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).stdout.split())
    assert all(f"{name} {text}" in listed for name, text in HELP.items())


def test_choices_in_help_are_those_of_the_library():
    from clearhead.tasks import TASKS, embed_texts
    from clearhead.text import KINDS, TEMPLATES

    assert tuple(TASKS) == options.TASK_NAMES
    assert tuple(TEMPLATES) == options.TEMPLATE_NAMES
    assert tuple(KINDS) == options.TOKENIZER_KINDS
    assert embed_texts.BATCH_TOKENS == options.EMBED_BATCH_TOKENS


def test_an_unknown_command_gets_a_suggestion():
    done = CliRunner().invoke(app, ["trian"])
    assert done.exit_code == 2 and "Did you mean 'train'?" in done.stderr


def test_public_names_are_imported_on_first_use():
    code = """
import sys, clearhead
assert clearhead.__version__ and "torch" not in sys.modules
assert set(clearhead.__all__) <= set(dir(clearhead))
from clearhead import load
assert load is clearhead.load and "torch" in sys.modules
for name in clearhead.__all__:
    getattr(clearhead, name)
try:
    clearhead.nothing
except AttributeError as error:
    assert "no attribute 'nothing'" in str(error)
else:
    raise AssertionError
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
