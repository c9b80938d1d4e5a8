"""Pictures of how good answers are: which label is taken for which, how well each is told, how far scores hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from clearhead.see.paper import COLOURS, FAINT, INK, paper
from clearhead.tasks.metrics import Judged, calibration, calibration_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 30  # labels that a picture has room for


def draw_confusion(judged: Judged, title: str) -> Figure:
    """Rows of a label as shares of what they were called; the numbers are rows."""
    if judged.confusion is None:
        raise ValueError("only one label a row can be taken for another: there is nothing to confuse")
    names = [label.name for label in judged.labels]
    table = judged.confusion
    if len(names) > MOST:
        raise ValueError(f"{len(names)} labels: a picture has room for {MOST}")
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    side = 2.2 + 0.42 * len(names)
    with paper(side + 1.2, side, title) as figure:
        axes = figure.add_subplot()
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(len(names)), names, rotation=60, ha="left", rotation_mode="anchor")
        axes.set_yticks(range(len(names)), names)
        axes.xaxis.tick_top()
        axes.set_ylabel("due")
        axes.set_title("said", loc="center")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        for i, j in zip(*np.nonzero(table), strict=True):
            ink = "white" if shares[i, j] > 0.55 else INK
            axes.text(j, i, f"{table[i, j]:,}", ha="center", va="center", color=ink, fontsize=8)
    return figure


def draw_labels(judged: Judged, title: str) -> Figure:
    """F1 of each label as a bar, precision and recall as its ends, the most frequent first."""
    labels = sorted(judged.labels, key=lambda label: -label.count)[:MOST]
    with paper(6.4, 1.4 + 0.3 * len(labels), title) as figure:
        axes = figure.add_subplot()
        places = range(len(labels))[::-1]
        axes.barh(places, [label.f1 for label in labels], color=COLOURS[0], height=0.62, label="F1")
        for mark, name, colour in (("<", "precision", COLOURS[1]), (">", "recall", COLOURS[2])):
            axes.plot([getattr(x, name) for x in labels], places, mark, color=colour, markersize=6, label=name)
        axes.set_yticks(places, [f"{label.name}  ({label.count:,})" for label in labels])
        axes.set_xlim(0, 104)
        axes.tick_params(axis="y", length=0)
        axes.legend(frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1, 1))
    return figure


def draw_calibration(judged: Judged, title: str) -> Figure:
    """How often answers of a score are right: on the diagonal, a score can be read as a chance."""
    if judged.sure is None:
        raise ValueError("these answers have no score that says how sure they are")
    groups = calibration(*judged.sure)
    low = max(0.0, min(min(score, share) for score, share, _ in groups) - 0.05)
    with paper(5.2, 4.6, title) as figure:
        axes = figure.add_subplot()
        axes.plot([low, 1], [low, 1], color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
        axes.plot([g[0] for g in groups], [g[1] for g in groups], "o-", color=COLOURS[0])
        axes.set_xlim(low, 1.01)
        axes.set_ylim(low, 1.01)
        axes.grid()
        axes.set_axisbelow(True)
        axes.set_xlabel("score of what was said")
        axes.set_ylabel("share that was right")
        axes.set_title(f"{calibration_error(*judged.sure):.1f} of 100 apart, on average", fontsize=10, color=FAINT)
    return figure


def drawings(judged: Judged, title: str) -> Sequence[tuple[str, Figure]]:
    """All that can be drawn of it, by name."""
    found: list[tuple[str, Figure]] = []
    if judged.confusion is not None and len(judged.labels) <= MOST:
        found.append(("confusion", draw_confusion(judged, title)))
    if judged.labels:
        found.append(("labels", draw_labels(judged, title)))
    if judged.sure is not None:
        found.append(("calibration", draw_calibration(judged, title)))
    return found
