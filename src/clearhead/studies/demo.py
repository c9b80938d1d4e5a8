"""Demo: three tiny models translate dates and show the encoder-decoder bottleneck."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.pipeline import Pipeline, load
from clearhead.studies.dates import MAX_DATES, DatePair, pairs, split, write_pairs
from clearhead.studies.training import OnProgress, no_progress, scratch_settings, train_recipe
from clearhead.train import Recipe, make_recipe
from clearhead.viz import Curve, Heatmap, Panel, draw_curves, draw_heatmaps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODELS: dict[str, dict[str, Any]] = {
    "GRU, no attention": {"kind": "gru", "width": 64, "hidden_size": 128, "attention": "none"},
    "GRU, additive attention": {"kind": "gru", "width": 64, "hidden_size": 96, "attention": "additive"},
    "Transformer": {"kind": "transformer", "width": 96, "num_layers": 2, "num_heads": 4, "ffn_dim": 192},
}
FOLDERS = {"GRU, no attention": "gru_plain", "GRU, additive attention": "gru", "Transformer": "transformer"}
ALIGNED = {"Transformer": "Transformer, mean of all heads and layers"}
COLUMNS = {"source": "source", "target": "target"}
MAX_ANSWER_TOKENS = 6 * MAX_DATES + 2  # enough for every date, and a limit where a model does not stop
STEPS_PER_SECOND = 700 / 150  # of each model, on two idle cores


@dataclass(frozen=True)
class DemoAlignment:
    """Attention from output to input tokens, averaged over all heads and layers."""

    written: tuple[str, ...]
    read: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]  # (T, S)


@dataclass(frozen=True)
class DateModelRun:
    """Results of one model."""

    label: str
    parameters: int
    steps: int
    seconds: float  # of training
    accuracy: float  # exactly correct answers
    by_length: dict[int, float]  # accuracy by the number of dates in the source
    answer: str  # for the example
    alignment: DemoAlignment | None  # of the example; None without attention


@dataclass(frozen=True)
class DemoResult:
    """Results of the demo."""

    example: str
    right: str
    learners: tuple[DateModelRun, ...]
    tested: int  # test pairs, with days that are not in the training data


def recipes(steps: int, seed: int) -> dict[str, Recipe]:
    """Return one recipe per model; they differ in the model only."""
    train = scratch_settings(steps, 2048, {"lr": 4e-3}, {"kind": "linear", "final": 0.02}, dtype="float32")
    return {
        label: make_recipe(
            {
                "task": "translate",
                "seed": seed,
                "data": {name: {"file": f"{name}.tsv", **COLUMNS} for name in ("train", "valid")},
                "tokenizer": {"kind": "wordpiece", "vocab_size": 500},
                "model": {**model, "dropout": 0.0},
                "train": train,
            }
        )
        for label, model in MODELS.items()
    }


def measure(
    folder: Path,
    *,
    seconds: float = 150.0,
    seed: int = 1,
    examples: int = 25_000,
    tested: int = 500,
    on_progress: OnProgress = no_progress,
) -> DemoResult:
    """Train the three models in `folder` and test them on unseen days.

    `seconds` sets the number of steps, by the speed of two idle cores, and is not a time limit: the result depends on
    the seed alone.
    """
    days = split(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", examples), ("valid", 200)):
        write_pairs(pairs(days[part], count, seed), folder / f"{part}.tsv")
    test = pairs(days["test"], tested, seed)
    example = next(p for p in test if p.num_dates == 3)
    runs: list[DateModelRun] = []
    for label, recipe in recipes(max(1, round(seconds * STEPS_PER_SECOND)), seed).items():
        _, progress = train_recipe(label, recipe, folder, folder / FOLDERS[label], on_progress)
        pipeline = load(folder / FOLDERS[label] / "model")
        runs.append(_evaluate(label, pipeline, test, example, progress.step, progress.seconds))
    return DemoResult(example.source, example.target, tuple(runs), len(test))


def _evaluate(
    label: str, pipeline: Pipeline, test: Sequence[DatePair], example: DatePair, steps: int, seconds: float
) -> DateModelRun:
    answers = [plain(t.text) for t in pipeline.translate([p.source for p in test], beam=1, max_len=MAX_ANSWER_TOKENS)]
    correct = [answer == p.target for answer, p in zip(answers, test, strict=True)]
    lengths = {
        n: [ok for ok, p in zip(correct, test, strict=True) if p.num_dates == n] for n in range(1, MAX_DATES + 1)
    }
    align = MODELS[label].get("attention") != "none"
    translated = pipeline.translate(example.source, beam=1, max_len=MAX_ANSWER_TOKENS, align=align)
    alignment = None
    if translated.alignment is not None:
        weights = tuple(tuple(round(w, 4) for w in row) for row in translated.alignment.tolist())
        alignment = DemoAlignment(translated.tokens, translated.source, weights)
    return DateModelRun(
        label=label,
        parameters=sum(p.numel() for p in pipeline.model.parameters()),
        steps=steps,
        seconds=round(seconds, 1),
        accuracy=sum(correct) / len(correct),
        by_length={n: sum(oks) / len(oks) for n, oks in lengths.items() if oks},
        answer=plain(translated.text),
        alignment=alignment,
    )


def plain(answer: str) -> str:
    """Remove the spaces around hyphens: WordPiece makes hyphens separate words."""
    return answer.replace(" - ", "-")


def draw(outcome: DemoResult) -> dict[str, Figure]:
    """Plot accuracy against the number of dates, and the alignments of the example."""
    curves = [
        Curve(x.label, list(x.by_length), [100 * share for share in x.by_length.values()]) for x in outcome.learners
    ]
    ticks = [(n, str(n)) for n in outcome.learners[0].by_length]
    panel = Panel(curves, "dates in the source", "exactly correct answers (%)", y_range=(0, 100), ticks=ticks)
    maps = [
        Heatmap(ALIGNED.get(x.label, x.label), x.alignment.weights, x.alignment.written, x.alignment.read)
        for x in outcome.learners
        if x.alignment is not None
    ]
    return {
        "accuracy": draw_curves([panel], "Date translation: accuracy by number of dates", width=6.8),
        "alignments": draw_heatmaps(maps, "Date translation: attention from output to input tokens"),
    }
