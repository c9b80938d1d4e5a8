"""Training from shards: every task reads blocks, any number of processes sees the same batches, kills change nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from clearhead.data import split_batch
from clearhead.train import make_recipe, prepare, train
from clearhead.train.evaluate import evaluate
from clearhead.train.loop import make_batches
from clearhead.train.run_data import open_shards
from clearhead.train.verify_resume import prove, shortened
from tests.train.shards import made_shards, values

pytest.importorskip("array_record")

TASKS = {
    "masked_lm": values("masked_lm"),
    "next": values("masked_lm", pairs="nsp"),
    "order": values("masked_lm", pairs="sop", whole_words=True),
    "replaced_tokens": values("replaced_tokens"),
    "language_model": values("language_model"),
}


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    made = {}
    for template in ("bert", "gpt2"):
        made[template] = tmp_path_factory.mktemp(template)
        made_shards(made[template] / "shards", template)
    return made


def base_of(bases, name):
    return bases["gpt2" if name == "language_model" else "bert"]


@pytest.mark.parametrize("name", TASKS)
def test_every_task_learns_from_blocks(bases, name, tmp_path):
    base = base_of(bases, name)
    run = prepare(make_recipe(TASKS[name]), base, tmp_path / "run")
    shards = open_shards(run.recipe.data.train, base)
    assert shards is not None
    assert len(run.train["ids"]) == len(shards) - 8 and len(run.valid["ids"]) == 8
    examples = np.arange(len(run.train["ids"]))
    batch = run.task.collate(run.train, examples, 1)
    assert max(batch.layout.host_lengths) <= 24
    assert run.task.num_targets(run.train, examples).sum() == (
        batch.labels.shape[-1] if name != "next" else pytest.approx(batch.labels.shape[-1], rel=0.05)
    )
    if name in ("masked_lm", "replaced_tokens"):  # every token of every block is read, between marks
        whole = batch.ids.clone()
        whole[batch.labels[0]] = batch.labels[1]
        words = run.skeleton.require_tokenizer
        inner = whole[(whole != words.bos_id) & (whole != words.eos_id)]
        np.testing.assert_array_equal(inner, np.concatenate([b.tokens for b in shards.take(range(8, len(shards)))]))
    before = evaluate(run.job(_ranks()).model, run.task, run.valid, run.settings)["loss"]
    progress = train(run, shown=False)
    assert progress.best is not None and progress.best < before and (run.folder / "model" / "config.json").exists()
    assert (run.folder / "generator").exists() == (name == "replaced_tokens")


@pytest.mark.parametrize("name", TASKS)
def test_the_test_part_is_measured(bases, name, tmp_path):
    base = base_of(bases, name)
    (base / "test.txt").write_text("Ba be bi bo. Du da de.\n\n" * 12)
    recipe = make_recipe({**TASKS[name], "data": {**TASKS[name]["data"], "test": {"text": "test.txt"}}})
    run = prepare(recipe, base, tmp_path / "run")
    train(run, shown=False)
    told = json.loads((run.folder / "results.json").read_text())
    assert told["loss"] > 0 and told["parameters"] > 0


def _ranks():
    from clearhead.distributed import Distributed

    return Distributed()


def test_running_text_is_read_by_documents(bases, tmp_path):
    """A document begins behind the mark and, where it ends inside a block, ends with it; nothing is lost."""
    run = prepare(make_recipe(TASKS["language_model"]), bases["gpt2"], tmp_path / "run")
    mark = run.skeleton.require_tokenizer.eos_id
    stretch = open_shards(run.recipe.data.train, bases["gpt2"])
    assert stretch is not None
    for example in range(6):
        batch = run.task.collate(run.train, np.array([example]), 1)
        block = stretch[example + 8]
        due, read = batch.labels.numpy(), batch.ids.numpy()
        np.testing.assert_array_equal(due[due != mark], block.tokens)
        assert (due == mark).sum() == len(block.documents) - 1 and len(due) == len(read)
        begins = [0]
        for tokens, _ in list(block.pieces())[:-1]:
            begins.append(begins[-1] + len(tokens) + 1)
        assert all(read[at] == mark for at in begins)


@pytest.mark.parametrize("name", TASKS)
def test_any_number_of_ranks_reads_the_same_batches(bases, name, tmp_path):
    """What 1, 2 and 4 processes collate, put together, is the same global batch: tokens, labels and what is hidden."""
    run = prepare(make_recipe(TASKS[name]), base_of(bases, name), tmp_path / "run")
    batches = make_batches(run.task, run.train, run.settings, seed=5)
    for step in range(2 * len(batches) + 1):
        examples = batches.batch(*batches.place(step))
        whole = run.task.collate(run.train, examples, step + 1)
        for ranks in (2, 4):
            parts = split_batch(run.task.lengths(run.train, examples), ranks)
            mine = [run.task.collate(run.train, examples[part], step + 1) for part in parts]
            assert torch.equal(torch.cat([part.ids for part in mine]), whole.ids)
            assert torch.equal(torch.cat([part.labels[-1:] for part in mine], 1) if whole.labels.ndim > 1
                               else torch.cat([part.labels for part in mine]),
                               whole.labels[-1:] if whole.labels.ndim > 1 else whole.labels)  # fmt: skip


def test_each_block_is_read_once_an_epoch(bases, tmp_path):
    run = prepare(make_recipe(TASKS["masked_lm"]), bases["bert"], tmp_path / "run")
    batches = make_batches(run.task, run.train, run.settings, seed=5)
    for epoch in range(3):
        seen = np.concatenate([batches.batch(epoch, i) for i in range(len(batches))])
        assert sorted(seen.tolist()) == list(range(len(run.train["ids"])))


def test_what_does_not_fit_is_told(bases, tmp_path):
    held = make_recipe(values("masked_lm", validation_rows=10_000))
    with pytest.raises(ValueError, match="lower it"):
        prepare(held, bases["bert"], tmp_path / "a")
    with pytest.raises(ValueError, match="is damaged"):
        prepare(make_recipe(values("masked_lm", train={"shards": "."})), bases["bert"], tmp_path / "b")
    several = make_recipe(values("masked_lm", train={"shards": ["shards", "shards"]}))
    assert len(prepare(several, bases["bert"], tmp_path / "c").train["ids"]) > len(
        prepare(make_recipe(TASKS["masked_lm"]), bases["bert"], tmp_path / "d").train["ids"]
    )
    with pytest.raises(ValueError, match="is a list"):
        make_recipe({**values("translate"), "data": {"train": {"source": ["a", "b"], "target": "c"}}})


@pytest.mark.parametrize(("kills", "name"), [(3, "next"), (3, "replaced_tokens")])
def test_killed_and_resumed_to_the_same_bits(bases, kills, name, tmp_path):
    recipe = shortened(make_recipe(TASKS[name]), 16)
    assert prove(recipe, base_of(bases, name), tmp_path, kills=kills, seed=1).holds


@pytest.mark.slow
def test_killed_fifty_times_and_resumed_to_the_same_bits(bases, tmp_path):
    recipe = shortened(make_recipe(TASKS["next"]), 40)
    proof = prove(recipe, bases["bert"], tmp_path, kills=50, seed=2)
    assert proof.holds and len(proof.kills) == 50
