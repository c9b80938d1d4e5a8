"""`clearhead prepare`: a folder of documents becomes shards of tokens, to pre-train on."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from clearhead.cli.faults import told


@told
def prepare(
    corpus: Annotated[
        Path, typer.Argument(help="A folder of .txt, .jsonl, .parquet or .warc files, plain or packed; or one file.")
    ],
    shards: Annotated[Path, typer.Argument(help="The folder to make.")],
    tokenizer: Annotated[
        str, typer.Option(help="A folder with the tokenizer: of a model, or `clearhead tokenizer`'s.")
    ],
    block: Annotated[int, typer.Option(help="Tokens of a block, which holds whole sentences.")] = 512,
    split: Annotated[
        str, typer.Option(help="What a document of a text file is: file, line, or blank (between blank lines).")
    ] = "file",
    text: Annotated[str, typer.Option(help="The column of JSON lines and Parquet that holds the text.")] = "text",
    language: Annotated[str, typer.Option(help="By whose rules sentences end: en, de, fr ...")] = "en",
    quality: Annotated[
        list[str] | None,
        typer.Option(help="Drop poor documents by these rules: gopher, repetition, fineweb, c4. May be repeated."),
    ] = None,
    dedup: Annotated[str, typer.Option(help="Drop documents that are there twice: none, exact or minhash.")] = "exact",
    on: Annotated[str, typer.Option(help="Who runs the tasks: local, slurm or ray.")] = "local",
    workers: Annotated[int, typer.Option(min=1, help="How many tasks run at once.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
) -> None:
    """Read, judge, deduplicate, split into sentences, turn into tokens and pack; the same bytes with any workers.

    A run that is stopped goes on where it was when it is begun again. What cannot be read is listed with file, place
    and reason in quarantine.jsonl; what is dropped is counted by reason.

    Example: clearhead prepare corpus/ shards/ --tokenizer my-model --workers 2
    """
    if on not in ("local", "slurm", "ray"):
        raise ValueError(f"--on {on}: local, slurm or ray")
    if split not in ("file", "line", "blank"):
        raise ValueError(f"--split {split}: file, line or blank")
    if find_spec("datatrove") is None or find_spec("array_record") is None:
        raise ValueError("preparing a corpus takes an extra: pip install 'clearhead[cluster]'")
    from clearhead.data.prepare.pipeline import Prepare
    from clearhead.data.prepare.pipeline import prepare as run

    settings = Prepare(tokenizer, block, split, text, language, tuple(quality or ()), dedup)
    begin = time.perf_counter()
    with Progress(
        TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(), TextColumn("tasks"), TimeElapsedColumn(),
        TimeRemainingColumn(), console=Console(stderr=True), disable=as_json,
    ) as progress:  # fmt: skip
        bars: dict[str, object] = {}

        def heard(stage: str, done: int, tasks: int) -> None:
            if stage not in bars:
                bars[stage] = progress.add_task(stage, total=tasks)
            progress.update(bars[stage], completed=done)  # type: ignore[arg-type]

        found = run(corpus, shards, settings, on=on, workers=workers, heard=heard)
    seconds = time.perf_counter() - begin
    if as_json:
        typer.echo(json.dumps({**asdict(found), "seconds": round(seconds, 2)}))
        return
    screen = Console(highlight=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("files", f"{found.files:,}")
    table.add_row("cannot be read", f"{found.quarantined:,}")
    table.add_row("documents read", f"{found.read:,}")
    for reason, count in found.dropped.items():
        table.add_row(f"  dropped: {reason}", f"{count:,}")
    table.add_row("[bold]documents kept[/bold]", f"[bold]{found.documents:,}[/bold]")
    table.add_row("sentences", f"{found.sentences:,}")
    table.add_row("tokens", f"{found.tokens:,}")
    table.add_row(f"blocks of {block:,} tokens", f"{found.blocks:,}")
    screen.print(table)
    rate = found.read / max(seconds, 1e-9)
    screen.print(f"{shards}: {found.shards:,} shards, {seconds:,.1f} s, {rate:,.0f} documents a second")
