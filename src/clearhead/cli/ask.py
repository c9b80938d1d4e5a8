"""`clearhead ask`: answers from the documents of an index, with the evidence."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import JsonLinesOption

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.search.ask import AskResult, FoundAnswer


@report_errors
def ask(
    index: Annotated[str, typer.Argument(help="Index made by `clearhead index`.")],
    question: Annotated[
        str | None, typer.Argument(help="Question. Without one, questions are read line by line.")
    ] = None,
    reader: Annotated[
        str | None, typer.Option(help="Model of the task answer; by default the reader of the index.")
    ] = None,
    nbest: Annotated[int, typer.Option(min=1, help="Candidates to show.")] = 3,
    why: Annotated[
        bool, typer.Option("--why", help="Show the passages that were read, and how each was found.")
    ] = False,
    as_json: JsonLinesOption = False,
) -> None:
    """Answer a question from the documents of an index.

    The answer has its sentence, its place in the document and the probability that it is right. If the documents
    probably do not say, that is the answer.

    Example: clearhead ask my-index "When does the desk open?" --reader runs/answer/model
    """
    from rich.console import Console

    from clearhead.search import Answerer, Index

    answerer = Answerer(Index.open(index), reader)
    console = Console(highlight=False)
    for text in [question] if question is not None else _questions(console):
        result = answerer.ask(text, nbest=nbest)
        if as_json:
            typer.echo(json.dumps(asdict(result), ensure_ascii=False))
        else:
            _show(console, result, why)


def _questions(console: Console):
    """Yield the lines of standard input; at a terminal, ask for each."""
    while True:
        if sys.stdin.isatty():
            console.print("[bold]question>[/bold] ", end="")
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.strip()


def _show(console: Console, result: AskResult, why: bool) -> None:
    from rich.text import Text

    if result.answer is None:
        console.print(Text("The documents probably do not say.", "bold"))
        if result.candidates:
            console.print(
                Text(f"The nearest candidate, with a probability of {result.probability:.2f} to be right:", "dim")
            )
            _evidence(console, result.candidates[0])
    else:
        console.print(Text.assemble((result.answer.text, "bold green"), f"  {result.probability:.2f}"))
        _evidence(console, result.answer)
        others = [f"{one.text} ({one.probability:.2f}, {one.source})" for one in result.candidates[1:]]
        if others:
            console.print(Text("or: " + "; ".join(" ".join(one.split()) for one in others), "dim"))
    if why:
        console.print(Text("\nread, most relevant first", "bold"))
        for one in result.passages:
            found = one.passage
            ranks = [f"{name} {rank}" for name, rank in
                     (("words", found.text_rank), ("vectors", found.vector_rank)) if rank is not None]  # fmt: skip
            head = f"{one.relevance:+6.1f}  {found.source}:{found.start}  found by {', '.join(ranks)}"
            console.print(Text.assemble(head, ("  " + " ".join(found.text.split())[:80], "dim")), no_wrap=True)
    console.print()


def _evidence(console: Console, answer: FoundAnswer) -> None:
    """Print the sentence of an answer with the answer marked, and its place."""
    from rich.text import Text

    base = answer.passage.start
    lo, hi = answer.sentence
    text = answer.passage.text[lo - base : hi - base]
    line = Text(text)
    line.stylize("bold reverse", answer.start - lo, answer.end - lo)
    console.print(Text("  ") + line)
    console.print(Text("  " + " · ".join(part for part in (answer.place, answer.heading) if part), "dim"))
