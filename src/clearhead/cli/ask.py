"""`clearhead ask`: answers from the documents of an index, with the evidence."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import JsonLinesOption, TranslatorOption

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.search.ask import Answerer, AskResult, FoundAnswer
    from clearhead.search.index import Index


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
    translator: TranslatorOption = None,
    attention: Annotated[
        Path | None,
        typer.Option(help="Write a page with the attention of the reader between the question and the best passage."),
    ] = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Answer a question from the documents of an index.

    The answer has its sentence, its place in the document and the probability that it is right. If the documents
    probably do not say, that is the answer.

    Example: clearhead ask my-index "When does the desk open?" --reader runs/answer/model
    """
    from rich.console import Console

    from clearhead.search import Answerer, Index
    from clearhead.search.translated_questions import QuestionTranslator

    answerer, translate = Answerer(Index.open(index), reader), QuestionTranslator(translator)
    console = Console(highlight=False)
    for text in [question] if question is not None else _questions(console):
        (asked,) = translate([text])
        result = answerer.ask(asked.text, nbest=nbest, query=asked.query)
        if as_json:
            typer.echo(json.dumps(asdict(result), ensure_ascii=False))
        else:
            if result.question != text:
                console.print(f"asked: {result.question}", style="dim", markup=False)
            _show(console, result)
            if why:
                _show_reasons(console, answerer.index, result)
            console.print()
        if attention is not None and result.candidates:
            typer.echo(_attention_page(answerer, result, attention), err=True)


def _attention_page(answerer: Answerer, result: AskResult, out: Path) -> str:
    """Write a page with the attention between a question and the passage of its best candidate."""
    from clearhead.viz.captured_run import show
    from clearhead.viz.record_scene import record_scene

    passage = result.candidates[0].passage.text
    return show(record_scene(answerer.loaded, [result.question], [passage], title=result.question), out)


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


def _show(console: Console, result: AskResult) -> None:
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


def _show_reasons(console: Console, index: Index, result: AskResult) -> None:
    """Print the passages that were read, and why each was found."""
    from rich.text import Text

    from clearhead.search.reasons import explain_passages

    found = [one.passage for one in result.passages]
    console.print(Text("\nread, most relevant first", "bold"))
    for one, reasons in zip(result.passages, explain_passages(index, result.question, found), strict=True):
        passage = one.passage
        ranks = [f"{name} {rank}" for name, rank in
                 (("words", passage.text_rank), ("vectors", passage.vector_rank)) if rank is not None]  # fmt: skip
        head = f"{one.relevance:+6.1f}  {passage.place}  found by {', '.join(ranks)}"
        console.print(Text.assemble(head, ("  " + " ".join(passage.text.split())[:80], "dim")), no_wrap=True)
        words = [f"{word} {score:.1f}" for word, score in reasons.words]
        tokens = [f"{a}~{b} {value:.2f}" for a, b, value in reasons.tokens]
        console.print(Text(" " * 8 + "; ".join(", ".join(part) for part in (words, tokens) if part), "dim"))


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
