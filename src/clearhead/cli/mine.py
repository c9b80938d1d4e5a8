"""`clearhead mine`: hard negatives for the training of vectors and rerankers."""

import json
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

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
    generator: Annotated[
        str | None, typer.Option(help="Index: a model that writes the questions, instead of a file.")
    ] = None,
    for_generator: Annotated[
        bool, typer.Option("--for-generator", help="Index: write source and target to train such a model.")
    ] = False,
    max_rows: Annotated[int | None, typer.Option(min=1, help="Use so many pairs, spread evenly over the file.")] = None,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
) -> None:
    """Write hard negatives for the training of embeddings.

    With a model, negatives of a query are the nearest documents that are not its answer; the documents are all
    positives of the file, and a recipe of `embed` or `rerank` reads the result. With an index, the file has questions
    and answers, and negatives are passages found for the question that lack the answer: for a recipe of `answer`. An
    index without a file gives pairs of headings and sentences with their passages, for a recipe of `embed`; or, with
    --generator, questions that a model writes about its passages. Such a model is a translator from answers to
    questions, trained on rows of --for-generator.

    Example: clearhead mine my-model pairs.csv --out mined.jsonl
    """
    from clearhead.cli.progress import show_progress
    from clearhead.cli.task_rows import pair_rows, parse_columns, question_rows, question_values
    from clearhead.data.split import spread

    from_index = is_index_address(model)
    if (generator or for_generator) and not from_index:
        raise ValueError(f"{model} is no index: --generator and --for-generator need an index of documents")
    if generator and (file or for_generator):
        raise ValueError("--generator writes the questions: leave out the file and --for-generator")
    if file is None and not from_index:
        raise ValueError("there is no file of pairs: give one, or an index of documents")
    report, values = "", list[dict[str, Any]]()
    if file is not None:
        rows = question_rows(file, parse_columns(column)) if from_index else pair_rows(file, parse_columns(column))
        values = [row.values for row in rows]
        report = rows.report()
        if not values:
            raise ValueError(f"{file} has no {'question' if from_index else 'pair'}. {report}".strip())
        values = spread(values, max_rows)
    if from_index:
        from clearhead.pipeline import load
        from clearhead.search import Index, PassageMiningConfig, mine_passages, pseudo_pairs
        from clearhead.search.question_generator import generated_questions, generator_rows

        index = Index.open(model)
        config = PassageMiningConfig(num_negatives=num_negatives, depth=depth, unanswerable=unanswerable)
        questions = (question_values(row) for row in values)
        total = len(values) or max_rows or len(index)
        if generator is not None:
            mined = mine_passages(index, generated_questions(index, load(generator), max_rows), config)
        elif file is None:
            mined = islice(pseudo_pairs(index), max_rows)
        elif for_generator:
            mined = generator_rows(index, questions, depth)
        else:
            mined = mine_passages(index, questions, config)
    else:
        from clearhead.pipeline import load
        from clearhead.tasks.hard_negatives import MiningConfig, mine_negatives

        config = MiningConfig(num_negatives=num_negatives, depth=depth, sampling=sampling, margin=margin)
        mined = mine_negatives(load(model, dtype=dtype, device=device).loaded, values, config)
        total = len(values)
    written = num = 0
    with open_output(out) as target, show_progress() as on_progress:
        for row in mined:
            target.write(json.dumps(row, ensure_ascii=False) + "\n")
            written, num = written + 1, num + len(row.get("negative", []))
            on_progress("mine", written, max(written, total))
    negatives = f", {num:,} negatives" if num else ""
    typer.echo(f"{out}: {written:,} {f'of {len(values):,} ' if values else ''}rows{negatives}", err=True)
    if report:
        typer.echo(report, err=True)
