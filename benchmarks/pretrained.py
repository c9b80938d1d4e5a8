"""Runs of pre-training, opened in `transformers`: the loss of the saved folder there and here, and the run's record.

    python benchmarks/pretrained.py recipes/bert-mini.yaml RUN [--record docs/results/bert_mini.json]

RUN is where `clearhead train` keeps, or kept, the run of that recipe; it is trained if it was not. Both sides
read the same validation examples, with the same words hidden, in float32. The last line is a JSON object; `--record`
writes it to a file, with the recipe and the curve.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.models.store import open_folder
from clearhead.tasks.task import Batch
from clearhead.train.recipe import read_recipe
from clearhead.train.run import Run, prepare, train

EXAMPLES = 64


def theirs(folder: Path) -> Any:
    """The folder as its own architecture says."""
    import transformers

    architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
    return getattr(transformers, architecture).from_pretrained(folder, dtype=torch.float32).eval()


def texts(batch: Batch, ids: Tensor) -> Iterator[tuple[slice, dict[str, Tensor]]]:
    """Each sequence of a batch: where it stands, and what `transformers` is given."""
    at = 0
    for size in batch.layout.sizes:
        here = slice(at, at + size)
        given = {"input_ids": ids[None, here]}
        if batch.segments is not None:
            given["token_type_ids"] = batch.segments[None, here]
        yield here, given
        at += size


def inside(batch: Batch, here: slice) -> Tensor:
    """Which of the hidden words stand in a sequence."""
    return (batch.labels[0] >= here.start) & (batch.labels[0] < here.stop)


def masked(run: Run, batch: Batch) -> tuple[float, float]:
    """Hidden words and, where they are asked for, pairs; a word's mean."""
    model, other = open_folder(run.folder / "model", dtype=torch.float32).model.eval(), theirs(run.folder / "model")
    total, pairs, count = 0.0, 0.0, batch.labels.shape[1]
    for number, (here, given) in enumerate(texts(batch, batch.ids)):
        said, of = other(**given), inside(batch, here)
        scores = said.logits if "logits" in said else said.prediction_logits
        total += float(
            F.cross_entropy(scores[0][batch.labels[0][of] - here.start], batch.labels[1][of], reduction="sum")
        )
        if "logits" not in said:
            assert batch.owners is not None
            follows = said.seq_relationship_logits if "seq_relationship_logits" in said else said.sop_logits
            pairs += float(F.cross_entropy(follows, batch.owners[number : number + 1])) / len(batch.layout.sizes)
    return float(run.task.loss(model, batch)) / count, total / count + pairs


def replaced(run: Run, batch: Batch) -> tuple[float, float]:
    """What the generator writes and what the model finds, by the saved folders of both; their sum."""
    assert batch.chances is not None
    folders = [run.folder / "generator", run.folder / "model"]
    ours, others = [open_folder(f, dtype=torch.float32).model.eval() for f in folders], [theirs(f) for f in folders]
    places, right = batch.labels
    guessed = ours[0](batch.ids, batch.layout, places=places)
    odds = torch.softmax(guessed, 1).cumsum(1)
    drawn = torch.searchsorted(odds, batch.chances.unsqueeze(1) * odds[:, -1:]).squeeze(1).clamp(max=odds.shape[1] - 1)
    read, false = batch.ids.index_put((places,), drawn), torch.zeros(len(batch.ids))
    false[places] = (drawn != right).float()
    found = ours[1](read, batch.layout).squeeze(1)
    mine = float(F.cross_entropy(guessed, right)) + float(F.binary_cross_entropy_with_logits(found, false))
    words = finds = 0.0
    for here, given in texts(batch, batch.ids):
        of = inside(batch, here)
        scores = others[0](**given).logits[0][places[of] - here.start]
        words += float(F.cross_entropy(scores, right[of], reduction="sum"))
    for here, given in texts(batch, read):
        scores = others[1](**given).logits[0]
        finds += float(F.binary_cross_entropy_with_logits(scores, false[here], reduction="sum"))
    return mine, words / len(right) + finds / len(read)


def language_model(run: Run, batch: Batch) -> tuple[float, float]:
    """The next words."""
    model, other = open_folder(run.folder / "model", dtype=torch.float32).model.eval(), theirs(run.folder / "model")
    total = 0.0
    for here, given in texts(batch, batch.ids):
        total += float(F.cross_entropy(other(**given).logits[0], batch.labels[here], reduction="sum"))
    return float(run.task.loss(model, batch)) / len(batch.labels), total / len(batch.labels)


LOSSES = {"masked": masked, "replaced": replaced, "language_model": language_model}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--record", type=Path, help="write the JSON object to this file too")
    given = parser.parse_args()
    recipe = read_recipe(given.recipe)
    run = prepare(recipe, given.recipe.parent, given.run, print)
    if not (given.run / "model").exists():
        train(run)
    batch = run.task.collate(run.valid, np.arange(EXAMPLES), 1)
    with torch.no_grad():
        ours, other = LOSSES[recipe.task](run, batch)
    done = json.loads((given.run / "results.json").read_text())
    versions = {**done.pop("versions"), "transformers": __import__("transformers").__version__}
    told = {
        "command": f"clearhead train {given.recipe}", "seed": recipe.seed, "examples": EXAMPLES,
        "loss_here": round(ours, 6), "loss_in_transformers": round(other, 6), "difference": abs(ours - other),
    }  # fmt: skip
    if given.record:
        record = {**told, "versions": versions, **done}
        given.record.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(told))


if __name__ == "__main__":
    main()
