"""Faults: what a command tells when it cannot go on. One line on stderr, exit code 2, no traceback."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

P = ParamSpec("P")
R = TypeVar("R")


def told(command: Callable[P, R]) -> Callable[P, R]:
    """A command whose ValueErrors and OSErrors are messages for the person who typed it."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (ValueError, OSError) as error:
            typer.echo(f"clearhead: {error}", err=True)
            raise typer.Exit(2) from None

    return run
