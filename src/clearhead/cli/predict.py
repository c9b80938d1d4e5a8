"""`clearhead predict`: the answers of a trained model, in the order of the input."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from clearhead.app import load
from clearhead.cli.answers import columns_named, rows_for
from clearhead.cli.faults import told
from clearhead.cli.pipes import Blocks, quiet
from clearhead.tasks import Answered, Classified, Tagged
from clearhead.tasks.answering import task_of

BLOCK = 256  # texts answered before they are written


@told
@quiet
def predict(
    model: Annotated[str, typer.Argument(help="A folder of a trained classifier, tagger or reader.")],
    file: Annotated[
        Path, typer.Argument(help="A table (.csv, .tsv, .jsonl, .parquet), or text, one a line; - is standard input.")
    ] = Path("-"),
    question: Annotated[
        str | None, typer.Option(help="For a reader: the question; the whole of FILE is then its text.")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Which column is which: --column text=review. May be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to. Default: standard output.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, with all scores.")] = False,
    dtype: Annotated[
        str, typer.Option(help="float32, bfloat16, or auto: bfloat16 where this machine computes in it.")
    ] = "auto",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
) -> None:
    """Answer: a label, several or a number for each text, tags for its words, or where the answer stands.

    Texts longer than the model are read in windows. Rows of a table that cannot be read are told at the end.

    Example: clearhead predict runs/recipe/model new.csv --json
    """
    app = load(model, dtype=dtype, device=device)
    task = task_of(app.opened)
    if question is not None:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        batches: Iterator[list[dict[str, Any]]] = iter([[{"question": question, "context": text}]])
        report = lambda: ""  # noqa: E731
    elif file.suffix.lower() in (".txt", "") and task.name in ("classify", "tag"):
        name = "text" if task.name == "classify" else "words"
        lines = Blocks(None if str(file) == "-" else file, BLOCK)
        batches = ([{name: line} for line in block] for block in lines)
        report = lambda: ""  # noqa: E731
    else:
        rows = rows_for(task, app.opened, file, columns_named(column), labelled=False)
        batches, report = _blocks(iter(row.values for row in rows)), rows.report
    partial = None if out is None else out.with_name(out.name + ".partial")
    with ExitStack() as stack:
        target = sys.stdout if partial is None else stack.enter_context(partial.open("w", encoding="utf-8"))
        for block in batches:
            for answer in _answers(task, app.model, block):
                target.write((json.dumps(asdict(answer), ensure_ascii=False) if as_json else _line(answer)) + "\n")
            target.flush()
    if partial is not None and out is not None:
        partial.replace(out)
    if said := report():
        typer.echo(said, err=True)


def _blocks(values: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while block := list(islice(values, BLOCK)):
        yield block


def _answers(task: Any, model: Any, block: list[dict[str, Any]]) -> Iterator[Classified | Tagged | Answered]:
    if task.name == "qa":
        return task.answers(model, [row["question"] for row in block], [row["context"] for row in block])
    if task.name == "tag":
        return task.answers(model, [row["words"] for row in block])
    return task.answers(model, [[row[name] for row in block] for name in task.texts])


def _line(answer: Classified | Tagged | Answered) -> str:
    """An answer on one line."""
    if isinstance(answer, Answered):
        best = answer.best
        return "" if best is None else f"{' '.join(best.text.split())}\t{best.start}\t{best.end}\t{best.share:.4f}"
    if isinstance(answer, Tagged):
        return " ".join(f"{word}/{tag}" for word, tag in zip(answer.words, answer.tags, strict=True))
    if isinstance(answer.answer, float):
        return f"{answer.answer:.6g}"
    if isinstance(answer.answer, tuple):
        return "|".join(answer.answer)
    return f"{answer.answer}\t{answer.scores[str(answer.answer)]:.4f}"
