"""`clearhead embed`: a vector for every line of text."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from clearhead.app import load
from clearhead.cli.faults import told
from clearhead.cli.vectors import Output
from clearhead.models.embed import BUDGET
from clearhead.models.precision import has_bfloat16


@told
def embed(
    model: Annotated[str, typer.Argument(help="A model folder, or a name on the Hugging Face hub.")],
    files: Annotated[
        list[Path] | None, typer.Argument(help="Text files, one text a line; without any, standard input.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to: .jsonl, .npy or .parquet. Default: JSON lines on standard output."),
    ] = None,
    dtype: Annotated[
        str, typer.Option(help="float32, bfloat16, or auto: bfloat16 where this machine computes in it.")
    ] = "auto",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    pool: Annotated[
        str | None, typer.Option(help="first, last, mean, max, min. Default: what the folder says.")
    ] = None,
    normalize: Annotated[
        bool | None, typer.Option("--normalize/--raw", help="Make vectors of length 1. Default: what the folder says.")
    ] = None,
    budget: Annotated[int, typer.Option(min=1, help="Tokens in a batch.")] = BUDGET,
    skip: Annotated[int, typer.Option(min=0, help="Leave out the first lines: go on where a run was stopped.")] = 0,
) -> None:
    """Read texts, one a line, and write a vector for each, in order, without ever holding all of them.

    Batches are filled by tokens and never padded. Texts longer than the model reads are cut, and counted. A run that
    is stopped leaves what it has done in NAME.partial, and says how to go on.

    Example: clearhead embed my-model questions.txt --out questions.npy
    """
    screen = Console(stderr=True, highlight=False)
    app = load(model, dtype=dtype, device=device)
    kind = str(next(iter(app.model.parameters())).dtype).removeprefix("torch.")
    native = "has" if has_bfloat16(device) else "does not have"
    screen.print(f"[dim]in {kind}: this {torch.device(device).type} {native} bfloat16 of its own[/dim]")
    lines = Lines(files or [])
    done = tokens = cut = longest = 0
    begin = time.perf_counter()
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with (
        Output(out, skip) as output,
        Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress,
    ):
        task = progress.add_task("reading", total=lines.size or None)
        try:
            for part in app.stream(islice(lines, skip, None), pool=pool, normalize=normalize, budget=budget):
                output.write(part.vectors)
                done, tokens, cut = done + len(part.vectors), tokens + part.num_tokens, cut + part.num_cut
                longest = max(longest, part.longest)
                rate = tokens / (time.perf_counter() - begin)
                share = (skip + done) / lines.count  # lines are read ahead of what is done
                progress.update(task, completed=lines.read * share, description=f"{done:,} texts, {rate:,.0f} tokens/s")
        except KeyboardInterrupt:
            kept = "" if output.partial is None else f" are in {output.partial}"
            screen.print(f"[yellow]stopped[/yellow]: {done:,} texts{kept}; go on with --skip {skip + done}")
            raise typer.Exit(130) from None
    seconds = time.perf_counter() - begin
    screen.print(f"{done:,} texts in {seconds:.1f} s: {done / seconds:,.0f} texts/s, {tokens / seconds:,.0f} tokens/s")
    if cut:
        screen.print(
            f"{cut:,} texts were cut to the {app.max_len} tokens this model reads; the longest had {longest:,}"
        )


class Lines:
    """The lines of files, or of standard input, and how many lines and bytes of them have been read."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files
        self.read = self.count = 0
        self.size = sum(f.stat().st_size for f in files) if files else os.fstat(sys.stdin.fileno()).st_size

    def __iter__(self) -> Iterator[str]:
        for path in self.files:
            with path.open("rb") as file:
                yield from self._lines(file, str(path))
        if not self.files:
            yield from self._lines(sys.stdin.buffer, "standard input")

    def _lines(self, file: Iterable[bytes], name: str) -> Iterator[str]:
        for number, line in enumerate(file, 1):
            self.read, self.count = self.read + len(line), self.count + 1
            try:
                yield line.rstrip(b"\r\n").decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"{name}, line {number}: not UTF-8 ({error.reason} at byte {error.start})") from None
