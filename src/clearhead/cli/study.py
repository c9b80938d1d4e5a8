"""`clearhead study`: the claims of the lectures, measured."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from clearhead.cli.demo import command
from clearhead.cli.faults import told
from clearhead.tasks import unknown

if TYPE_CHECKING:
    from clearhead.studies.bank import Bank
    from clearhead.studies.bottleneck import Bottleneck
    from clearhead.studies.domain import Domain
    from clearhead.studies.gradient import Gradient
    from clearhead.studies.labels import Labels
    from clearhead.studies.language_models import Comparison
    from clearhead.studies.order import Order
    from clearhead.studies.scaling import Scaling
    from clearhead.studies.trained import Heard

TEST = "multi30k:test_2016_flickr"
TAKES = {
    "bottleneck": ("--model", "--test", "--languages"), "gradient": ("--text",), "language_models": ("--text",),
    "labels": ("--text", "--model"), "bank": ("--model",), "order": ("--model",), "scaling": ("--text",),
    "domain": ("--model",),
}  # fmt: skip


@told
def study(
    name: Annotated[str | None, typer.Argument(help="The study; without one, all are listed.")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="bottleneck: a translator, LABEL=FOLDER; may be repeated. Others: an encoder's folder."),
    ] = None,
    test: Annotated[
        str | None, typer.Option(help=f"bottleneck: the test set, NAME.en(.gz); {TEST} by default.")
    ] = None,
    languages: Annotated[str | None, typer.Option(help="bottleneck: from which to which; en-de by default.")] = None,
    text: Annotated[Path | None, typer.Option(help="A text file in the place of the study's own.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where models, results and pictures go; study-NAME by default.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the models.")] = 1,
    quick: Annotated[bool, typer.Option(help="Tiny sizes: to see that it runs, not what it shows.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The results as JSON on stdout.")] = False,
) -> None:
    """List the studies, or run one: models are trained, the claim is measured, results are written and drawn.

    OUT/NAME.json has what was measured and how, OUT/NAME.svg and .png the picture. Models are kept in OUT: stopped and
    run again, a study goes on where it was.

    Example: clearhead study gradient --quick
    """
    from clearhead.cli.watch import watched
    from clearhead.see import save
    from clearhead.see.paper import can_draw
    from clearhead.studies import STUDIES
    from clearhead.studies.record import record, write_record

    if name is None:
        titles = {study: str(module.__doc__).strip().splitlines()[0] for study, module in STUDIES.items()}
        return typer.echo(json.dumps(titles) if as_json else "\n".join(f"{n:16} {t}" for n, t in titles.items()))
    if name not in STUDIES:
        raise ValueError(f"study {name!r}: {unknown(name, STUDIES)}")
    options = {"--model": model, "--test": test, "--languages": languages, "--text": text}
    for option, value in options.items():
        if value and option not in TAKES[name]:
            raise ValueError(f"{option} is not for {name}: it takes {', '.join(TAKES[name])}")
    folder = out or Path(f"study-{name}")
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    with watched() as heard:
        if name == "bottleneck":
            measured: Any = _bottleneck(model or [], test or TEST, languages or "en-de", folder, seed, quick, heard)
        elif name in PRETRAINING:
            measured = PRETRAINING[name](model or [], text, folder, seed, quick, heard)
        else:
            measured = _language(name, text, folder, seed, quick, heard)
    facts = record(measured, command=command(), seed=seed, seconds=time.perf_counter() - begin)
    write_record(facts, folder / f"{name}.json")
    pictures = save(STUDIES[name].draw(measured), folder / name) if can_draw() else []
    if as_json:
        return typer.echo(json.dumps(facts))
    SHOW[name](Console(highlight=False), measured)
    written = ", ".join(map(str, [folder / f"{name}.json", *pictures]))
    missing = "" if pictures else "; no pictures: they need matplotlib, pip install 'clearhead[see]'"
    return typer.echo(f"written: {written}{missing}")


def _bottleneck(
    models: list[str], test: str, languages: str, folder: Path, seed: int, quick: bool, heard: Heard
) -> Bottleneck:
    from clearhead.data import read_rows
    from clearhead.data.sets import locate
    from clearhead.studies import bottleneck

    if quick:
        return bottleneck.quick(folder / "dates", seed=seed, heard=heard)
    folders: dict[str, Path] = {}
    for words in models:
        label, equals, where = words.partition("=")
        if not (label and equals and where):
            raise ValueError(f"--model {words}: write it as LABEL=FOLDER, for instance 'GRU, no attention=runs/gru'")
        folders[label] = Path(where)
    if not folders:
        raise ValueError("no translator to study: give --model LABEL=FOLDER, or --quick for tiny ones")
    sides = languages.split("-")
    if len(sides) != 2:
        raise ValueError(f"--languages {languages}: from which to which, as en-de")
    found: list[Path] = []
    for side in sides:
        plain = Path(f"{test}.{side}")
        found.append(plain if plain.is_file() else locate(f"{test}.{side}.gz", Path()))
    rows = list(read_rows(dict(zip(("source", "target"), found, strict=True))))
    return bottleneck.measure(
        folders, [r.values["source"] for r in rows], [r.values["target"] for r in rows], heard=heard
    )


def _language(
    name: str, text: Path | None, folder: Path, seed: int, quick: bool, heard: Heard
) -> Gradient | Comparison:
    from clearhead.studies import Corpus, gradient, language_models

    corpus = Corpus.of(text)
    if name == "gradient":
        sizes: dict[str, Any] = {"steps": 3, "width": 16, "reach": 24, "sequences": 4} if quick else {}
        return gradient.measure(corpus, folder, seed=seed, heard=heard, **sizes)
    sizes = {"steps": 12, "models": language_models.SMALL, "vocab_size": 300, "batch_tokens": 512} if quick else {}
    return language_models.measure(corpus, folder, seed=seed, heard=heard, **sizes)


def _labels(models: list[str], text: Path | None, folder: Path, seed: int, quick: bool, heard: Heard) -> Labels:
    from clearhead.studies import glue, labels

    files, base = _text(text, labels.TEXT)
    steps = 0 if models else 4 if quick else 2500
    sizes: dict[str, Any] = {"size": "tiny", "vocab_size": 500, "batch_tokens": 512} if quick else {}
    if models:
        own = Path(models[0])
    else:
        own = labels.pretrained(
            folder / "pretrained", steps=steps, text=files, base=base, seed=seed, heard=heard, **sizes
        )
    blank = labels.forgotten(own, folder / "untrained", seed)
    starts = {"untrained": str(blank.absolute()), "pre-trained here": str(own.absolute())}
    if quick:
        rows = [((f"this is {kind} number {n}",), kind) for n in range(60) for kind in ("good", "bad")]
        return labels.measure(
            folder / "runs", rows, rows[:40], starts, data="made up", sizes=(10, 40), seeds=2, least=2, heard=heard
        )
    rows, test = (glue.rows_of(glue.SST2, part) for part in ("train", "dev"))
    starts["MiniLM"] = labels.MINILM
    return labels.measure(
        folder / "runs", rows, test, starts, data="sentiment (SST-2)", pretraining_steps=steps, heard=heard
    )


def _bank(models: list[str], text: Path | None, folder: Path, seed: int, quick: bool, heard: Heard) -> Bank:
    from clearhead.app import load
    from clearhead.studies import bank
    from clearhead.train.start import folder_of

    app = load(folder_of(_start(models), Path()))
    return bank.measure(app.model, app.tokenizer, Path(models[0]).name if models else "MiniLM")


def _order(models: list[str], text: Path | None, folder: Path, seed: int, quick: bool, heard: Heard) -> Order:
    from clearhead.studies import order

    start = _start(models)
    if quick:
        rows = [
            ((f"the dog bit the man {n}",), "a") if n % 2 else ((f"the man bit the dog {n}",), "b") for n in range(64)
        ]
        return order.measure(
            folder / "runs", {"who bit whom": (rows, rows[:20])}, [text for (text,), _ in rows], start=start,
            grams=(1, 0), seeds=2, epochs=1, tokens=5000, heard=heard,
        )  # fmt: skip
    return order.measure(folder / "runs", order.glue(), order.squad(), start=start, heard=heard)


def _scaling(models: list[str], text: Path | None, folder: Path, seed: int, quick: bool, heard: Heard) -> Scaling:
    from clearhead.studies import scaling

    files, base = _text(text, scaling.TEXT)
    sizes: dict[str, Any] = {}
    if quick:
        sizes = {
            "widths": (16, 32),
            "tokens": (2000, 4000, 8000),
            "vocab_size": 300,
            "batch_tokens": 512,
            "hold_out": 20,
        }
    return scaling.measure(folder / "runs", text=files, base=base, seed=seed, heard=heard, **sizes)


def _domain(models: list[str], text: Path | None, folder: Path, seed: int, quick: bool, heard: Heard) -> Domain:
    from clearhead.studies import domain

    start = _start(models)
    if quick:
        told = [
            {"question": f"who was there in {n}?", "context": f"It is said that in {n} Ann {n} was there, alone.",
             "answers": [{"text": f"Ann {n}", "start": len(f"It is said that in {n} ")}]}
            for n in range(1900, 1940)
        ]  # fmt: skip
        sizes: dict[str, Any] = {
            "seeds": 2, "reading": 4, "batch_tokens": 256, "answering": 2, "max_len": 64, "window": 64,
        }  # fmt: skip
        return domain.measure(
            folder / "runs", told[:30], told[30:], data="made up", start=start, seed=seed, heard=heard, **sizes
        )
    questions, others = domain.covid_qa()
    return domain.measure(folder / "runs", questions, others, data="COVID-QA", start=start, seed=seed, heard=heard)


def _start(models: list[str]) -> str:
    """The encoder that a study begins with: the one it was given, or MiniLM."""
    from clearhead.studies import labels

    return str(Path(models[0]).absolute()) if models else labels.MINILM


def _text(text: Path | None, usual: tuple[str, ...]) -> tuple[tuple[str, ...], Path]:
    """The text of a study: its own, or a file."""
    return (usual, Path()) if text is None else ((text.name,), text.resolve().parent)


PRETRAINING: dict[str, Any] = {
    "labels": _labels,
    "bank": _bank,
    "order": _order,
    "scaling": _scaling,
    "domain": _domain,
}


def show_labels(console: Console, measured: Labels) -> None:
    """Print accuracy by labels for a person."""
    table = _table("labels:", *(f"{size:,}" for size in measured.sizes))
    for one in measured.learners:
        table.add_row(f"{one.label}, {one.parameters / 1e6:.1f} M", *(score.short for score in one.reached))
    console.print(table)


def show_bank(console: Console, measured: Bank) -> None:
    """Print the layers for a person."""
    table = _table("layer", "nearest of the same sense", "95 %")
    for d in measured.depths:
        table.add_row(str(d.layer), f"{d.share:.1f} %", f"{d.low:.1f}-{d.high:.1f}")
    console.print(table)


def show_order(console: Console, measured: Order) -> None:
    """Print scores by n for a person."""
    table = _table("macro F1, %", *(f"n = {n}" if n else "whole" for n in measured.grams))
    table.add_row("loss of next word", *(f"{loss.mean:.2f}±{loss.half:.2f}" for loss in measured.losses))
    for one in measured.tasks:
        table.add_row(one.task, *(score.short for score in one.scores))
    console.print(table)


def show_scaling(console: Console, measured: Scaling) -> None:
    """Print the runs and the law for a person."""
    table = _table("parameters", "tokens", "compute", "loss", "by the law", "95 %")
    for p, law in zip(measured.points, measured.by_law, strict=True):
        facts = f"{p.parameters:,}", f"{p.tokens:,}", f"{p.compute:.2e}", f"{p.loss:.3f}"
        table.add_row(*facts, f"{law.value:.3f}", f"{law.low:.3f}-{law.high:.3f}")
    console.print(table)
    for name in ("E", "A", "a", "B", "b"):
        value = getattr(measured.law, name)
        console.print(f"{name} = {value.value:.4g}  (95 %: {value.low:.4g} to {value.high:.4g})")


def show_domain(console: Console, measured: Domain) -> None:
    """Print what reading gave for a person."""
    table = _table("encoder", "loss of hidden words", "guessed", "F1", "exact")
    for words, answers in zip(measured.words, measured.answers, strict=True):
        loss, share = f"{words.losses[-1]:.3f}", f"{words.accuracy:.1f} %"
        table.add_row(words.label, loss, share, str(answers.f1), str(answers.exact))
    console.print(table)
    console.print(f"F1 that reading gave, seed by seed: {measured.gained}")


def show_bottleneck(console: Console, measured: Bottleneck) -> None:
    """Print BLEU by length for a person."""
    table = _table("model", "parameters", "BLEU", "chrF")
    for b in measured.translators[0].buckets:
        table.add_column(f"{b.shortest}-{b.longest} words", justify="right")
    for t in measured.translators:
        parts = (f"{b.bleu:.1f} ({b.low:.1f}-{b.high:.1f})" for b in t.buckets)
        table.add_row(t.label, f"{t.parameters:,}", f"{t.bleu:.1f}", f"{t.chrf:.1f}", *parts)
    console.print(table)


def show_gradient(console: Console, measured: Gradient) -> None:
    """Print what is left of the gradient for a person."""
    far = sorted({1, 10, measured.reach // 2, measured.reach})
    table = _table("model", "parameters", "loss", "weights", *(f"k = {k}" for k in far))
    for flow in measured.flows:
        first, last = ([f"{values[k]:.1e}" for k in far] for values in (flow.initial, flow.trained))
        table.add_row(flow.label, f"{flow.parameters:,}", "", "untrained", *first)
        table.add_row("", "", f"{flow.valid_loss:.3f}", "trained", *last)
    console.print(table)


def show_language_models(console: Console, measured: Comparison) -> None:
    """Print the two models and their samples for a person."""
    table = _table("model", "parameters", "seconds", "tokens/s", "validation loss")
    for s in measured.speakers:
        last = f"{s.points[-1].loss:.3f}"
        table.add_row(s.label, f"{s.parameters:,}", f"{s.seconds:.0f}", f"{s.tokens_per_second:,.0f}", last)
    console.print(table)
    for s in measured.speakers:
        console.print(f"\n[bold]{s.label}[/bold] goes on from {measured.prompt!r}:")
        console.print(s.sample, markup=False)


SHOW: dict[str, Any] = {
    "bottleneck": show_bottleneck,
    "gradient": show_gradient,
    "language_models": show_language_models,
    "labels": show_labels,
    "bank": show_bank,
    "order": show_order,
    "scaling": show_scaling,
    "domain": show_domain,
}


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first, no_wrap=True)
    for title in others:
        table.add_column(title, justify="right")
    return table
