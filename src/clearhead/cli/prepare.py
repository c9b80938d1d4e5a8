"""`clearhead prepare`: turn a corpus into token shards for pretraining."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import JsonOption

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from clearhead.corpus.dedup import PrepareStage
    from clearhead.corpus.prepare_corpus import PrepareSummary


@report_errors
def prepare(
    corpus: Annotated[
        Path,
        typer.Argument(help="Folder of .txt, .jsonl, .parquet or .warc files, compressed or not; or one such file."),
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="Folder of shards to write, also s3://BUCKET/PREFIX.")],
    tokenizer: Annotated[
        str, typer.Option(help="Folder with a tokenizer: a model folder, or one from `clearhead tokenizer train`.")
    ],
    block: Annotated[int, typer.Option(help="Maximum tokens per block; a block holds complete sentences.")] = 512,
    split: Annotated[
        str,
        typer.Option(help="Documents in a text file: file (one), line (one per line), blank (between blank lines)."),
    ] = "file",
    text: Annotated[str, typer.Option(help="Column of JSONL and Parquet files that holds the text.")] = "text",
    language: Annotated[str, typer.Option(help="Language for sentence splitting: en, de, fr, …")] = "en",
    quality: Annotated[
        list[str] | None, typer.Option(help="Quality filter: gopher, repetition, fineweb or c4. Repeatable.")
    ] = None,
    dedup: Annotated[str, typer.Option(help="Deduplication: none, exact or minhash.")] = "exact",
    on: Annotated[str, typer.Option(help="Where tasks run: local, slurm or ray.")] = "local",
    workers: Annotated[int, typer.Option(min=1, help="Number of parallel workers.")] = 1,
    partition: Annotated[
        str | None, typer.Option(help="With --on slurm: partition. Default: that of the cluster.")
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option("--time", help="With --on slurm: time limit of a job. Default: 24:00:00.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print tasks, memory and disk of each stage; read no document.")
    ] = False,
    documents: Annotated[
        int | None, typer.Option(min=1, help="With --plan: number of documents. Default: one per 4 kB of the files.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Turn a corpus into token shards for pretraining.

    Documents are read, filtered, deduplicated, split into sentences, tokenized and packed. The output is the same bytes
    with any number of workers. An interrupted run resumes with the same command. Unreadable inputs are listed with
    file, place and reason in quarantine.jsonl; dropped documents are counted by reason.

    Example: clearhead prepare corpus/ --out shards/ --tokenizer my-model --workers 2
    """
    if on not in ("local", "slurm", "ray"):
        raise ValueError(f"--on {on} is unknown: choose local, slurm or ray")
    if on != "slurm" and (partition or time_limit):
        raise ValueError("--partition and --time are of Slurm: use them with --on slurm")
    if documents and not plan:
        raise ValueError("--documents is for --plan: the documents of a corpus are counted while it is read")
    if split not in ("file", "line", "blank"):
        raise ValueError(f"--split {split} is unknown: choose file, line or blank")
    if find_spec("datatrove") is None or find_spec("array_record") is None:
        raise ValueError("preparing a corpus needs an extra: pip install 'clearhead[cluster]'")
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from clearhead.corpus.prepare_corpus import PrepareConfig, plan_stages
    from clearhead.corpus.prepare_corpus import prepare as run
    from clearhead.corpus.slurm import SlurmConfig
    from clearhead.files.s3_path import folder_at

    settings = PrepareConfig(tokenizer, block, split, text, language, tuple(quality or ()), dedup)
    if plan:
        show_stages(plan_stages(corpus, settings, documents), as_json)
        return
    slurm = SlurmConfig(partition, time_limit or SlurmConfig.time)
    begin = time.perf_counter()
    with Progress(
        TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(), TextColumn("tasks"), TimeElapsedColumn(),
        TimeRemainingColumn(), console=Console(stderr=True), disable=as_json,
    ) as progress:  # fmt: skip
        bars: dict[str, TaskID] = {}
        stages: list[PrepareStage] = []

        def on_progress(stage: str, done: int, tasks: int) -> None:
            if stage not in bars:
                bars[stage] = progress.add_task(stage, total=tasks)
            progress.update(bars[stage], completed=done)

        summary = run(
            corpus, folder_at(out), settings, on=on, workers=workers, slurm=slurm, on_progress=on_progress,
            on_stage=stages.append,
        )  # fmt: skip
    seconds = time.perf_counter() - begin
    if as_json:
        sizes = [stage_sizes(stage) for stage in stages]
        typer.echo(json.dumps({**asdict(summary), "stages": sizes, "seconds": round(seconds, 2)}))
    else:
        show(Console(highlight=False), summary, out, block, seconds)


def stage_sizes(stage: PrepareStage) -> dict[str, str | int]:
    """Return what a stage needs, for JSON."""
    names = ("name", "tasks", "task_bytes", "disk_bytes")
    return {name: getattr(stage, name) for name in names}


def show_stages(stages: list[PrepareStage], as_json: bool) -> None:
    """Print what each stage of a corpus needs."""
    if as_json:
        typer.echo(json.dumps([stage_sizes(stage) for stage in stages]))
        return
    from rich.console import Console
    from rich.table import Table

    from clearhead.corpus.dedup import PAIR_TASK_BYTES

    table = Table(box=None, pad_edge=False)
    for name, justify in (("stage", "left"), ("tasks", "right"), ("memory of a task", "right"), ("disk", "right")):
        table.add_column(name, justify=justify)  # pyright: ignore[reportArgumentType]
    for stage in stages:
        sizes = [f"{size / 1e9:,.2f} GB" if size else "" for size in (stage.task_bytes, stage.disk_bytes)]
        table.add_row(stage.name, f"{stage.tasks:,}", *sizes)
    console = Console(highlight=False)
    console.print(table)
    console.print("Memory is what a task compares, beyond Python and its libraries; disk is what deduplication writes.")
    if any(stage.name == "cluster" for stage in stages):
        console.print(f"The cluster task needs {PAIR_TASK_BYTES} bytes for each pair that compare finds.")


def show(console: Console, summary: PrepareSummary, out: str, block: int, seconds: float) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("files", f"{summary.files:,}")
    table.add_row("unreadable", f"{summary.quarantined:,}")
    table.add_row("documents read", f"{summary.read:,}")
    for reason, count in summary.dropped.items():
        table.add_row(f"  dropped: {reason}", f"{count:,}")
    table.add_row("[bold]documents kept[/bold]", f"[bold]{summary.documents:,}[/bold]")
    table.add_row("sentences", f"{summary.sentences:,}")
    table.add_row("tokens", f"{summary.tokens:,}")
    table.add_row(f"blocks of {block:,} tokens", f"{summary.blocks:,}")
    console.print(table)
    rate = summary.read / max(seconds, 1e-9)
    console.print(f"{out}: {summary.shards:,} shards, {seconds:,.1f} s, {rate:,.0f} documents/s")
