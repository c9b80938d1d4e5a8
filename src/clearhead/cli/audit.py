"""`clearhead audit`: what a model has learned about groups of people, measured with intervals."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import JsonOption, ModelArgument

if TYPE_CHECKING:
    from rich.table import Table

    from clearhead.audit.estimates import SuiteResult
    from clearhead.audit.head_effects import HeadEffects
    from clearhead.hub.folder import LoadedModel
    from clearhead.tasks.classify import TextInput

PAIR_SUITE = "crows_pairs"  # whose pairs --why looks at
MAX_ROWS, MAX_HEADS = 16, 8  # of a suite and of the heads, in the terminal


@report_errors
def audit(
    model: ModelArgument,
    suite: Annotated[
        list[str] | None, typer.Option(help="Suite to run, repeatable. Default: all that fit the model.")
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            help="Of a classifier: your own texts instead of the templates, one per line; a tab separates a pair."
        ),
    ] = None,
    pairs: Annotated[
        Path | None, typer.Option(help="Of a language model: your own sentence pairs, with the columns of CrowS-Pairs.")
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="Classifier of sentiment that scores what a language model writes.")
    ] = None,
    judge_label: Annotated[
        str | None, typer.Option(help="Of the judge: label of positive texts. Default: positive, pos, good or 1.")
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Language that a translator writes, de or fr. Default: that of its recipe.")
    ] = None,
    max_examples: Annotated[
        int | None, typer.Option(min=1, help="Use so many pairs, prompts, sentences or texts of your own at most.")
    ] = None,
    why: Annotated[
        bool, typer.Option("--why", help="Ablate each head on the sentence pairs with the largest effects.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of samples, texts and intervals.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Output folder. Default: the folder of the training run, or audit-MODEL."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Audit a model for bias: what it has learned about groups of people.

    Chooses the suites that fit the model: sentence pairs and texts about groups for language models, gender for
    translators, counterfactual texts for classifiers, associations for vectors, underspecified questions for readers.
    Every value has a 95 % interval; a value that differs from that of an unbiased model is marked (p < 0.05, corrected
    for all values of its suite). Writes OUT/audit.json, audit.html and figures; with --why also why.html, which shows
    the heads and the attention behind the largest effects.

    Example: clearhead audit runs/sst2/model --seed 1
    """
    from rich.console import Console
    from rich.markup import escape

    from clearhead.audit.audit_record import audit_record
    from clearhead.audit.head_effects import head_effects, heads_of, largest_effects
    from clearhead.audit.suites import AuditOptions, choose_suites
    from clearhead.cli.demo import command_line
    from clearhead.cli.progress import show_progress
    from clearhead.pipeline import load

    pipeline = load(model)
    options = AuditOptions(
        seed=seed, texts=None if texts is None else _read_texts(texts, pipeline.loaded), pairs=pairs,
        judge=None if judge is None else load(judge), judge_label=judge_label, language=language,
        max_examples=max_examples,
    )  # fmt: skip
    suites, left_out = choose_suites(pipeline.loaded, suite or (), options)
    if why:
        if all(one.name != PAIR_SUITE for one in suites):
            raise ValueError(
                f"--why ablates heads on sentence pairs, but the suites are {', '.join(one.name for one in suites)}: "
                f"leave it out, or audit a language model with the suite {PAIR_SUITE}"
            )
        heads_of(pipeline.loaded)
    for line in left_out:
        typer.echo(line, err=True)
    begin = time.perf_counter()
    results: list[SuiteResult] = []
    heads = None
    try:
        with show_progress() as on_progress:
            for one in suites:
                results.append(one.run(pipeline, replace(options, on_progress=partial(on_progress, one.title))))
            if why:
                examples = next(result.examples for result in results if result.suite == PAIR_SUITE)
                show = partial(on_progress, "Heads")
                heads = head_effects(pipeline.loaded, largest_effects(examples), seed=seed, on_progress=show)
    except KeyboardInterrupt:
        typer.echo("stopped: nothing was written", err=True)
        raise typer.Exit(130) from None
    seconds = time.perf_counter() - begin
    record = audit_record(
        model, pipeline.loaded, results, command=command_line(), seconds=seconds, judge=judge, left_out=left_out,
        heads=heads,
    )  # fmt: skip
    written = _write(record, results, heads, pipeline.loaded, _folder(model) if out is None else out)
    if as_json:
        typer.echo(json.dumps(record, ensure_ascii=False))
        return
    console = Console(highlight=False)
    for result in results:
        console.print(f"\n[bold]{escape(result.title)}[/bold]  {escape(result.method)}")
        console.print(_table(result))
        for note in result.notes:
            console.print(f"  {note}", markup=False, style="dim")
    if heads is not None:
        console.print(_heads_table(heads))
    console.print(f"\n{seconds:.0f} s; written: {', '.join(map(str, written))}", markup=False, soft_wrap=True)


