"""The `clearhead` command line: one module per command."""

from clearhead.cli.main import app

__all__ = ["app"]
