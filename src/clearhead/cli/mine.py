"""`clearhead mine`: hard negatives for the training of vectors and rerankers."""

import json
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.command import open_output, report_errors
from clearhead.cli.options import ColumnOption, DeviceOption, DtypeOption, ModelArgument


@report_errors
def mine(
    model: ModelArgument,
    file: Annotated[Path, typer.Argument(help="Pairs of a query and its document: a table or SQuAD JSON.")],
    out: Annotated[Path, typer.Option(help="JSONL file to write: anchor, positive, negative.")],
    column: ColumnOption = None,
    num_negatives: Annotated[int, typer.Option(min=1, help="Negatives of each pair.")] = 3,
    depth: Annotated[int, typer.Option(min=1, help="Nearest documents that are considered for each query.")] = 50,
    margin: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="Leave out documents above this share of the positive's cosine: they may be right."
        ),
    ] = 0.95,
    max_rows: Annotated[int | None, typer.Option(min=1, help="Read only the first pairs of the file.")] = None,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
) -> None:
    """Write hard negatives for the training of embeddings.

    Negatives of a query are the nearest documents that are not its answer; the documents are all positives of the file.
    A recipe of `embed` or `rerank` reads the result.

    Example: clearhead mine my-model pairs.csv --out mined.jsonl
    """
    from clearhead.cli.task_rows import pair_rows, parse_columns
    from clearhead.pipeline import load
    from clearhead.tasks.hard_negatives import MiningConfig, mine_negatives

    config = MiningConfig(num_negatives=num_negatives, depth=depth, margin=margin)
    rows = pair_rows(file, parse_columns(column))
    loaded = load(model, dtype=dtype, device=device).loaded
    values = [row.values for row in islice(rows, max_rows)]
    if not values:
        raise ValueError(f"{file} has no pair. {rows.report()}".strip())
    written = num = 0
    with open_output(out) as target:
        for row in mine_negatives(loaded, values, config):
            target.write(json.dumps(row, ensure_ascii=False) + "\n")
            written, num = written + 1, num + len(row["negative"])
    typer.echo(f"{out}: {written:,} of {len(values):,} pairs, {num:,} negatives", err=True)
    if report := rows.report():
        typer.echo(report, err=True)
