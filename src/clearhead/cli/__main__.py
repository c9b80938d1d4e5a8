"""`python -m clearhead.cli`: the command line, for launchers such as torchrun."""

from clearhead.cli import app

if __name__ == "__main__":
    app()
