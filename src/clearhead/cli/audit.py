"""`clearhead audit`: what a model has learned about groups of people, measured with intervals."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import JsonOption, ModelArgument

if TYPE_CHECKING:
    from rich.table import Table

    from clearhead.audit.estimates import SuiteResult
    from clearhead.audit.head_effects import HeadEffects

MAX_ROWS, MAX_HEADS = 16, 8  # of a suite and of the heads, in the terminal


@report_errors
def audit(
    model: ModelArgument,
    suite: Annotated[
        list[str] | None, typer.Option(help="Suite to run, repeatable. Default: all that fit the model.")
    ] = None,
    texts: Annotated[
        Path | None, typer.Option(help="Of a classifier: your own texts, one per line, instead of the templates.")
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
    max_examples: Annotated[int | None, typer.Option(min=1, help="Use so many examples of a suite at most.")] = None,
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
    for all values of its suite). Writes OUT/audit.json, audit.html and figures.

    Example: clearhead audit runs/sst2/model --seed 1
    """
    from rich.console import Console

    from clearhead.audit.audit_page import audit_page
    from clearhead.audit.audit_plots import draw_audit
    from clearhead.audit.audit_record import audit_record, write_record
    from clearhead.audit.head_effects import head_effects, largest_effects
    from clearhead.audit.suites import AuditOptions, choose_suites
    from clearhead.cli.demo import command_line
    from clearhead.cli.progress import show_progress
    from clearhead.files import write_atomic
    from clearhead.pipeline import load
    from clearhead.viz.style import can_draw, save

    console = Console(highlight=False)
    pipeline = load(model)
    suites = choose_suites(pipeline.loaded, suite or ())
    judging = None if judge is None else load(judge)
    if judging is None and not suite:
        without = [one for one in suites if one.needs_judge]
        suites = [one for one in suites if not one.needs_judge]
        for one in without:
            typer.echo(f"left out: {one.name}; it needs a classifier of sentiment, --judge MODEL", err=True)
    own_texts = None if texts is None else [line for line in texts.read_text(encoding="utf-8").splitlines() if line]
    folder = _folder(model) if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    results: list[SuiteResult] = []
    heads = None
    with show_progress() as on_progress:
        for one in suites:
            on_progress(one.title, 0, 1)
            options = AuditOptions(
                seed=seed, texts=own_texts, pairs=pairs, judge=judging, judge_label=judge_label, language=language,
                max_examples=max_examples, on_progress=partial(on_progress, one.title),
            )  # fmt: skip
            results.append(one.run(pipeline, options))
            on_progress(one.title, 1, 1)
        if why:
            examples = [e for result in results if result.suite == "crows_pairs" for e in result.examples]
            if not examples:
                raise ValueError("--why ablates heads on sentence pairs: it needs the suite crows_pairs")
            show = partial(on_progress, "Heads")
            heads = head_effects(pipeline.loaded, largest_effects(examples), seed=seed, on_progress=show)
    seconds = time.perf_counter() - begin
    record = audit_record(model, pipeline.loaded, results, command=command_line(), seconds=seconds, heads=heads)
    title = f"Audit of {model}"
    written = [write_record(record, folder), folder / "audit.html"]
    write_atomic(written[1], audit_page(results, title, heads).encode())
    if can_draw():
        written += save(draw_audit(results, title), folder / "audit")
    if as_json:
        typer.echo(json.dumps(record, ensure_ascii=False))
        return
    for result in results:
        console.print(f"\n[bold]{result.title}[/bold]  {result.method}", markup=True)
        console.print(_table(result))
        for note in result.notes:
            console.print(f"  {note}", markup=False, style="dim")
    if heads is not None:
        console.print(_heads_table(heads))
    console.print(f"\n{seconds:.0f} s; written: {', '.join(map(str, written))}", markup=False)


def _folder(model: str) -> Path:
    """Return the folder of a training run, beside its model, or a new one that is named after the model."""
    path = Path(model)
    if (path.parent / "recipe.yaml").is_file():
        return path.parent
    return Path(f"audit-{path.name.rpartition(':')[2]}")


def _table(result: SuiteResult) -> Table:
    from rich.table import Table

    from clearhead.audit.audit_plots import shown_estimates

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for name in (result.unit or "value", "95 % interval", "without bias", "rows", "p"):
        table.add_column(name, justify="right")
    for e in shown_estimates(result, MAX_ROWS):
        p = "too few" if e.too_small else "" if e.p_value is None else f"{e.p_value:.3f}"
        style = "bold" if e.flagged else ""
        ideal = "" if e.ideal is None else f"{e.ideal:g}"
        name = f"{e.name} *" if e.flagged else e.name
        table.add_row(name, f"{e.value:.2f}", f"{e.low:.2f} to {e.high:.2f}", ideal, f"{e.count:,}", p, style=style)
    if len(result.estimates) > MAX_ROWS:
        table.add_row(f"and {len(result.estimates) - MAX_ROWS} more in the record")
    return table


def _heads_table(heads: HeadEffects) -> Table:
    from rich.table import Table

    title = f"Heads, on the {len(heads.pairs)} pairs with the largest effects (mean {heads.total.value:.2f})"
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title=title, title_justify="left")
    for name in ("head", "adds", "95 % interval", "p"):
        table.add_column(name, justify="left" if name == "head" else "right")
    for e in heads.heads[:MAX_HEADS]:
        p = "too few" if e.p_value is None else f"{e.p_value:.3f}"
        table.add_row(e.name, f"{e.value:+.2f}", f"{e.low:.2f} to {e.high:.2f}", p, style="bold" if e.flagged else "")
    return table
