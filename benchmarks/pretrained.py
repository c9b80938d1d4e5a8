"""Pretraining runs opened in `transformers`: the loss of the saved model there and in clearhead, and the run's record.

    python benchmarks/pretrained.py recipes/bert-mini.yaml RUN [--record docs/results/bert_mini.json]

RUN is the run folder of that recipe from `clearhead train`; it is trained if it does not exist. Both sides compute the
loss of the same validation examples, with the same tokens masked, in float32. The last line is a JSON object;
`--record` also writes it to a file, with the recipe and the loss curve.
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

from clearhead.hub.folder import open_folder
from clearhead.tasks.task import Batch
from clearhead.train.recipe import read_recipe
from clearhead.train.run import prepare, train
from clearhead.train.training_run import TrainingRun
from machine import machine_facts

EXAMPLES = 64


def theirs(folder: Path) -> Any:
    """Load the folder with the transformers class that its config names."""
    import transformers

    architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
    return getattr(transformers, architecture).from_pretrained(folder, dtype=torch.float32).eval()


def texts(batch: Batch, ids: Tensor) -> Iterator[tuple[slice, dict[str, Tensor]]]:
    """Yield the token slice of each sequence of a batch, and the inputs for `transformers`."""
    at = 0
    for size in batch.layout.host_lengths:
        here = slice(at, at + size)
        given = {"input_ids": ids[None, here]}
        if batch.segments is not None:
            given["token_type_ids"] = batch.segments[None, here]
        yield here, given
        at += size


def inside(batch: Batch, here: slice) -> Tensor:
    """Return which masked positions are in a sequence."""
    return (batch.labels[0] >= here.start) & (batch.labels[0] < here.stop)


def masked_lm(run: TrainingRun, batch: Batch) -> tuple[float, float]:
    """Return both mean losses of masked language modelling, with next-sentence prediction if the recipe uses it."""
    model, other = open_folder(run.folder / "model", dtype=torch.float32).model.eval(), theirs(run.folder / "model")
    total, pairs, count = 0.0, 0.0, batch.labels.shape[1]
    for number, (here, given) in enumerate(texts(batch, batch.ids)):
        output, of = other(**given), inside(batch, here)
        scores = output.logits if "logits" in output else output.prediction_logits
        total += float(
            F.cross_entropy(scores[0][batch.labels[0][of] - here.start], batch.labels[1][of], reduction="sum")
        )
        if "logits" not in output:
            assert batch.example_ids is not None
            follows = output.seq_relationship_logits if "seq_relationship_logits" in output else output.sop_logits
            pairs += float(F.cross_entropy(follows, batch.example_ids[number : number + 1])) / len(
                batch.layout.host_lengths
            )
    return float(run.task.loss(model, batch)) / count, total / count + pairs


def replaced_tokens(run: TrainingRun, batch: Batch) -> tuple[float, float]:
    """Return both losses of replaced-token detection: the generator's plus the discriminator's."""
    assert batch.uniforms is not None
    folders = [run.folder / "generator", run.folder / "model"]
    ours, others = [open_folder(f, dtype=torch.float32).model.eval() for f in folders], [theirs(f) for f in folders]
    places, right = batch.labels
    guessed = ours[0](batch.ids, batch.layout, places=places)
    odds = torch.softmax(guessed, 1).cumsum(1)
    drawn = torch.searchsorted(odds, batch.uniforms.unsqueeze(1) * odds[:, -1:]).squeeze(1).clamp(max=odds.shape[1] - 1)
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


def language_model(run: TrainingRun, batch: Batch) -> tuple[float, float]:
    """Return both mean losses of next-token prediction."""
    model, other = open_folder(run.folder / "model", dtype=torch.float32).model.eval(), theirs(run.folder / "model")
    total = 0.0
    for here, given in texts(batch, batch.ids):
        total += float(F.cross_entropy(other(**given).logits[0], batch.labels[here], reduction="sum"))
    return float(run.task.loss(model, batch)) / len(batch.labels), total / len(batch.labels)


LOSSES = {"masked_lm": masked_lm, "replaced_tokens": replaced_tokens, "language_model": language_model}


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
    summary = {
        "command": f"clearhead train {given.recipe}", "seed": recipe.seed, "examples": EXAMPLES,
        "loss_here": round(ours, 6), "loss_in_transformers": round(other, 6), "difference": abs(ours - other),
    }  # fmt: skip
    if given.record:
        record = {**summary, "versions": versions, "machine": machine_facts(), **done}
        given.record.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
