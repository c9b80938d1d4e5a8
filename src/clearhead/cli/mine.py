"""`clearhead mine`: hard negatives for the training of vectors and rerankers."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from clearhead.cli.command import open_output, report_errors
from clearhead.cli.options import ColumnOption, DeviceOption, DtypeOption, is_index_address


@report_errors
def mine(
    model: Annotated[str, typer.Argument(help="Embedding model, or an index made by `clearhead index`.")],
    out: Annotated[Path, typer.Option(help="JSONL file to write.")],
    file: Annotated[
        Path | None,
        typer.Argument(help="Pairs of a query and its document: a table or SQuAD JSON. Index: may be missing."),
    ] = None,
    column: ColumnOption = None,
    num_negatives: Annotated[int, typer.Option(min=1, help="Negatives of each pair.")] = 3,
    depth: Annotated[int, typer.Option(min=1, help="Nearest documents that are considered for each query.")] = 50,
    sampling: Annotated[
        Literal["top", "spread"], typer.Option(help="Model: take the nearest of these, or evenly spread over them.")
    ] = "top",
    margin: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="Leave out documents above this share of the positive's cosine: they may be right."
        ),
    ] = 0.95,
    unanswerable: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="Index: share of the questions that get no passage with the answer.")
    ] = 0.2,
    max_rows: Annotated[int | None, typer.Option(min=1, help="Use so many pairs, spread evenly over the file.")] = None,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
) -> None:
    """Write hard negatives for the training of embeddings.

    With a model, negatives of a query are the nearest documents that are not its answer; the documents are all
    positives of the file, and a recipe of `embed` or `rerank` reads the result. With an index, the file has questions
    and answers, and negatives are passages found for the question that lack the answer: for a recipe of `answer`. An
    index without a file gives pairs of headings and sentences with their passages, for a recipe of `embed`.

    Example: clearhead mine my-model pairs.csv --out mined.jsonl
    """
    from clearhead.cli.task_rows import pair_rows, parse_columns, question_rows, question_values
    from clearhead.data.split import spread

    from_index = is_index_address(model)
    if file is None:
        if not from_index:
            raise ValueError("there is no file of pairs: give one, or an index of documents")
        from clearhead.search import Index, pseudo_pairs

        written = 0
        with open_output(out) as target:
            for pair in pseudo_pairs(Index.open(model)):
                target.write(json.dumps(pair, ensure_ascii=False) + "\n")
                written += 1
        typer.echo(f"{out}: {written:,} pairs", err=True)
        return
    rows = question_rows(file, parse_columns(column)) if from_index else pair_rows(file, parse_columns(column))
    values = [row.values for row in rows]
    if not values:
        raise ValueError(f"{file} has no {'question' if from_index else 'pair'}. {rows.report()}".strip())
    values = spread(values, max_rows)
    if from_index:
        from clearhead.search import Index, PassageMiningConfig, mine_passages

        passages = PassageMiningConfig(num_negatives=num_negatives, depth=depth, unanswerable=unanswerable)
        mined = mine_passages(Index.open(model), [question_values(v) for v in values], passages)
    else:
        from clearhead.pipeline import load
        from clearhead.tasks.hard_negatives import MiningConfig, mine_negatives

        config = MiningConfig(num_negatives=num_negatives, depth=depth, sampling=sampling, margin=margin)
        mined = mine_negatives(load(model, dtype=dtype, device=device).loaded, values, config)
    written = num = 0
    with open_output(out) as target:
        for row in mined:
            target.write(json.dumps(row, ensure_ascii=False) + "\n")
            written, num = written + 1, num + len(row["negative"])
    typer.echo(f"{out}: {written:,} of {len(values):,} rows, {num:,} negatives", err=True)
    if report := rows.report():
        typer.echo(report, err=True)
