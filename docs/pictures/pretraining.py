"""Draw the learning curves of the pretraining recipes in docs/results: python docs/pictures/pretraining.py"""

from __future__ import annotations

import json
from pathlib import Path

from clearhead.viz import Curve, Panel, draw_curves, save

HERE = Path(__file__).parent
NAMES = ("bert", "roberta", "albert", "electra", "gpt")
LABELS = {"bert": "BERT", "roberta": "RoBERTa", "albert": "ALBERT", "electra": "ELECTRA", "gpt": "GPT"}
LOSSES = {"bert": "valid_words", "albert": "valid_words", "electra": "valid_words"}  # without the sentence-pair loss


def main() -> None:
    """Draw masked-token loss, pair accuracy and discriminator loss, against millions of tokens."""
    runs = {name: json.loads((HERE.parent / "results" / f"{name}_mini.json").read_text()) for name in NAMES}

    def curve(name: str, key: str, label: str | None = None, color: int | None = None) -> Curve:
        run = runs[name]
        each = run["recipe"]["train"]["batch_tokens"] / 1e6
        return Curve(
            label or LABELS[name], [p["step"] * each for p in run["curve"]], [p[key] for p in run["curve"]],
            color=NAMES.index(name) if color is None else color,
        )  # fmt: skip

    words = [curve(name, LOSSES.get(name, "valid_loss")) for name in NAMES]
    panels = [
        Panel(words, "million training tokens", "validation loss (nats per token)", "masked tokens; GPT: next tokens"),
        Panel(
            [curve("bert", "valid_pairs", "BERT: next sentence"), curve("albert", "valid_pairs", "ALBERT: sentence order")],
            "million training tokens", "accuracy (%), chance is 50", "pairs of segments",
        ),
        Panel(
            [curve("electra", "valid_found", "discriminator")], "million training tokens", "loss (nats per token)",
            "ELECTRA: replaced tokens",
        ),
    ]  # fmt: skip
    svg, png = save(
        draw_curves(panels, "Pre-training from SQuAD's paragraphs", width=4.8, height=4.0), HERE / "pretraining"
    )
    png.unlink()
    print(svg)


if __name__ == "__main__":
    main()
