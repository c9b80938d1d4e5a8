"""From a folder of images to answers: new, check, train, eval, predict, and images that cannot be read."""

import csv
import json
import tarfile

import pytest
from typer.testing import CliRunner

import clearhead
from clearhead.cli import app
from tests.tasks.test_classify_images import make_images

run = CliRunner()


def call(*words, code=0):
    result = run.invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output + result.stderr
    return result


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with images, a recipe made for them, and the model that was trained by it."""
    folder = tmp_path_factory.mktemp("images")
    make_images(folder / "photos")
    (folder / "photos" / "red" / "broken.png").write_bytes(b"no image")
    call("new", "classify", "--data", folder / "photos", "--out", folder / "recipe.yaml")
    small = ("model.width=32", "model.num_layers=1", "train.epochs=4", "train.dtype=float32")
    changes = [word for change in small for word in ("--set", change)]
    call("train", folder / "recipe.yaml", *changes, "--out", folder / "run")
    return folder


def test_a_new_recipe_fits_the_images(work):
    text = (work / "recipe.yaml").read_text()
    assert "image: ., label: folder" in text and "image_size: 32" in text and "stem_layers: 2" in text
    result = json.loads(call("check", work / "recipe.yaml", "--json", "--no-time").stdout)
    assert sum(part["rows"] for part in result["parts"]) == 49 and result["max_len"] is None
    assert any(finding["what"].endswith("unreadable images, skipped") for finding in result["findings"])


def test_all_images_of_a_folder_a_tar_file_and_a_table_are_predicted(work, tmp_path):
    model = work / "run" / "model"
    with tarfile.open(tmp_path / "photos.tar", "w") as archive:
        archive.add(work / "photos", ".")
    (work / "table.csv").write_text(
        "image,label\nphotos/red/0.png,red\nphotos/none.png,red\nphotos/red/broken.png,red\n"
    )
    lines = call("predict", model, work / "photos").stdout.splitlines()
    assert lines[0].split("\t") == ["row", "image", "label", "score", "error"] and len(lines) == 50
    table = list(csv.DictReader(lines, delimiter="\t"))
    broken = next(row for row in table if row["image"] == "red/broken.png")
    assert broken["label"] == "" and "it is no image" in broken["error"]
    from_tar = csv.DictReader(call("predict", model, tmp_path / "photos.tar").stdout.splitlines(), delimiter="\t")
    assert {r["image"]: r["label"] for r in from_tar} == {r["image"]: r["label"] for r in table}
    named = [row.split("\t") for row in call("predict", model, work / "table.csv").stdout.splitlines()[1:]]
    assert named[0][1] == next(row["label"] for row in table if row["image"] == "red/0.png")
    assert "there is no file" in named[1][3] and "it is no image" in named[2][3]
    one = json.loads(call("predict", model, work / "photos/red/0.png", "--json").stdout)
    loaded = clearhead.load(model, dtype="auto")  # as the command
    assert one["scores"] == pytest.approx(loaded.classify(str(work / "photos/red/0.png")).scores)
    assert [a.answer for a in loaded.classify([work / "photos/red/0.png"])] == [one["answer"]]


def test_evaluation_reports_unreadable_images(work):
    result = call("eval", work / "run" / "model", work / "photos").stdout
    assert "48 rows" in result and "1 of 49 rows was skipped" in " ".join(result.split())
    assert "broken.png" in result
    result = json.loads(call("eval", work / "run" / "model", work / "photos", "--json").stdout)
    assert {label["name"] for label in result["labels"]} == {"red", "green", "blue"}


def test_wrong_inputs_are_explained(work, tmp_path):
    model = work / "run" / "model"
    assert "there is no file" in call("predict", model, tmp_path / "none.jpg", code=2).stderr
    (tmp_path / "empty").mkdir()
    error = call("new", "classify", "--data", tmp_path / "empty", "--out", tmp_path / "r.yaml", code=2).stderr
    assert "at least two images" in " ".join(error.split())
    error = call("eval", model, work / "photos/red/0.png", code=2).stderr
    assert "one image without a label" in " ".join(error.split())
    with pytest.raises(ValueError, match="leave `pairs` out"):
        clearhead.load(model).classify(["a.png"], ["b"])
