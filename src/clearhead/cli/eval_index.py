"""`clearhead eval INDEX`: how well an index answers questions."""

import json
from pathlib import Path
from typing import Any

import typer

from clearhead.cli.score_table import score_table


def eval_index(
    address: str, reader: str | None, translator: str | None, file: Path, columns: dict[str, str],
    max_queries: int | None, out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Ask the questions of a file, and print the metrics and the stages at which questions fail."""
    from rich.console import Console

    from clearhead.cli.progress import show_progress
    from clearhead.cli.task_rows import question_rows, question_values
    from clearhead.data.split import spread
    from clearhead.search import Answerer, Index
    from clearhead.search.evaluate_index import STAGES, evaluate_index, stage_counts
    from clearhead.search.failure_page import failure_page
    from clearhead.search.translated_questions import QuestionTranslator

    index = Index.open(address)
    answerer = Answerer.find(index, reader)
    rows = question_rows(file, columns)
    questions = [question_values(row.values) for row in rows]
    if not questions:
        raise ValueError(f"{file} has no question. {rows.report()}".strip())
    questions = spread(questions, max_queries)
    translated = QuestionTranslator(translator)([row["question"] for row in questions])
    questions = [
        {**row, "question": asked.text, "query": asked.query} for row, asked in zip(questions, translated, strict=True)
    ]
    with show_progress() as on_progress:
        evaluation, outcomes = evaluate_index(
            index, answerer, questions, lambda done: on_progress("questions", done, len(questions))
        )
    stages = stage_counts(outcomes)
    if out is not None:
        from clearhead.files import write_atomic

        write_atomic(out, failure_page(outcomes, f"{file.name}, {address}").encode())
        typer.echo(out, err=True)
    if as_json:
        result: dict[str, Any] = {"rows": evaluation.count, **evaluation.scores(), "intervals": evaluation.intervals()}
        typer.echo(json.dumps({**result, "passages": len(index), "stages": stages}, ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.print(score_table(evaluation))
    if answerer is not None:
        console.print()
        for stage, number in stages.items():
            console.print(f"{number:6,}  {stage}: {STAGES[stage]}")
    if report := rows.report():
        console.print(f"\n{report}")
