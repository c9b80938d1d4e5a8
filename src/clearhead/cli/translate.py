"""`clearhead translate`: a translation of every line of text."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from clearhead.cli.command import (
    LineBatches,
    defer_sigint,
    ignore_broken_pipe,
    open_output,
    report_errors,
)
from clearhead.cli.options import DeviceOption, DtypeOption, EngineOption, ModelArgument
from clearhead.files.atomic import partial_path

if TYPE_CHECKING:
    from clearhead.decode import Hypothesis, Translation


@report_errors
@ignore_broken_pipe
def translate(
    model: ModelArgument,
    file: Annotated[Path, typer.Argument(help="Text file, one text per line; - is standard input.")] = Path("-"),
    beam: Annotated[int | None, typer.Option(min=1, help="Beam size; 1 is greedy. Default: the model's, or 5.")] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Length penalty; above 1 prefers longer texts. Default: the model's, or 1.")
    ] = None,
    nbest: Annotated[int, typer.Option(min=1, help="Number of hypotheses to write per text.")] = 1,
    max_len: Annotated[int | None, typer.Option(min=1, help="Maximum number of tokens per translation.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Output file. Default: standard output.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line, with scores and tokens.")
    ] = False,
    align: Annotated[bool, typer.Option(help="Add the token alignment, as source-target pairs.")] = False,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    engine: EngineOption = "auto",
) -> None:
    """Translate text, one line at a time.

    Lines are translated as they arrive, in order; an empty line stays empty. With --nbest above 1, each line of the
    output is `number ||| text ||| score`. An interrupted run leaves its output in NAME.partial.

    Example: clearhead translate en-de questions.txt --beam 5 --out questions.de.txt
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from clearhead.decode import translate as translate_batches
    from clearhead.decode.generator import WINDOW
    from clearhead.pipeline import load

    console = Console(stderr=True, highlight=False)
    pipeline = load(model, dtype=dtype, device=device)
    generator = pipeline.generator
    beam_config = generator.beam(beam, length_penalty=length_penalty, nbest=nbest, default=5)
    selected = pipeline.translation_engine.select(engine, beam_config, 1)  # writes an export before the clock starts
    batches = LineBatches(None if str(file) == "-" else file, WINDOW)
    done = tokens = truncated = 0
    begin = time.perf_counter()
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with ExitStack() as stack:
        target = stack.enter_context(open_output(out))
        hidden = not console.is_terminal
        progress = stack.enter_context(Progress(*columns, console=console, transient=True, disable=hidden))
        task = progress.add_task("reading", total=batches.size or None)
        try:
            bytes_done = 0
            for batch in batches:
                translations: dict[int, Translation] = {}
                selected = pipeline.translation_engine.select(engine, beam_config, len(batch))
                options: dict[str, Any] = {"max_new_tokens": max_len, "align": align, "search": selected.search}
                for part, cut in translate_batches(generator, batch, beam_config, **options):
                    translations.update(part)
                    tokens += sum(len(t.ids) for _, t in part)
                    truncated += len(cut)
                    rate = tokens / (time.perf_counter() - begin)
                    completed = bytes_done + (batches.read - bytes_done) * len(translations) / len(batch)
                    text = f"{done + len(translations):,} texts, {rate:,.0f} tokens/s"
                    progress.update(task, completed=completed, description=text)
                with defer_sigint():  # the count in the message matches the lines in the file
                    for i in range(len(batch)):
                        _write(target, done + i, translations[i], as_json, nbest)
                    target.flush()
                    done, bytes_done = done + len(batch), batches.read
        except KeyboardInterrupt:
            place = "" if out is None else f" in {partial_path(out)}"
            console.print(f"[yellow]stopped[/yellow]: {done:,} texts{place}")
            raise typer.Exit(130) from None
    seconds = time.perf_counter() - begin
    rates = f"{done / seconds:,.1f} texts/s, {tokens / seconds:,.0f} tokens/s"
    console.print(f"{done:,} texts in {seconds:.1f} s: {rates}; engine: {selected.name}")
    if truncated:
        limit = generator.max_source_len
        console.print(f"{truncated:,} texts were truncated to the model's limit of {limit} tokens")


def _write(target: TextIO, number: int, translation: Translation, as_json: bool, nbest: int) -> None:
    if as_json:
        target.write(json.dumps(_to_json(number, translation), ensure_ascii=False) + "\n")
        return
    pairs = " ".join(f"{source}-{written}" for written, source in translation.pairs)
    for hypothesis in translation.nbest:
        text = " ".join(hypothesis.text.splitlines())  # one line per input line
        if nbest > 1:
            text = f"{number} ||| {text} ||| {hypothesis.score:.4f}"
        target.write(text + (f"\t{pairs}" if translation.alignment is not None else "") + "\n")


def _to_json(number: int, translation: Translation) -> dict[str, Any]:
    def hypothesis(h: Hypothesis) -> dict[str, Any]:
        return {"text": h.text, "score": round(h.score, 6), "tokens": list(h.tokens), "ended": h.ended}

    result: dict[str, Any] = {"line": number, **hypothesis(translation.nbest[0])}
    if len(translation.nbest) > 1:
        result["nbest"] = [hypothesis(h) for h in translation.nbest]
    if translation.alignment is not None:
        alignment = [[source, written] for written, source in translation.pairs]
        result |= {"source": list(translation.source), "alignment": alignment}
    return result
