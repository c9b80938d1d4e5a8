"""`clearhead translate`: a translation for every line of text."""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from clearhead.app import load
from clearhead.cli.faults import told
from clearhead.cli.pipes import Blocks, quiet, undisturbed
from clearhead.decode import Hypothesis, Translation
from clearhead.decode import translate as translated
from clearhead.decode.batches import WINDOW


@told
@quiet
def translate(
    model: Annotated[str, typer.Argument(help="A model folder, or a name on the Hugging Face hub.")],
    file: Annotated[Path, typer.Argument(help="A text file, one text a line; - is standard input.")] = Path("-"),
    beam: Annotated[
        int | None, typer.Option(min=1, help="Hypotheses that are kept; 1 is greedy. Default: the folder's, or 5.")
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Above 1 prefers longer texts. Default: the folder's, or 1.")
    ] = None,
    nbest: Annotated[int, typer.Option(min=1, help="How many hypotheses to write for each text.")] = 1,
    max_len: Annotated[int | None, typer.Option(min=1, help="Tokens of a translation at most.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to. Default: standard output.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object a line, with scores.")] = False,
    align: Annotated[bool, typer.Option(help="Add which token was read for which: `read-written` pairs.")] = False,
    dtype: Annotated[
        str, typer.Option(help="float32, bfloat16, or auto: bfloat16 where this machine computes in it.")
    ] = "auto",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
) -> None:
    """Translate texts, one a line, in order; an empty line stays an empty line.

    Lines are taken as they come, so it can stand in a pipe or answer line by line. With --nbest above 1 each line of
    the output is `number ||| text ||| score`. A run that is stopped leaves what it has done in NAME.partial.

    Example: clearhead translate en-de questions.txt --beam 5 --out questions.de.txt
    """
    screen = Console(stderr=True, highlight=False)
    app = load(model, dtype=dtype, device=device)
    how = app.beam(beam, length_penalty=length_penalty, nbest=nbest, default=5)
    blocks = Blocks(None if str(file) == "-" else file, WINDOW)
    partial = None if out is None else out.with_name(out.name + ".partial")
    done = written = cut = 0
    begin = time.perf_counter()
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with ExitStack() as stack:
        target = sys.stdout if partial is None else stack.enter_context(partial.open("w", encoding="utf-8"))
        progress = stack.enter_context(
            Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)
        )
        task = progress.add_task("reading", total=blocks.size or None)
        try:
            before = 0
            for block in blocks:
                found: dict[int, Translation] = {}
                for part, short in translated(app.writer, block, how, max_new=max_len, align=align):
                    found.update(part)
                    written += sum(len(t.ids) for _, t in part)
                    cut += len(short)
                    rate = written / (time.perf_counter() - begin)
                    there = before + (blocks.read - before) * len(found) / len(block)
                    text = f"{done + len(found):,} texts, {rate:,.0f} tokens/s"
                    progress.update(task, completed=there, description=text)
                with undisturbed():  # what is told at the end is what is there
                    for i in range(len(block)):
                        _write(target, done + i, found[i], as_json, nbest)
                    target.flush()
                    done, before = done + len(block), blocks.read
        except KeyboardInterrupt:
            kept = "" if partial is None else f" are in {partial}"
            screen.print(f"[yellow]stopped[/yellow]: {done:,} texts{kept}")
            raise typer.Exit(130) from None
    if partial is not None and out is not None:
        partial.replace(out)
    seconds = time.perf_counter() - begin
    screen.print(f"{done:,} texts in {seconds:.1f} s: {done / seconds:,.1f} texts/s, {written / seconds:,.0f} tokens/s")
    if cut:
        screen.print(f"{cut:,} texts were cut to the {app.writer.source_limit} tokens this model reads")


def _write(target: TextIO, number: int, translation: Translation, as_json: bool, nbest: int) -> None:
    if as_json:
        target.write(json.dumps(_facts(number, translation), ensure_ascii=False) + "\n")
        return
    pairs = " ".join(f"{read}-{wrote}" for wrote, read in translation.pairs)
    for hypothesis in translation.nbest:
        text = " ".join(hypothesis.text.splitlines())  # a line for a line
        if nbest > 1:
            text = f"{number} ||| {text} ||| {hypothesis.score:.4f}"
        target.write(text + (f"\t{pairs}" if translation.alignment is not None else "") + "\n")


def _facts(number: int, translation: Translation) -> dict[str, Any]:
    def facts(h: Hypothesis) -> dict[str, Any]:
        return {"text": h.text, "score": round(h.score, 6), "tokens": list(h.tokens), "ended": h.ended}

    out: dict[str, Any] = {"line": number, **facts(translation.nbest[0])}
    if len(translation.nbest) > 1:
        out["nbest"] = [facts(h) for h in translation.nbest]
    if translation.alignment is not None:
        out |= {"source": list(translation.source), "alignment": [[read, wrote] for wrote, read in translation.pairs]}
    return out
