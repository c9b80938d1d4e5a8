"""Images through the API: the same answers as in Python, and hostile files refused by name."""

import base64
import io
import signal

import numpy as np
import pytest
import torch

from clearhead.hub.folder import LoadedModel, save_folder
from clearhead.models import build
from clearhead.pipeline import load
from clearhead.tasks import ClassifyImages, TaskConfig
from clearhead.tasks.labels import Labels
from clearhead.vision import ImageProcessor
from tests.serve.conftest import start

Image = pytest.importorskip("PIL.Image")


def image_file(seed: int, size: tuple[int, int] = (20, 14), form: str = "PNG", mode: str = "RGB") -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype="u1")
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, form)
    return file.getvalue()


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("image-model")
    processor = ImageProcessor(height=16, width=16)
    task = ClassifyImages(None, Labels("single_label", ("cat", "dog")), TaskConfig(), processor=processor)
    torch.manual_seed(0)
    config = task.config({"size": "tiny", "width": 32, "num_heads": 2, "ffn_dim": 48, "stem_layers": 2})
    form = task.save_format(config)
    loaded = LoadedModel(build(config).eval(), config, form.family, form.architecture, {}, None, form.files)
    save_folder(loaded, folder / "model", metadata={"task": "classify"})
    return folder / "model"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("log") / "log"


@pytest.fixture(scope="module")
def client(model_folder, log):
    running = start(log, f"animals={model_folder}")
    with running.client() as client:
        yield client
    assert running.stop() == -signal.SIGTERM


def test_images_are_classified_as_in_python(client, model_folder):
    files = [image_file(1), image_file(2, form="JPEG"), image_file(3, (40, 60), mode="L")]
    expected = load(model_folder, dtype="auto").classify(files)  # as the server
    response = client.post("/classify", json={"image": [encoded(file) for file in files]})
    assert response.status_code == 200, response.text
    for answer, own in zip(response.json()["answers"], expected, strict=True):
        assert answer["answer"] == own.answer and answer["scores"] == pytest.approx(dict(own.scores), abs=1e-5)
    url = client.post("/classify", json={"image": f"data:image/png;base64,{encoded(files[0])}"}).json()
    assert url["answers"][0]["scores"] == pytest.approx(response.json()["answers"][0]["scores"], abs=1e-5)
    (served,) = client.get("/models").json()["models"]
    assert served["tasks"] == ["classify_image"] and served["max_len"] is None


def test_hostile_images_are_refused_by_name_and_the_server_goes_on(client, log):
    good = encoded(image_file(1))
    huge = io.BytesIO()
    Image.new("1", (12_000, 12_000)).save(huge, "PNG")  # 144 megapixels in some kilobytes
    refused = {
        "2: it is not valid base64": "@@@", "2: it is no image": encoded(b"<svg onload=alert(1)>"),
        "2: it is damaged": encoded(image_file(4, (64, 64))[:-600]), "2: 12,000 x 12,000 pixels": encoded(huge.getvalue()),
        "2: a data URL has the form": "data:image/png,abc",
    }  # fmt: skip
    for message, content in refused.items():
        response = client.post("/classify", json={"image": [good, content]})
        assert response.status_code == 422 and f"image {message}" in response.json()["error"]["message"], response.text
        assert response.json()["error"]["param"] == "image"
    large = client.post("/classify", json={"image": "A" * (9 * 2**20)})
    assert large.status_code == 413
    for body in ({}, {"text": "a", "image": good}):
        assert client.post("/classify", json=body).status_code == 422
    assert "no served model supports 'classify'" in client.post("/classify", json={"text": "a"}).text
    assert client.post("/classify", json={"image": good}).status_code == 200
    assert good[:60] not in log.read_text()


def test_the_page_takes_a_file(client, tab, tmp_path):
    (tmp_path / "cat.png").write_bytes(image_file(1))
    tab.goto(str(client.base_url))
    tab.wait_for_selector("main:not([aria-busy])")
    panel = tab.locator("#panel-classify_image")
    panel.get_by_role("button", name="Send").click()
    assert "choose a file" in panel.locator(".answer").inner_text()
    panel.locator("input[type=file]").set_input_files(tmp_path / "cat.png")
    panel.locator("img.preview").wait_for()
    panel.get_by_role("button", name="Send").click()
    panel.locator(".stats", has_text="animals").wait_for()
    assert any(label in panel.locator(".answer").inner_text() for label in ("cat", "dog"))
    assert "base64" in panel.locator(".as-code").inner_html()
