"""`clearhead eval`: metrics of a trained model on labeled data, with confidence intervals."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.eval_index import eval_index
from clearhead.cli.options import (
    ColumnOption,
    DeviceOption,
    DtypeOption,
    JsonOption,
    LabeledFileArgument,
    TranslatorOption,
    is_index_address,
)
from clearhead.cli.score_table import score_table


@report_errors
def eval(
    model: Annotated[str, typer.Argument(help="Folder of a trained model, or an index made by `clearhead index`.")],
    file: LabeledFileArgument,
    column: ColumnOption = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw the confusion matrix, the scores per label, the calibration, the recall by depth, the scores of "
            "pairs and a map of the vectors into this folder, as far as they apply."
        ),
    ] = None,
    retriever: Annotated[
        str | None, typer.Option(help="Of a reranker: the embedding model whose best documents are ranked again.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="With --retriever: documents of each query that are ranked.")] = 50,
    max_queries: Annotated[
        int | None, typer.Option(min=1, help="With --retriever or an index: use a sample of so many queries.")
    ] = None,
    reader: Annotated[str | None, typer.Option(help="Of an index: another reader than its own.")] = None,
    translator: TranslatorOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Of an index: write a page with the questions that fail, by stage.")
    ] = None,
    as_json: JsonOption = False,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
) -> None:
    """Evaluate a model on labeled data, with confidence intervals.

    Prints each metric with its 95 % confidence interval (bootstrap over the rows), and precision, recall and F1 per
    label. An embedding model is evaluated on pairs (retrieval), scored pairs (correlation) or labels (a linear
    classifier on its vectors, cross-validated). An index is asked the questions of a file: retrieval, exact match, F1,
    calibration and time, and the stage at which questions fail.

    Example: clearhead eval runs/recipe/model test.csv
    """
    from clearhead.cli.task_rows import parse_columns, rows_for

    if is_index_address(model):
        eval_index(model, reader, translator, file, parse_columns(column), max_queries, out, as_json)
        return
    from rich.console import Console
    from rich.table import Table

    from clearhead.files import sha256
    from clearhead.pipeline import load
    from clearhead.tasks.registry import task_of

    loaded = load(model, dtype=dtype, device=device).loaded
    task = task_of(loaded)
    rows = rows_for(task, loaded, file, parse_columns(column), labeled=True)
    if file.is_file() and sha256(file) == loaded.metadata.get("train_sha256"):
        typer.echo(f"warning: the model was trained on {file}: the scores say nothing about new data", err=True)
    before = None
    if retriever is None:
        evaluation = task.evaluate(loaded, rows)
    else:
        from clearhead.tasks.two_stages import evaluate_two_stages

        first = load(retriever, dtype=dtype, device=device).loaded
        before, evaluation = evaluate_two_stages(first, loaded, rows, top, max_queries)
    if not evaluation.count:
        raise ValueError(f"{file} has no row to evaluate. {rows.report()}".strip())
    if plot is not None:
        from clearhead.viz.evaluation_plots import evaluation_figures
        from clearhead.viz.style import save

        plot.mkdir(parents=True, exist_ok=True)
        for name, figure in evaluation_figures(evaluation, f"{file.name}: {evaluation.count:,} rows"):
            for path in save(figure, plot / name):
                typer.echo(path, err=True)
        if evaluation.ranking is not None and evaluation.ranking.document_vectors is not None:
            from clearhead.files import write_atomic
            from clearhead.viz.vector_page import map_page

            write_atomic(plot / "map.html", map_page(evaluation.ranking, f"{file.name}, {model}").encode())
            typer.echo(plot / "map.html", err=True)
    if as_json:
        labels = [asdict(label) for label in evaluation.labels]
        result: dict[str, Any] = {
            "rows": evaluation.count, **evaluation.scores(), "intervals": evaluation.intervals(), "labels": labels,
        }  # fmt: skip
        if before is not None:
            result["retriever"] = {**before.scores(), "intervals": before.intervals()}
        typer.echo(json.dumps(result, ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.print(score_table(evaluation, before))
    if evaluation.labels:
        table = Table(box=None, pad_edge=False)
        table.add_column("label")
        for name in ("rows", "precision", "recall", "F1"):
            table.add_column(name, justify="right")
        for label in evaluation.labels:
            numbers = (f"{x:.1f}" for x in (label.precision, label.recall, label.f1))
            table.add_row(label.name, f"{label.count:,}", *numbers)
        console.print()
        console.print(table)
    if report := rows.report():
        console.print(f"\n{report}")
