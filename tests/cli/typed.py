"""A command as if it were typed, in this process: for what is refused before anything is done."""

from __future__ import annotations

from typer.testing import CliRunner

from clearhead.cli import app


def refused(*args: object) -> str:
    """What the command says on stderr; it must end with code 2, by itself."""
    done = CliRunner().invoke(app, [str(one) for one in args])
    assert done.exit_code == 2 and isinstance(done.exception, SystemExit), (args, done.exit_code, done.exception)
    assert not done.stdout and "Traceback" not in done.stderr
    return done.stderr
