"""A run from recipe to model: made once, checked, refused where it belongs to another, opened by everybody."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
import torch

import clearhead
from clearhead.data.ragged import Column, Ragged
from clearhead.files import read_manifest
from clearhead.models import TransformerConfig
from clearhead.train import make_recipe, prepare, train
from clearhead.train.checkpoint import read_tensors
from clearhead.train.run_data import read_part
from tests.train.tiny import recipe, values


def changed(section: str, **new: object):
    made = values()
    return make_recipe({**made, section: {**made[section], **new}})


def ragged(column: Column) -> Ragged:
    assert isinstance(column, Ragged)
    return column


def test_everything_is_made_once_and_told(base):
    told: list[str] = []
    run = prepare(recipe(), base, base / "runs" / "one", told.append)
    assert told[0].startswith("tokenizer: ") and told[0].endswith(" tokens, trained on the training text")
    assert told[1].startswith("train: 70 examples, ") and told[2].startswith("valid: 10 examples, ")
    assert (len(run.train["source"]), len(run.valid["source"])) == (70, 10)
    assert sorted(p.name for p in run.folder.iterdir()) == ["data", "recipe.yaml", "tokenizer"]
    told.clear()
    (base / "a.x").unlink()  # what was made is enough
    again = prepare(recipe(), base, base / "runs" / "one", told.append)
    assert told == []
    assert all((ragged(again.train[c]).ids == ragged(run.train[c]).ids).all() for c in run.train)


def test_the_first_rows_are_held_out_and_no_other(base):
    run = prepare(recipe(), base, base / "run")
    first = (base / "a.x").read_text().splitlines()[:10]
    column = ragged(run.valid["source"])
    examples = [column.ids[column.offsets[i] : column.offsets[i + 1]].tolist() for i in range(10)]
    texts = [run.skeleton.require_tokenizer.decode(ids) for ids in examples]
    assert texts == first


def test_a_validation_part_of_its_own(base):
    lines = (base / "a.x").read_text().splitlines()[:7]
    (base / "v.tsv").write_text("from\tto\n" + "".join(f"{line}\t{line}\n" for line in lines))
    made = changed("data", valid={"file": "v.tsv", "source": "from", "target": "to"})
    run = prepare(made, base, base / "run")
    assert (len(run.train["source"]), len(run.valid["source"])) == (80, 7)


def test_what_is_left_out_is_told(base):
    told: list[str] = []
    prepare(changed("data", max_len=4), base, base / "run", told.append)
    assert any("examples were skipped: a side has more than 4 tokens" in line for line in told)


# The final model


def test_the_model_is_the_best_checkpoint_and_everybody_opens_it(base):
    run = prepare(recipe(), base, base / "run")
    progress = train(run, shown=False)
    model = clearhead.load(run.folder / "model")
    best = run.folder / "checkpoints" / f"step-{progress.best_step:08d}"
    into = {f"model.{name}": torch.empty_like(p) for name, p in model.model.named_parameters()}
    read_tensors(best, into)
    assert all(torch.equal(into[f"model.{name}"], p) for name, p in model.model.named_parameters())
    facts = read_manifest(run.folder / "model").metadata
    assert facts["task"] == "translate" and facts["step"] == 12
    assert make_recipe(facts["recipe"]) == recipe()
    results = json.loads((run.folder / "results.json").read_text())
    assert [point["step"] for point in results["curve"]] == [4, 8, 12]


def test_the_model_is_the_mean_of_the_last_checkpoints(base):
    run = prepare(recipe(average=3, evaluate_every=100), base, base / "run")
    train(run, shown=False)
    model = clearhead.load(run.folder / "model").model
    sums = {f"model.{name}": torch.zeros_like(p, dtype=torch.float64) for name, p in model.named_parameters()}
    for step in (6, 9, 12):
        folder = run.folder / "checkpoints" / f"step-{step:08d}"
        into = {name: torch.empty(t.shape) for name, t in sums.items()}
        read_tensors(folder, into)
        for name, tensor in into.items():
            sums[name] += tensor
    for name, param in model.named_parameters():
        assert torch.equal((sums[f"model.{name}"] / 3).float(), param)


def test_transformers_opens_it(base):
    transformers = pytest.importorskip("transformers")
    run = prepare(recipe(), base, base / "run")
    train(run, shown=False)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(run.folder / "model").eval()
    words = transformers.AutoTokenizer.from_pretrained(run.folder / "model")
    ours = clearhead.load(run.folder / "model").model.eval()
    batch = run.task.collate(run.valid, torch.arange(1).numpy())
    assert batch.target is not None
    with torch.no_grad():
        scores = theirs(input_ids=batch.ids[None], decoder_input_ids=batch.target[None]).logits[0]
        mine = ours(batch.ids, batch.layout, batch.target, batch.target_layout)
    torch.testing.assert_close(mine, scores, rtol=1e-4, atol=1e-5)
    assert words(run.skeleton.require_tokenizer.decode(batch.ids)).input_ids == batch.ids.tolist()


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("task", ["translate", "language_model"])
def test_recurrent_nets_are_trained_and_opened(base, kind, task):
    made = values(steps=2, evaluate_every=2)
    made["model"] = {"kind": kind, "width": 8, "hidden_size": 8}
    if task == "language_model":
        made |= {"task": task, "tokenizer": {"vocab_size": 300}}
        made["data"] = {"train": {"text": "a.x"}, "validation_rows": 10, "max_len": 16}
    run = prepare(make_recipe(made), base, base / "run")
    train(run, shown=False)
    assert clearhead.load(run.folder / "model").model.training is False


def test_a_run_that_has_ended_writes_the_same_model_again(base):
    run = prepare(recipe(steps=3), base, base / "run")
    train(run, shown=False)
    weights = (run.folder / "model" / "model.safetensors").read_bytes()
    shutil.rmtree(run.folder / "model")
    train(prepare(recipe(steps=3), base, base / "run"), shown=False)
    assert (run.folder / "model" / "model.safetensors").read_bytes() == weights


# Refusing


def test_before_the_first_checkpoint_a_recipe_may_be_changed(base):
    prepare(recipe(), base, base / "run")
    run = prepare(recipe(optimizer={"lr": 0.5}), base, base / "run")
    assert run.recipe.train.optimizer.lr == 0.5
    run = prepare(changed("data", validation_rows=20), base, base / "run")
    assert (len(run.train["source"]), len(run.valid["source"])) == (60, 20), "the data is made anew"


def test_after_it_only_the_number_of_steps(base):
    train(prepare(recipe(steps=3), base, base / "run"), shown=False)
    with pytest.raises(
        ValueError,
        match=r"was created with different training settings: only train\.steps and train\.epochs may change",
    ):
        prepare(recipe(steps=3, save_every=1), base, base / "run")
    with pytest.raises(ValueError, match="was created from a different recipe"):
        prepare(replace(recipe(steps=3), seed=5), base, base / "run")
    assert train(prepare(recipe(steps=5), base, base / "run"), shown=False).step == 5


def test_a_folder_that_is_no_run_is_left_alone(base):
    (base / "other").mkdir()
    (base / "other" / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="exists and is not the folder of a run"):
        prepare(recipe(), base, base / "other")
    assert [p.name for p in (base / "other").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("section", "new", "says"),
    [
        ("model", {"norm_first": True}, "model.norm_first is True, but the model is saved as Marian, which has False"),
        ("model", {"norm": "rms"}, "model.norm is 'rms'"),
        ("model", {"widht": 3}, "did you mean 'width'"),
        ("train", {"batch_tokens": 5}, r"an example has \d+ tokens, and a batch holds 5: raise batch_tokens"),
        (
            "data",
            {"validation_rows": 80},
            r"data\.train has no examples besides the 80 rows of data\.validation_rows: lower it",
        ),
        ("data", {"train": {"source": "no.x", "target": "a.y"}}, "there is no file .*no.x"),
        ("data", {"test": {"source": "a.x", "target": "no.y"}}, "there is no file .*no.y"),
        ("tokenizer", {"vocab_size": 5}, "vocab_size leaves room"),
        ("tokenizer", {"folder": "nowhere"}, "nowhere"),
    ],
)
def test_what_cannot_be_trained_is_told_before_it_is(base, section, new, says):
    with pytest.raises(ValueError, match=says):
        prepare(changed(section, **new), base, base / "run")


def test_dropout_and_kernel_are_no_matter_of_the_folder(base):
    run = prepare(changed("model", embedding_dropout=0.0, kernel="reference"), base, base / "run")
    assert isinstance(run.config.stack, TransformerConfig)
    assert run.config.stack.embedding_dropout == 0.0


def test_another_tokenizer_under_the_same_name_is_refused(base):
    other = prepare(recipe(), base, base / "other")
    shutil.copytree(other.folder / "tokenizer", base / "words")
    made = changed("tokenizer", folder="words")
    prepare(made, base, base / "run")
    (base / "b.x").write_text("completely different text here\n" * 5)
    prepare(changed("data", train={"source": "b.x", "target": "b.x"}, validation_rows=1), base, base / "third")
    shutil.rmtree(base / "words")
    shutil.copytree(base / "third" / "tokenizer", base / "words")
    with pytest.raises(ValueError, match="was made with a different tokenizer than the current one"):
        prepare(made, base, base / "run")


def test_damaged_data_is_refused(base):
    run = prepare(recipe(), base, base / "run")
    path = run.folder / "data" / "train" / "source.ids.npy"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(ValueError, match=r"is damaged: 'source\.ids\.npy'"):
        prepare(recipe(), base, base / "run")


def test_rows_of_a_table_and_of_files(base):
    (base / "t.tsv").write_text("x\ty\nba\tbe\n")
    assert [row.values for row in read_part({"file": "t.tsv", "source": "x", "target": "y"}, base)] == [
        {"source": "ba", "target": "be"}
    ]
    assert next(iter(read_part({"source": "a.x", "target": "a.y"}, base))).line == 1
