"""The demo: three tiny translators learn to read dates, and the bottleneck between encoder and decoder shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.app import App, load
from clearhead.see import Curve, Map, Panel, draw_curves, draw_maps
from clearhead.studies.dates import LONGEST, Pair, pairs, split, write_pairs
from clearhead.studies.trained import Heard, trained, unheard
from clearhead.train import Recipe, make_recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODELS: dict[str, dict[str, Any]] = {
    "GRU, no attention": {"kind": "gru", "width": 64, "hidden": 128, "attention": "none"},
    "GRU, additive attention": {"kind": "gru", "width": 64, "hidden": 96, "attention": "additive"},
    "Transformer": {"kind": "transformer", "width": 96, "num_layers": 2, "num_heads": 4, "hidden": 192},
}
FOLDERS = {"GRU, no attention": "gru_plain", "GRU, additive attention": "gru", "Transformer": "transformer"}
ALIGNED = {"Transformer": "Transformer, mean of all heads and layers"}
RATES = {"gru": 4e-3, "transformer": 4e-3}
COLUMNS = {"source": "source", "target": "target"}
ANSWER = 6 * LONGEST + 2  # tokens: enough for every date, and for a model that does not find the end
STEPS_A_SECOND = 700 / 150  # of each of the three, on two quiet cores


@dataclass(frozen=True)
class Alignment:
    """What each token written attended to: the mean of all heads of all layers."""

    written: tuple[str, ...]
    read: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]  # (T, S)


@dataclass(frozen=True)
class Learner:
    """What one of the models came to."""

    label: str
    parameters: int
    steps: int
    seconds: float  # of training
    accuracy: float  # answers that are right to the last character
    by_length: dict[int, float]  # the same by the number of dates in a source
    answer: str  # to the example
    alignment: Alignment | None  # of that answer; None without attention


@dataclass(frozen=True)
class Outcome:
    """What came of the demo."""

    example: str
    right: str
    learners: tuple[Learner, ...]
    tested: int  # pairs, of days that nobody has trained on


def recipes(steps: int, seed: int) -> dict[str, Recipe]:
    """The three, alike in everything but the model and its learning rate."""

    def recipe(model: Mapping[str, Any]) -> Recipe:
        return make_recipe(
            {
                "task": "translate",
                "seed": seed,
                "data": {name: {"file": f"{name}.tsv", **COLUMNS} for name in ("train", "valid")},
                "tokenizer": {"kind": "wordpiece", "vocab_size": 500},
                "model": {**model, "dropout": 0.0},
                "train": {
                    "steps": steps,
                    "batch_tokens": 2048,
                    "dtype": "float32",
                    "optimiser": {"lr": RATES[model["kind"]]},
                    "schedule": {"kind": "linear", "warmup": max(1, steps // 10), "final": 0.02},
                    "evaluate_every": steps,
                    "save_every": steps,
                    "keep": 1,
                },
            }
        )

    return {label: recipe(model) for label, model in MODELS.items()}


def measure(
    folder: Path,
    *,
    seconds: float = 150.0,
    seed: int = 1,
    examples: int = 25_000,
    tested: int = 500,
    heard: Heard = unheard,
) -> Outcome:
    """Train the three in `folder` and try them on days they have not seen.

    `seconds` says how many steps are taken, by what two quiet cores do, and not when to stop: the outcome follows from
    the seed, however busy the machine.
    """
    days = split(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", examples), ("valid", 200)):
        write_pairs(pairs(days[part], count, seed), folder / f"{part}.tsv")
    test = pairs(days["test"], tested, seed)
    example = next(p for p in test if p.num_dates == 3)
    learners: list[Learner] = []
    for label, recipe in recipes(max(1, round(seconds * STEPS_A_SECOND)), seed).items():
        _, progress = trained(label, recipe, folder, folder / FOLDERS[label], heard)
        app = load(folder / FOLDERS[label] / "model")
        learners.append(_tried(label, app, test, example, progress.step, progress.seconds))
    return Outcome(example.source, example.target, tuple(learners), len(test))


def _tried(label: str, app: App, test: Sequence[Pair], example: Pair, steps: int, seconds: float) -> Learner:
    answers = [plain(t.text) for t in app.translate([p.source for p in test], beam=1, max_len=ANSWER)]
    right = [answer == p.target for answer, p in zip(answers, test, strict=True)]
    lengths = {n: [ok for ok, p in zip(right, test, strict=True) if p.num_dates == n] for n in range(1, LONGEST + 1)}
    shown = app.translate(example.source, beam=1, max_len=ANSWER, align=MODELS[label].get("attention") != "none")
    alignment = None
    if shown.alignment is not None:
        weights = tuple(tuple(round(w, 4) for w in row) for row in shown.alignment.tolist())
        alignment = Alignment(shown.tokens, shown.source, weights)
    return Learner(
        label=label,
        parameters=sum(p.numel() for p in app.model.parameters()),
        steps=steps,
        seconds=round(seconds, 1),
        accuracy=sum(right) / len(right),
        by_length={n: sum(found) / len(found) for n, found in lengths.items() if found},
        answer=plain(shown.text),
        alignment=alignment,
    )


def plain(answer: str) -> str:
    """An answer as ISO 8601 writes it: WordPiece has strokes for words of their own."""
    return answer.replace(" - ", "-")


def draw(outcome: Outcome) -> dict[str, Figure]:
    """The two pictures: accuracy against length, and the alignments of the example."""
    curves = [
        Curve(x.label, list(x.by_length), [100 * share for share in x.by_length.values()]) for x in outcome.learners
    ]
    panel = Panel(
        curves,
        "dates in one source",
        "answers without a fault (%)",
        y_range=(0, 100),
        ticks=[(n, str(n)) for n in outcome.learners[0].by_length],
    )
    maps = [
        Map(ALIGNED.get(x.label, x.label), x.alignment.weights, x.alignment.written, x.alignment.read)
        for x in outcome.learners
        if x.alignment is not None
    ]
    return {
        "accuracy": draw_curves([panel], "Reading dates: accuracy against length", width=6.8),
        "alignments": draw_maps(maps, "Reading dates: what is read for each token written"),
    }
