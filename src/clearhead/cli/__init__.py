"""The `clearhead` command: one file a command."""

from clearhead.cli.main import app

__all__ = ["app"]
