"""`clearhead card`: the card of a model, or the data statement of a corpus, in the format of the hub."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import ColumnOption, JsonOption

if TYPE_CHECKING:
    from clearhead.cards.card_answers import CardQuestion


@report_errors
def card(
    source: Annotated[str, typer.Argument(help="Model folder. With --data: a file, a data set, or NAME:FILE of one.")],
    data: Annotated[bool, typer.Option("--data", help="Write the data statement of a file or a data set.")] = False,
    answers: Annotated[Path | None, typer.Option(help="YAML file with answers, NAME: TEXT.")] = None,
    answer: Annotated[
        list[str] | None, typer.Option(help="One answer, e.g. --answer license=apache-2.0. Repeatable.")
    ] = None,
    test: Annotated[str | None, typer.Option(help="Labeled file to evaluate the model on, with intervals.")] = None,
    column: ColumnOption = None,
    audit: Annotated[Path | None, typer.Option(help="Record of an audit. Default: audit.json beside it.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="With --data: column with labels. Repeatable.")] = None,
    header: Annotated[
        bool | None, typer.Option(help="With --data: the first line of a table names its columns. Default: recognized.")
    ] = None,
    draft: Annotated[bool, typer.Option("--draft", help="Write the card with its blanks marked.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a card that was edited by hand.")] = False,
    out: Annotated[Path | None, typer.Option(help="Default: README.md of the model; NAME.card.md of data.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the card of a model, or the data statement of a corpus.

    Facts come from the model, its run and the data: licenses, recipe, scores with 95 % confidence intervals, audits,
    compute. What only a person can know is asked for by name, in a terminal or with --answers, and kept in a YAML file
    beside the card. A card with blanks is refused unless --draft marks them. No text of a row and no path of this
    machine is written.

    Example: clearhead card runs/reviews/model --test test.csv --answers answers.yaml
    Example: clearhead card --data reviews.csv --draft
    """
    from clearhead.audit.card_targets import data_card_target, model_card_target, write_target
    from clearhead.cards.card_answers import parse_answers, read_answers

    if data and (test or column or audit):
        raise ValueError("--test, --column and --audit are of models: leave them out with --data")
    if not data and (label or header is not None):
        raise ValueError("--label and --header are of data: give them with --data")
    given = {**(read_answers(answers) if answers else {}), **parse_answers(answer or [])}
    if data:
        target = data_card_target(source, labels=label or [], header=header, out=out)
    else:
        evaluated = [_evaluate(source, test, column)] if test else []
        target = model_card_target(source, audit=audit, evaluated=evaluated, out=out)
    ask = _ask if _is_terminal() and not (draft or as_json) else None
    written = write_target(target, given, draft=draft, overwrite=overwrite, ask=ask)
    if as_json:
        blanks = [question.name for question in written.blanks]
        shown = {"card": str(target.path), "answers": str(target.record_path), "blanks": blanks}
        typer.echo(json.dumps({**shown, "metadata": written.fields}, ensure_ascii=False))
        return
    typer.echo(target.path)
    if written.blanks:
        typer.echo(f"a draft, with {len(written.blanks)} blanks: answer them in {target.record_path}", err=True)


def _evaluate(source: str, test: str, column: list[str] | None) -> dict[str, Any]:
    """Return the scores of a model on a labeled file, with intervals and calibration; the file by name and hash."""
    from clearhead.cli.task_rows import parse_columns, rows_for
    from clearhead.data import locate
    from clearhead.data.data_sources import file_source
    from clearhead.files import sha256
    from clearhead.metrics.evaluation import calibration_error
    from clearhead.pipeline import load
    from clearhead.tasks.registry import task_of

    file, loaded = locate(test, "."), load(source).loaded
    digest = {"sha256": sha256(file)} if file.is_file() else {}
    if digest and digest["sha256"] == loaded.metadata.get("train_sha256"):
        raise ValueError(f"the model was trained on {test}: give data that it has not seen")
    task = task_of(loaded)
    rows = rows_for(task, loaded, file, parse_columns(column), labeled=True)
    evaluation = task.evaluate(loaded, rows)
    if not evaluation.count:
        raise ValueError(f"{test} has no row to evaluate. {rows.report()}".strip())
    about = {name: value for name, value in file_source(test).items() if name in ("name", "hub_id")}
    facts = {**about, **digest, "rows": evaluation.count, "scores": evaluation.scores()}
    facts["intervals"] = {name: list(ends) for name, ends in evaluation.intervals().items()}
    if evaluation.confidence is not None:
        facts["calibration_error"] = calibration_error(*evaluation.confidence)
    return facts


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _ask(question: CardQuestion) -> dict[str, str | list[str]]:
    """Ask a question in the terminal until the answer is valid; an empty one leaves it blank."""
    while True:
        shown = f"{question.name}: {question.prompt} Example: {question.example}\n"
        text = typer.prompt(shown, "", show_default=False, err=True, prompt_suffix="> ")
        if not text.strip():
            return {}
        try:
            return {question.name: question.check(text)}
        except ValueError as error:
            typer.echo(error, err=True)
