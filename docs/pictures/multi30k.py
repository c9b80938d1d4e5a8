"""Draw the learning curves of the translation models in docs/results: python docs/pictures/multi30k.py"""

from __future__ import annotations

import json
from pathlib import Path

from clearhead.viz import Curve, Panel, draw_curves, save

HERE = Path(__file__).parent
NAMES = {"multi30k": "Transformer", "multi30k_gru": "GRU, additive", "multi30k_gru_plain": "GRU, no attention"}

COLOURS = {"GRU, no attention": 0, "GRU, additive": 1, "Transformer": 2}  # as in the bottleneck study


def main() -> None:
    """Draw the validation loss against steps and against minutes."""
    runs = {label: json.loads((HERE.parent / "results" / f"{name}.json").read_text()) for name, label in NAMES.items()}
    panels = []
    for unit, share in (
        ("steps", lambda run: 1.0),
        ("minutes of training", lambda run: run["seconds"] / run["steps"] / 60),
    ):
        curves = []
        for label, run in runs.items():
            points = [point for point in run["curve"] if point["valid_loss"] < 5]
            x = [point["step"] * share(run) for point in points]
            curves.append(Curve(label, x, [point["valid_loss"] for point in points], color=COLOURS[label]))
        panels.append(Panel(curves, unit, "validation loss (nats a token)", labelled=unit != "steps"))
    svg, png = save(draw_curves(panels, "English to German on Multi30k"), HERE / "multi30k")
    png.unlink()
    print(svg)


if __name__ == "__main__":
    main()
