"""Writes docs/families.md from the tables, with the figures measured now: python -m tests.parity.page"""

from __future__ import annotations

import tempfile
from pathlib import Path

import transformers

from clearhead.hub.families import FAMILIES, Family
from clearhead.hub.folder import open_folder
from tests.parity.cases import CASES
from tests.parity.test_families import eval_error, gradient_error

PAGE = Path(__file__).parents[2] / "docs" / "families.md"
TOP = """# Families

A family maps the keys of a Hugging Face `config.json` to settings, and tensor names to parameters. `clearhead.load` and
`save` use the same mapping in both directions, so `transformers` opens what clearhead saves. A family has no modeling
code; all families are one Transformer with different layers.

Figures are the maximum absolute differences from `transformers` {version} over all heads of a family, on tiny random
models in float32, comparing ragged with padded batches at the real positions: of the logits and every hidden state in
eval mode, and of every gradient in training mode without dropout. `python -m tests.parity.page` writes this page.

| family | `model_type` | heads | logits and states | gradients |
|---|---|---|---|---|
"""
BOTTOM = """
## What is supported

- Folders of `transformers` 5 and 4: `rope_parameters` or `rope_theta` and `rope_scaling`, `gamma` and `beta`, with the
  family's prefix or without.
- Rotary positions of the types `default`, `linear` and `llama3`; others are refused.
- Unknown config keys are kept and saved again. A value that would need different modeling code, such as
  `position_embedding_type: relative_key`, is refused.
- Marian with separate source and target vocabularies, and ALBERT with `inner_group_num` other than 1, are refused.
- Weights in safetensors only; `clearhead convert OLD --out NEW` converts a pickle.

## Architectures

| family | `transformers` classes |
|---|---|
"""


def heads(family: Family) -> str:
    """The kinds of heads, each once."""
    return ", ".join(dict.fromkeys(h.kind for h in family.heads.values() if h.kind)) or "none"


def classes(family: Family) -> str:
    return ", ".join(f"`{name}`" for name in family.heads)


def main() -> None:
    worst: dict[str, tuple[float, float]] = {}
    for case in CASES:
        with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
            theirs = case.make(Path(a))
            opened = open_folder(a)
            found = eval_error(case, theirs, opened), gradient_error(case, theirs, opened, Path(b))[1]
        before = worst.get(opened.family.title, (0.0, 0.0))
        worst[opened.family.title] = max(before[0], found[0]), max(before[1], found[1])
    text = TOP.format(version=transformers.__version__)
    for family in FAMILIES.values():
        logits, gradients = worst[family.title]
        text += f"| {family.title} | `{family.model_type}` | {heads(family)} | {logits:.0e} | {gradients:.0e} |\n"
    text += BOTTOM + "".join(f"| {family.title} | {classes(family)} |\n" for family in FAMILIES.values())
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
