"""`clearhead embed`: an embedding vector for every line of text."""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import EMBED_BATCH_TOKENS, DeviceOption, DtypeOption, ModelArgument


@report_errors
def embed(
    model: ModelArgument,
    files: Annotated[list[Path] | None, typer.Argument(help="Text files, one text per line. Default: stdin.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Output file: .jsonl, .npy or .parquet. Default: JSON lines on stdout."),
    ] = None,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    pool: Annotated[
        str | None, typer.Option(help="Pooling: first, last, mean, max, min. Default: the model's.")
    ] = None,
    normalize: Annotated[
        bool | None, typer.Option("--normalize/--raw", help="Scale vectors to length 1. Default: the model's.")
    ] = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Maximum tokens per batch.")] = EMBED_BATCH_TOKENS,
    skip: Annotated[int, typer.Option(min=0, help="Number of lines to skip, to resume an interrupted run.")] = 0,
) -> None:
    """Compute an embedding vector for every line of text.

    Vectors are written in the order of the input, batch by batch. Batches are filled by tokens and not padded. Texts
    longer than the model's limit are truncated and counted. An interrupted run leaves its output in NAME.partial and
    prints the --skip value that resumes it.

    Example: clearhead embed my-model questions.txt --out questions.npy
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from clearhead.files.vector_files import VectorOutput
    from clearhead.models.precision import has_bfloat16
    from clearhead.pipeline import load

    console = Console(stderr=True, highlight=False)
    pipeline = load(model, dtype=dtype, device=device)
    used_dtype = str(next(iter(pipeline.model.parameters())).dtype).removeprefix("torch.")
    used_device = next(iter(pipeline.model.parameters())).device
    support = "supports" if has_bfloat16(used_device) else "does not support"
    console.print(f"[dim]dtype {used_dtype}; this {used_device.type} {support} bfloat16 in hardware[/dim]")
    lines = LineReader(files or [])
    done = tokens = truncated = longest = 0
    begin = time.perf_counter()
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with (
        VectorOutput(out, skip) as output,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("reading", total=lines.size or None)
        try:
            texts = islice(lines, skip, None)
            for part in pipeline.encode_batches(texts, pool=pool, normalize=normalize, batch_tokens=batch_tokens):
                output.write(part.vectors)
                done, tokens = done + len(part.vectors), tokens + part.num_tokens
                truncated, longest = truncated + part.num_truncated, max(longest, part.longest)
                rate = tokens / (time.perf_counter() - begin)
                fraction = (skip + done) / lines.count  # lines are read ahead of the vectors
                description = f"{done:,} texts, {rate:,.0f} tokens/s"
                progress.update(task, completed=lines.read * fraction, description=description)
        except KeyboardInterrupt:
            place = "" if output.partial is None else f" in {output.partial}"
            console.print(f"[yellow]stopped[/yellow]: {done:,} texts{place}; resume with --skip {skip + done}")
            raise typer.Exit(130) from None
    seconds = time.perf_counter() - begin
    console.print(f"{done:,} texts in {seconds:.1f} s: {done / seconds:,.0f} texts/s, {tokens / seconds:,.0f} tokens/s")
    if truncated:
        console.print(
            f"{truncated:,} texts were truncated to the model's limit of {pipeline.max_len} tokens; "
            f"the longest has {longest:,}"
        )


class LineReader:
    """Iterate over the lines of files, or of standard input, and count the lines and bytes read."""

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
