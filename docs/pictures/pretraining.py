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

    def curve(name: str, key: str, label: str | None = None, colour: int | None = None) -> Curve:
        run = runs[name]
        each = run["recipe"]["train"]["batch_tokens"] / 1e6
        return Curve(
            label or LABELS[name], [p["step"] * each for p in run["curve"]], [p[key] for p in run["curve"]],
            colour=NAMES.index(name) if colour is None else colour,
        )  # fmt: skip

    words = [curve(name, LOSSES.get(name, "valid_loss")) for name in NAMES]
    panels = [
        Panel(words, "million tokens read", "nats a word", "loss of hidden words; GPT: of the next"),
        Panel(
            [curve("bert", "valid_pairs", "BERT: is it the next?"), curve("albert", "valid_pairs", "ALBERT: in order?")],
            "million tokens read", "right, % (chance is 50)", "pairs of stretches",
        ),
        Panel(
            [curve("electra", "valid_found", "discriminator")], "million tokens read", "nats a word",
            "ELECTRA: which words were put in?",
        ),
    ]  # fmt: skip
    svg, png = save(
        draw_curves(panels, "Pre-training from SQuAD's paragraphs", width=4.8, height=4.0), HERE / "pretraining"
    )
    png.unlink()
    print(svg)


if __name__ == "__main__":
    main()
