"""Evaluation plots: confusion matrix, scores per label, calibration, correlation, recall and score histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.metrics.evaluation import Evaluation, Ranking, calibration, calibration_error
from clearhead.viz.style import COLORS, MUTED, TEXT, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_LABELS = 30  # labels that stay readable in one figure


def draw_confusion(evaluation: Evaluation, title: str) -> Figure:
    """Draw the confusion matrix: cells show counts, shades the share of the row."""
    if evaluation.confusion is None:
        raise ValueError("this evaluation has no confusion matrix: it needs exactly one label per row")
    names = [label.name for label in evaluation.labels]
    counts = evaluation.confusion
    if len(names) > MAX_LABELS:
        raise ValueError(f"{len(names)} labels are too many for a confusion matrix: at most {MAX_LABELS} are readable")
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    side = 2.2 + 0.42 * len(names)
    with new_figure(side + 1.2, side, title) as figure:
        axes = figure.add_subplot()
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(len(names)), names, rotation=60, ha="left", rotation_mode="anchor")
        axes.set_yticks(range(len(names)), names)
        axes.xaxis.tick_top()
        axes.set_ylabel("expected")
        axes.set_title("predicted", loc="center")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        for i, j in zip(*np.nonzero(counts), strict=True):
            color = "white" if shares[i, j] > 0.55 else TEXT
            axes.text(j, i, f"{counts[i, j]:,}", ha="center", va="center", color=color, fontsize=8)
    return figure


def draw_labels(evaluation: Evaluation, title: str) -> Figure:
    """Draw F1 as a bar per label, with marks for precision and recall; the most frequent labels come first."""
    labels = sorted(evaluation.labels, key=lambda label: -label.count)[:MAX_LABELS]
    with new_figure(6.4, 1.4 + 0.3 * len(labels), title) as figure:
        axes = figure.add_subplot()
        positions = range(len(labels))[::-1]
        axes.barh(positions, [label.f1 for label in labels], color=COLORS[0], height=0.62, label="F1")
        for marker, name, color in (("<", "precision", COLORS[1]), (">", "recall", COLORS[2])):
            values = [getattr(label, name) for label in labels]
            axes.plot(values, positions, marker, color=color, markersize=6, label=name)
        axes.set_yticks(positions, [f"{label.name}  ({label.count:,})" for label in labels])
        axes.set_xlim(0, 104)
        axes.tick_params(axis="y", length=0)
        axes.legend(frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1, 1))
    return figure


def draw_calibration(evaluation: Evaluation, title: str) -> Figure:
    """Draw the reliability diagram: accuracy against confidence; on the diagonal, scores are probabilities."""
    if evaluation.confidence is None:
        raise ValueError("these predictions have no confidence scores: calibration needs a score per prediction")
    bins = calibration(*evaluation.confidence)
    low = max(0.0, min(min(confidence, accuracy) for confidence, accuracy, _ in bins) - 0.05)
    with new_figure(5.2, 4.6, title) as figure:
        axes = figure.add_subplot()
        axes.plot([low, 1], [low, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.plot([b[0] for b in bins], [b[1] for b in bins], "o-", color=COLORS[0])
        axes.set_xlim(low, 1.01)
        axes.set_ylim(low, 1.01)
        axes.grid()
        axes.set_axisbelow(True)
        axes.set_xlabel("confidence")
        axes.set_ylabel("accuracy")
        error = calibration_error(*evaluation.confidence)
        axes.set_title(f"expected calibration error: {error:.1f} %", fontsize=10, color=MUTED)
    return figure


def draw_correlation(evaluation: Evaluation, title: str) -> Figure:
    """Draw the predicted against the expected numbers, a point for each row."""
    if evaluation.numbers is None:
        raise ValueError("this evaluation has no numbers: it needs an expected number per row")
    expected, predicted = evaluation.numbers
    with new_figure(5.2, 4.6, title) as figure:
        axes = figure.add_subplot()
        axes.plot(expected, predicted, "o", color=COLORS[0], markersize=3, alpha=0.35, markeredgewidth=0)
        axes.set_xlabel("expected")
        axes.set_ylabel("predicted")
        axes.grid()
        axes.set_axisbelow(True)
        spearman = evaluation.scores()["spearman"]
        axes.set_title(f"Spearman correlation: {spearman:.1f} %", fontsize=10, color=MUTED)
    return figure


def draw_recall(ranking: Ranking, title: str) -> Figure:
    """Draw recall by depth: how many relevant documents are among the first k."""
    depths = np.arange(1, len(ranking.recall) + 1)
    with new_figure(5.6, 4.2, title) as figure:
        axes = figure.add_subplot()
        axes.plot(depths, ranking.recall, color=COLORS[0], linewidth=1.8, drawstyle="steps-post")
        for k in (1, 5, 20, 100):
            if k <= len(depths):
                value = float(ranking.recall[k - 1])
                axes.plot(k, value, "o", color=COLORS[0])
                below = value > 12
                axes.annotate(
                    f"recall@{k} {value:.1f}", (k, value), textcoords="offset points", fontsize=9, color=TEXT,
                    xytext=(-4, -14) if below else (4, 8), ha="right" if k > 0.5 * len(depths) else "left",
                )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xticks([k for k in (1, 2, 5, 10, 20, 50, 100) if k <= len(depths)])
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(_no_ticks())
        axes.set_ylim(0, 102)
        axes.grid()
        axes.set_axisbelow(True)
        axes.set_xlabel("documents read")
        axes.set_ylabel("relevant documents found, %")
    return figure


def draw_score_histogram(ranking: Ranking, title: str) -> Figure:
    """Draw the scores of relevant pairs and of the others that rank highest: where they overlap, ranks are wrong."""
    scores = np.concatenate([ranking.relevant_scores, ranking.other_scores])
    edges = np.linspace(float(scores.min()), float(scores.max()) + 1e-9, 50)
    with new_figure(6.2, 3.8, title) as figure:
        axes = figure.add_subplot()
        sides = (("other", ranking.other_scores, COLORS[1]), ("relevant", ranking.relevant_scores, COLORS[0]))
        for name, values, color in sides:
            weights = np.full(len(values), 100.0 / max(len(values), 1))
            label = f"{name} ({len(values):,} pairs)"
            axes.hist(values, edges.tolist(), weights=weights, color=color, alpha=0.55, label=label)
        axes.set_xlabel("score")
        axes.set_ylabel("pairs, %")
        axes.legend(frameon=False)
    return figure


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def evaluation_figures(evaluation: Evaluation, title: str) -> Sequence[tuple[str, Figure]]:
    figures: list[tuple[str, Figure]] = []
    if evaluation.confusion is not None and len(evaluation.labels) <= MAX_LABELS:
        figures.append(("confusion", draw_confusion(evaluation, title)))
    if evaluation.labels:
        figures.append(("labels", draw_labels(evaluation, title)))
    if evaluation.confidence is not None:
        figures.append(("calibration", draw_calibration(evaluation, title)))
    if evaluation.numbers is not None:
        figures.append(("correlation", draw_correlation(evaluation, title)))
    if evaluation.ranking is not None and len(evaluation.ranking.recall):
        figures.append(("recall", draw_recall(evaluation.ranking, title)))
        figures.append(("scores", draw_score_histogram(evaluation.ranking, title)))
    return figures