def _read_texts(path: Path, loaded: LoadedModel) -> list[TextInput]:
    """Return the lines of a file; for a classifier of pairs, the two texts of each line."""
    from clearhead.tasks.registry import answer_task_name

    if not path.is_file():
        raise ValueError(f"there is no file {path}: check the path")
    try:
        lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}): convert it") from None
    if not lines:
        raise ValueError(f"{path} has no text: write one text per line")
    if answer_task_name(loaded) != "pair":
        return list(lines)
    parts = [line.split("\t") for line in lines]
    if wrong := [number for number, part in enumerate(parts, 1) if len(part) != 2]:
        raise ValueError(f"{path}, text {wrong[0]}: the model classifies pairs: write both texts, separated by one tab")
    return [(first, second) for first, second in parts]


def _write(
    record: dict[str, Any],
    results: Sequence[SuiteResult],
    heads: HeadEffects | None,
    loaded: LoadedModel,
    folder: Path,
) -> list[Path]:
    """Write the record, the pages and the figures, and return their paths."""
    from clearhead.audit.audit_page import audit_page
    from clearhead.audit.audit_plots import draw_audit
    from clearhead.audit.audit_record import write_record
    from clearhead.audit.why_page import why_page
    from clearhead.files import write_atomic
    from clearhead.viz.style import can_draw, save

    folder.mkdir(parents=True, exist_ok=True)
    title, page, why = f"Audit of {record['model']}", folder / "audit.html", folder / "why.html"
    written = [write_record(record, folder), page]
    address = "" if heads is None else why.name
    content = audit_page(results, title, heads=heads, why=address, left_out=record["left_out"])
    write_atomic(page, content.encode())
    why.unlink(missing_ok=True)  # of an earlier audit
    if heads is not None:
        write_atomic(why, why_page(loaded, heads, f"Heads behind the largest effects of {record['model']}").encode())
        written.append(why)
    if can_draw():
        written += save(draw_audit(results, title), folder / "audit")
    return written


def _folder(model: str) -> Path:
    """Return the folder of a training run, beside its model, or a new one that is named after the model."""
    path = Path(model)
    if path.is_dir():
        path = path.resolve()
        if (path.parent / "recipe.yaml").is_file():
            return Path(os.path.relpath(path.parent))
    return Path(f"audit-{path.name.rpartition(':')[2]}")


def _table(result: SuiteResult) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from clearhead.audit.audit_plots import shown_estimates
    from clearhead.audit.estimate_table import shown_p

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for name in (result.unit or "value", "95 % interval", "ideal", "rows", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    for e in shown_estimates(result.estimates, MAX_ROWS):
        ideal = "" if e.ideal is None else f"{e.ideal:g}"
        name = escape(f"{e.name} *" if e.flagged else e.name)
        numbers = f"{e.value:.2f}", f"{e.low:.2f} to {e.high:.2f}", ideal, f"{e.count:,}", shown_p(e)
        table.add_row(name, *numbers, style="bold" if e.flagged else "")
    if len(result.estimates) > MAX_ROWS:
        table.add_row(f"and {len(result.estimates) - MAX_ROWS} more in the record")
    return table


def _heads_table(heads: HeadEffects) -> Table:
    from rich.table import Table

    from clearhead.audit.estimate_table import shown_p

    title = f"\nHeads, on the {len(heads.pairs)} pairs with the largest effects (mean {heads.total.value:.2f})"
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title=title, title_justify="left", min_width=70)
    for name in ("head", "adds", "95 % interval", "p", "both sentences"):
        table.add_column(name, justify="left" if name == "head" else "right", no_wrap=True)
    for head in heads.heads[:MAX_HEADS]:
        e = head.change
        numbers = f"{e.value:+.2f}", f"{e.low:.2f} to {e.high:.2f}", shown_p(e), f"{head.likelihood:+.2f}"
        table.add_row(head.name, *numbers, style="bold" if e.flagged else "")
    return table
