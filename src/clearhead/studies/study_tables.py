"""Results of studies as tables for the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from clearhead.studies.adapted_attention import AdaptedResult
    from clearhead.studies.bias_mitigation import MitigationResult
    from clearhead.studies.bottleneck import BottleneckResult
    from clearhead.studies.domain_pretraining import DomainResult
    from clearhead.studies.efficient_attention import EfficientResult
    from clearhead.studies.gradient import GradientResult
    from clearhead.studies.labels_needed import LabelsResult
    from clearhead.studies.language_models import LanguageModelsResult
    from clearhead.studies.long_recall import RecallResult
    from clearhead.studies.scaling import ScalingResult
    from clearhead.studies.word_order import WordOrderResult
    from clearhead.studies.word_senses import WordSenses


def show_labels(console: Console, measured: LabelsResult) -> None:
    table = _table("labels", *(f"{size:,}" for size in measured.sizes))
    for one in measured.learners:
        table.add_row(f"{one.label}, {one.parameters / 1e6:.1f} M", *(score.short for score in one.reached))
    console.print(table)


def show_word_senses(console: Console, measured: WordSenses) -> None:
    table = _table("layer", "nearest neighbor has the same sense", "95 % CI")
    for d in measured.depths:
        table.add_row(str(d.layer), f"{d.share:.1f} %", f"{d.low:.1f}-{d.high:.1f}")
    console.print(table)


def show_word_order(console: Console, measured: WordOrderResult) -> None:
    table = _table("macro F1, %", *(f"n = {n}" if n else "original order" for n in measured.grams))
    table.add_row("next-word loss", *(f"{loss.mean:.2f}±{loss.half:.2f}" for loss in measured.losses))
    for one in measured.tasks:
        table.add_row(one.task, *(score.short for score in one.scores))
    console.print(table)


def show_scaling(console: Console, measured: ScalingResult) -> None:
    table = _table("parameters", "tokens", "compute", "loss", "fitted", "95 % CI")
    for p, law in zip(measured.points, measured.by_law, strict=True):
        values = f"{p.parameters:,}", f"{p.tokens:,}", f"{p.compute:.2e}", f"{p.loss:.3f}"
        table.add_row(*values, f"{law.value:.3f}", f"{law.low:.3f}-{law.high:.3f}")
    console.print(table)
    for name in ("E", "A", "a", "B", "b"):
        value = getattr(measured.law, name)
        console.print(f"{name} = {value.value:.4g}  (95 % CI {value.low:.4g} to {value.high:.4g})")


def show_domain(console: Console, measured: DomainResult) -> None:
    table = _table("encoder", "masked LM loss", "accuracy", "F1", "exact match")
    for words, answers in zip(measured.words, measured.answers, strict=True):
        loss, accuracy = f"{words.losses[-1]:.3f}", f"{words.accuracy:.1f} %"
        table.add_row(words.label, loss, accuracy, str(answers.f1), str(answers.exact))
    console.print(table)
    console.print(f"F1 gained by further pretraining, paired by seed: {measured.gained}")


def show_efficient(console: Console, measured: EfficientResult) -> None:
    table = _table("method", "output error", "weight error", "missed", "all layers", "tokens", "seconds", "MB", "slope")
    for m in measured.methods:
        errors = (f"{x:.3f}" for x in (m.mean_output_error, m.mean_weight_error, m.mean_missed, m.all_layers))
        memory = "" if m.megabytes is None else f"{m.megabytes:,.0f}"
        table.add_row(m.method, *errors, f"{m.lengths[-1]:,}", f"{m.seconds[-1]:.3f}", memory, f"{m.slope:.2f}")
    console.print(table)


def show_adapted(console: Console, measured: AdaptedResult) -> None:
    metric = measured.metric
    columns = f"{metric} before", f"{metric} after", "error before", "error after", "step, s", "step, MB", "run, s"
    table = _table("method", *columns)
    for m in measured.methods:
        numbers = f"{m.before:.2f}", f"{m.after:.2f}", f"{m.error_before:.3f}", f"{m.error_after:.3f}"
        memory = "" if m.step_mb is None else f"{m.step_mb:,.0f}"
        table.add_row(m.method, *numbers, f"{m.step_seconds:.2f}", memory, f"{m.seconds:.0f}")
    console.print(table)
    console.print(f"{measured.steps:,} steps; a query reads about {measured.keys} of {measured.tokens} keys")


def show_bottleneck(console: Console, measured: BottleneckResult) -> None:
    table = _table("model", "parameters", "BLEU", "chrF")
    for b in measured.translators[0].buckets:
        table.add_column(f"{b.shortest}-{b.longest} words", justify="right")
    for t in measured.translators:
        parts = (f"{b.bleu:.1f} ({b.low:.1f}-{b.high:.1f})" for b in t.buckets)
        table.add_row(t.label, f"{t.parameters:,}", f"{t.bleu:.1f}", f"{t.chrf:.1f}", *parts)
    console.print(table)


def show_gradient(console: Console, measured: GradientResult) -> None:
    distances = sorted({1, 10, measured.reach // 2, measured.reach})
    table = _table("model", "parameters", "loss", "weights", *(f"k = {k}" for k in distances))
    for flow in measured.flows:
        first, last = ([f"{values[k]:.1e}" for k in distances] for values in (flow.initial, flow.trained))
        table.add_row(flow.label, f"{flow.parameters:,}", "", "untrained", *first)
        table.add_row("", "", f"{flow.valid_loss:.3f}", "trained", *last)
    console.print(table)


def show_language_models(console: Console, measured: LanguageModelsResult) -> None:
    table = _table("model", "parameters", "seconds", "tokens/s", "validation loss")
    for s in measured.speakers:
        last = f"{s.points[-1].loss:.3f}"
        table.add_row(s.label, f"{s.parameters:,}", f"{s.seconds:.0f}", f"{s.tokens_per_second:,.0f}", last)
    console.print(table)
    for s in measured.speakers:
        console.print(f"\n[bold]{s.label}[/bold] continues {measured.prompt!r}:")
        console.print(s.sample, markup=False)


def _table(first: str, *others: str) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first, no_wrap=True)
    for title in others:
        table.add_column(title, justify="right")
    return table


def show_recall(console: Console, measured: RecallResult) -> None:
    for kind in ("needle", "induction"):
        table = _table(f"{kind}, % right", "parameters", *(f"{length:,}" for length in measured.lengths))
        for run in measured.runs:
            found = (f"{p.accuracy:.0f}" for p in run.points if p.kind == kind)
            table.add_row(run.method, f"{run.parameters:,}", *found)
        console.print(table)
        console.print()
    table = _table("seconds a text", "training", *(f"{length:,}" for length in measured.lengths))
    for run in measured.runs:
        table.add_row(run.method, f"{run.seconds:.0f}", *(f"{s:.3f}" for s in run.text_seconds))
    console.print(table)


def show_mitigation(console: Console, measured: MitigationResult) -> None:
    table = _table("training", "rows", "accuracy", "cost", "shift", "flips")
    for t in measured.treatments:
        table.add_row(t.training, t.rows, t.accuracy.short, t.cost.short, t.shift.short, t.flips.short)
    console.print(table)
    console.print(f"{measured.audited:,} sentences about a woman and about a man; {measured.seeds} seeds")
    console.print("cost: points of accuracy as is minus this accuracy, paired by seed")
    console.print("shift: of the probability of positive in points, women minus men")
    console.print("flips: percent of the sentences whose label changes with the gender")


SHOW: dict[str, Callable[[Console, Any], None]] = {  # by the name of the study
    "bottleneck": show_bottleneck,
    "gradient": show_gradient,
    "language_models": show_language_models,
    "labels": show_labels,
    "word_senses": show_word_senses,
    "word_order": show_word_order,
    "scaling": show_scaling,
    "domain_pretraining": show_domain,
    "efficient": show_efficient,
    "adapted": show_adapted,
    "recall": show_recall,
    "augmentation": show_mitigation,
}
