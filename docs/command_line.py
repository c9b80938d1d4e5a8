"""Write the command-line reference from the help of every command: python docs/command_line.py"""

from __future__ import annotations

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


def reference() -> str:
    """The text of the page."""
    parts = [INTRODUCTION]
    for section, commands in COMMANDS.items():
        parts.append(f"## {section}\n")
        for name in commands:
            result = CliRunner().invoke(app, [name, "--help"], prog_name="clearhead", terminal_width=100)
            if result.exit_code:
                raise RuntimeError(f"clearhead {name} --help: {result.output}")
            lines = [line.rstrip() for line in result.output.strip().splitlines()]
            parts.append(f"### clearhead {name}\n\n```text\n" + "\n".join(lines) + "\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
