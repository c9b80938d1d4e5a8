"""Image classification: from files to a trained folder that answers, and a resume in an augmented epoch."""

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageClassification

from clearhead.data import read_rows
from clearhead.hub.folder import open_folder
from clearhead.tasks import Classify, ClassifyImages
from clearhead.tasks.registry import find_task, task_of
from clearhead.train import make_recipe, prepare, train
from clearhead.train.verify_resume import prove, shortened

COLORS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}
AUGMENT = {"flip": True, "crop_padding": 2, "randaugment": 1, "erase": 0.3, "mixup": 0.2, "cutmix": 1.0}


def make_images(folder, count: int = 16):
    rng = np.random.default_rng(0)
    for name, color in COLORS.items():
        (folder / name).mkdir(parents=True)
        for i in range(count):
            noise = rng.integers(-30, 31, (10 + i % 3, 9, 3))
            Image.fromarray((np.array(color) + noise).clip(0, 255).astype("u1")).save(folder / name / f"{i}.png")


def recipe(folder, model, **changes):
    part = {"file": str(folder), "image": ".", "label": "folder"}
    return make_recipe(
        {
            "task": "classify",
            "data": {"train": part, "validation_rows": 9, "image_size": 8, "augment": changes.pop("augment", {})},
            "model": {"size": "tiny", "width": 32, "num_heads": 2, "ffn_dim": 64, **model},
            "train": {
                "steps": 40, "batch_examples": 12, "optimizer": {"lr": 3e-3}, "schedule": {"kind": "constant", "warmup": 5},
                "evaluate_every": 20, "save_every": 20, "metric": "accuracy", "dtype": "float32", **changes,
            },
        }
    )  # fmt: skip


MODELS = {"vit": {"patch_size": 4}, "cct": {"stem_layers": 1}}


@pytest.mark.parametrize("name", MODELS)
def test_colors_are_learned(tmp_path, name):
    make_images(tmp_path / "images")
    run = prepare(recipe(tmp_path / "images", MODELS[name]), tmp_path, tmp_path / "run")
    assert isinstance(run.task, ClassifyImages) and run.task.labels.names == ("blue", "green", "red")
    train(run, shown=False)
    loaded = open_folder(tmp_path / "run" / "model")
    task = task_of(loaded)
    files = sorted((tmp_path / "images").rglob("*.png"))
    answers = list(task.answer(loaded, files))
    assert np.mean([a.answer == file.parent.name for a, file in zip(answers, files, strict=True)]) > 0.9
    part = {"image": ".", "label": "folder"}
    assert task.evaluate(loaded, read_rows(tmp_path / "images", part)).scores()["accuracy"] > 90
    if name == "vit":
        processor = AutoImageProcessor.from_pretrained(tmp_path / "run" / "model")
        theirs = AutoModelForImageClassification.from_pretrained(tmp_path / "run" / "model")
        pixels = processor([Image.open(file).convert("RGB") for file in files[:4]], return_tensors="pt")
        with torch.no_grad():
            scores = theirs(**pixels).logits.softmax(1)
        for row, answer in zip(scores, answers, strict=False):
            for i, label in theirs.config.id2label.items():
                assert float(row[i]) == pytest.approx(answer.scores[label], abs=1e-5)


def test_augmented_batches_depend_on_the_step_alone(tmp_path):
    make_images(tmp_path / "images")
    run = prepare(recipe(tmp_path / "images", MODELS["vit"], augment=AUGMENT), tmp_path, tmp_path / "run")
    examples = np.array([3, 1, 7, 2])
    plain, first = run.task.collate(run.train, examples), run.task.collate(run.train, examples, 1)
    assert torch.equal(first.ids, run.task.collate(run.train, examples, 1).ids)
    assert not torch.equal(first.ids, plain.ids) and not torch.equal(
        first.ids, run.task.collate(run.train, examples, 2).ids
    )
    assert plain.labels.dtype == torch.int64 and plain.labels.shape == (4,)
    assert first.labels.shape == (4, 3) and torch.allclose(first.labels.sum(1), torch.ones(4))
    assert plain.num_tokens == 4 * 5 and plain.ids.abs().max() <= 1


def test_a_run_killed_in_an_augmented_epoch_goes_on_to_the_same_bits(tmp_path):
    make_images(tmp_path / "images")
    short = shortened(recipe(tmp_path / "images", MODELS["cct"], augment=AUGMENT), 12)
    proof = prove(short, tmp_path, tmp_path, kills=2, seed=5)
    assert proof.holds, proof.checks
    assert len(proof.kills) == 2


def test_unreadable_images_are_named(tmp_path):
    make_images(tmp_path / "images", 6)
    (tmp_path / "images" / "red" / "bad.png").write_bytes(b"no image")
    said = []
    prepare(recipe(tmp_path / "images", MODELS["vit"]), tmp_path, tmp_path / "run", said.append)
    assert any("red/bad.png" in line and "1 of" in line for line in said)


def test_wrong_settings_are_refused(tmp_path):
    make_images(tmp_path / "images", 4)
    for model, message in (
        ({"patch_size": 3}, "multiple"), ({"patch_size": 4, "stem_layers": 1}, "remove one"), ({"patch_size": 4, "kind": "gru"}, "transformer"),
        ({"patch_size": 4, "pool": "mean"}, "class token"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            prepare(recipe(tmp_path / "images", model), tmp_path, tmp_path / "run")
    text = {"task": "classify", "data": {"train": {"file": "a.csv", "text": "t", "label": "l"}, "image_size": 8},
            "train": {"steps": 1}}  # fmt: skip
    with pytest.raises(ValueError, match=r"data.image_size.*remove"):
        make_recipe(text)
    assert find_task("classify", {"image"}) is ClassifyImages
    assert find_task("classify", {"text"}) is Classify
