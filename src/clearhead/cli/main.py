"""The `clearhead` command: a table of commands that are imported when they run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup

from clearhead import __version__
from clearhead.cli.options import TYPER_OPTIONS

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter

# Section -> command -> first line of its help. `a-b` is the function or the Typer a_b of the module clearhead.cli.a_b.
COMMANDS = {
    "Data": {
        "data": "List, show, copy or download data sets.",
        "check": "Check labeled data before training: labels, lengths, leaks.",
        "tokenizer": "Train a tokenizer on text files.",
        "prepare": "Turn a corpus into token shards for pretraining.",
        "mine": "Write hard negatives for the training of embeddings.",
    },
    "Train": {
        "new": "Write a commented recipe for your data.",
        "train": "Train a model from a recipe, or resume a run.",
        "plan": "Plan a run on many processors: memory, communication, time and cost.",
        "prove": "Verify that a killed training run resumes bit for bit.",
        "demo": "Train three small translators and compare their attention.",
        "study": "List the studies, or run one.",
    },
    "Evaluate": {
        "eval": "Evaluate a model on labeled data, with confidence intervals.",
        "audit": "Audit a model for bias: what it has learned about groups of people.",
        "error-analysis": "List the most confident errors of a model.",
        "card": "Write the card of a model, or the data statement of a corpus.",
    },
    "Look inside": {
        "see": "Show the attention of a model as a page or a figure.",
        "explain": "Explain the similarity of two texts by their tokens.",
        "heads": "Compute statistics of every attention head over a corpus.",
        "advise": "Measure efficient attention in a model, and advise one for each layer.",
        "info": "Describe a model folder and verify its files.",
    },
    "Predict and serve": {
        "predict": "Run a trained classifier, tagger, question answerer or captioner.",
        "translate": "Translate text, one line at a time.",
        "draw": "Draw images from texts.",
        "generate": "Generate text from a prompt, greedily or by sampling.",
        "chat": "Chat with a dialogue model in the terminal.",
        "embed": "Compute an embedding vector for every line of text.",
        "serve": "Serve models over HTTP.",
    },
    "Search": {
        "index": "Index documents for search.",
        "search": "Find the passages of an index that fit a query.",
        "ask": "Answer a question from the documents of an index.",
        "calibrate": "Fit an index to questions with known answers, and keep the result with it.",
    },
    "Tools": {
        "course": "Copy the course notebooks, and check what they need.",
        "export": "Export a model to ONNX, int8 or CTranslate2.",
        "convert": "Convert pickled weights to safetensors.",
        "doctor": "Check every attention kernel on this machine.",
    },
}


class LazyGroup(TyperGroup):
    """A command group that imports a command when it is invoked: `clearhead --help` imports none of them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        names = [name for section in COMMANDS.values() for name in section]
        self.commands = cast("dict[str, Command]", dict.fromkeys(names))  # the base class suggests from these names

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        if cmd_name not in self.commands:
            return None
        name = cmd_name.replace("-", "_")
        target = getattr(import_module(f"clearhead.cli.{name}"), name)
        if isinstance(target, typer.Typer):
            return typer.main.get_command(target)
        single = typer.Typer(add_completion=False, **TYPER_OPTIONS)
        single.command(cmd_name)(target)
        return typer.main.get_command(single)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        width = max(map(len, self.commands))
        for section, commands in COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])


app = typer.Typer(
    name="clearhead",
    cls=LazyGroup,
    no_args_is_help=True,
    **TYPER_OPTIONS,
)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"clearhead {__version__}")
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Attention models with nothing hidden: train them, look inside, put them to work.

    `clearhead COMMAND --help` shows the options of a command and an example.
    """
