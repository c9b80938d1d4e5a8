"""The table of commands."""

from __future__ import annotations

from typing import Annotated

import typer

from clearhead import __version__
from clearhead.cli.chat import chat
from clearhead.cli.check import check
from clearhead.cli.convert import convert
from clearhead.cli.data import data
from clearhead.cli.demo import demo
from clearhead.cli.doctor import doctor
from clearhead.cli.embed import embed
from clearhead.cli.errors import errors
from clearhead.cli.eval import eval
from clearhead.cli.export import export
from clearhead.cli.generate import generate
from clearhead.cli.heads import heads
from clearhead.cli.info import info
from clearhead.cli.new import new
from clearhead.cli.predict import predict
from clearhead.cli.prepare import prepare
from clearhead.cli.prove import prove
from clearhead.cli.see import see
from clearhead.cli.serve import serve
from clearhead.cli.study import study
from clearhead.cli.tokenizer import tokenizer
from clearhead.cli.train import train
from clearhead.cli.translate import translate

app = typer.Typer(
    name="clearhead",
    help="Attention models with nothing hidden.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"clearhead {__version__}")
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Attention models with nothing hidden."""


COMMANDS = (
    new, check, prepare, train, prove, eval, errors, predict, translate, generate, chat, embed, see, heads,
    serve, data, info, export, convert, tokenizer, doctor, demo, study,
)  # fmt: skip

for command in COMMANDS:
    app.command()(command)
