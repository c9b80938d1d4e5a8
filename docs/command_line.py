"""Write the command-line reference from the help of every command: python docs/command_line.py"""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from clearhead.cli import app
from clearhead.cli.main import COMMANDS

TARGET = Path(__file__).with_name("cli.md")
INTRODUCTION = """\
# Command line

The help of every command, as `clearhead COMMAND --help` prints it. A command that fails because of its input prints one line on
standard error and exits with 2. `python -m clearhead.cli` is the same command. `python docs/command_line.py` writes this page.
"""


def command_help(*names: str) -> str:
    """The section of a command, followed by those of its subcommands."""
    result = CliRunner().invoke(app, [*names, "--help"], prog_name="clearhead", terminal_width=88)
    if result.exit_code:
        raise RuntimeError(f"clearhead {' '.join(names)} --help: {result.output}")
    lines = [line.rstrip() for line in result.output.strip().splitlines()]
    subcommands = re.findall(r"^  ([a-z-]+)", result.output.partition("\nCommands:\n")[2], re.M)
    if subcommands:
        return "\n".join(command_help(*names, name) for name in subcommands)
    return f"### clearhead {' '.join(names)}\n\n```text\n" + "\n".join(lines) + "\n```\n"


def reference() -> str:
    """The text of the page."""
    parts = [INTRODUCTION]
    for section, commands in COMMANDS.items():
        parts += [f"## {section}\n", *(command_help(name) for name in commands)]
    return "\n".join(parts)


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
