"""The live server: exact tiles, predictions with ablated heads, and long maps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from clearhead.attention import Layout
from clearhead.attention.capture.attention_map import AttentionMap
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.masks import Causal
from clearhead.attention.scores import ScaledDot
from clearhead.viz import Captured, Precomputed, Scene, SceneAxis, SceneInput, SceneLayer, TokenLabels, record_scene
from clearhead.viz.live_server import TILE, LiveServer, TileStore, application, top_level
from tests.browser import wait_until

client_of = pytest.importorskip("starlette.testclient").TestClient


def long_scene(tokens: int, heads: int = 1) -> Scene:
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(tokens, heads, 16, generator=draw) for _ in range(3))
    layout = Layout.from_lengths([tokens])
    view = AttentionMap(AttentionInputs(q, k, v, layout, layout, Causal(), ScaledDot()))
    names = TokenLabels(tuple(f"w{i}" for i in range(tokens)), (False,) * tokens, (False,) * tokens)
    return Scene(
        (SceneInput("long", (SceneAxis("text", names),), (SceneLayer("decoder.0", "self", 0, 0, Captured(view)),)),),
        "long",
    )


def floats(response) -> np.ndarray:
    assert response.status_code == 200, response.text
    return np.frombuffer(response.content, "<f4")


WHERE = {"sequence": 0, "map": "decoder.0", "head": 0}


def test_tiles_are_the_weights():
    scene = long_scene(1300)
    record = scene.inputs[0].layers[0].attention
    whole = record.head(0)
    with client_of(application(scene)) as client:
        for row, column in ((0, 0), (1, 2), (5, 5)):
            where = WHERE | {"level": 0, "row": row, "column": column, "pool": "max"}
            found = floats(client.get("/tile", params=where))
            want = whole[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]
            assert tuple(found[:2]) == want.shape
            assert np.abs(found[2:].reshape(want.shape) - want.numpy()).max() < 1e-6


@pytest.mark.parametrize("pool", ["max", "mean"])
def test_levels_are_pooled(pool):
    scene = long_scene(2048)
    store = TileStore(scene)
    whole = scene.inputs[0].layers[0].attention.head(0)
    kind = torch.nn.functional.max_pool2d if pool == "max" else torch.nn.functional.avg_pool2d
    assert top_level((2048, 2048)) == 2
    for level in (1, 2, 3):
        want = kind(whole[None, None], 2**level)[0, 0]
        found = store.tile(0, "decoder.0", 0, level, 0, 0, pool)
        torch.testing.assert_close(found, want[:TILE, :TILE], atol=1e-6, rtol=1e-5)
    far = store.tile(0, "decoder.0", 0, 2, 1, 1, pool)
    torch.testing.assert_close(far, kind(whole[None, None], 4)[0, 0, TILE:, TILE:], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sequence": 7},
        {"map": "decoder.9"},
        {"level": 99},
        {"row": -1},
        {"row": 40},
        {"pool": "sum"},
        {"head": "x"},
        {"head": 5},
    ],
)
def test_bad_requests_get_status_400(wrong):
    where = WHERE | {"level": 0, "row": 0, "column": 0, "pool": "max"} | wrong
    with client_of(application(long_scene(600))) as client:
        response = client.get("/tile", params=where)
    assert response.status_code == 400 and response.text


def test_foreign_host_header_is_refused():
    with client_of(application(long_scene(20)), base_url="http://evil.example") as client:
        assert client.get("/scene").status_code == 400


def test_tiles_are_cached_and_evicted(monkeypatch):
    monkeypatch.setattr("clearhead.viz.live_server.CACHE_BYTES", 3 * TILE * TILE * 4)
    store = TileStore(long_scene(1600))
    first = store.tile(0, "decoder.0", 0, 0, 0, 0, "max")
    assert store.tile(0, "decoder.0", 0, 0, 0, 0, "max") is first
    for column in range(1, 5):
        store.tile(0, "decoder.0", 0, 0, 0, column, "max")
    assert store.tile(0, "decoder.0", 0, 0, 0, 0, "max") is not first


@pytest.fixture
def served(minilm):
    server = LiveServer(record_scene(minilm.loaded, ["The cat sat on the mat."], title="cat"))
    yield server
    server.stop()


def test_ablating_a_head(tab, served):
    tab.goto(served.address + "#lines.0.0.2")
    tab.wait_for_selector(".lines .word")
    assert "cosine with itself 1.0000" in tab.text_content(".answer")
    tab.click("[data-keep=ablate]")
    tab.wait_for_selector(".prediction.ablated")
    changed = float(tab.get_attribute(".prediction.ablated .score", "data-value"))
    assert 0.5 < changed < 0.9999
    assert "without encoder.0 head 2" in tab.text_content(".prediction.ablated")
    tab.click("[data-keep=ablate]")
    wait_until(tab, "document.querySelector('.prediction.ablated') === null")


def test_long_map_zooms_to_single_tokens(tab):
    scene = long_scene(3000)
    server = LiveServer(scene)
    want = scene.inputs[0].layers[0].attention.head(0)
    try:
        tab.goto(server.address + "#matrix.0.0.0")
        tab.wait_for_selector(".matrix canvas")
        tab.wait_for_timeout(400)
        box = tab.locator(".matrix canvas").bounding_box()
        tab.mouse.move(box["x"] + 380, box["y"] + 420)
        for _ in range(14):
            tab.mouse.wheel(0, -600)
            tab.wait_for_timeout(60)
        tab.wait_for_timeout(700)
        tab.mouse.move(box["x"] + 381, box["y"] + 421)
        wait_until(tab, "/: 0\\.\\d+$/.test(document.querySelector('output.status').textContent)")
        status = tab.text_content("output.status")
        names, value = status.rsplit(": ", 1)
        row, column = (int(n) for n in names.rsplit("(", 1)[1].rstrip(")").split(", "))
        assert names.startswith(f"w{row} → w{column}")
        assert float(value) == pytest.approx(float(want[row, column]), abs=1e-6)
    finally:
        server.stop()


def test_ablation_needs_a_model():
    scene = replace(long_scene(10), ablated=None)
    with client_of(application(scene)) as client:
        response = client.post("/ablate", json={"sequence": 0, "heads": {"decoder.0": [0]}})
    assert response.status_code == 400 and "no model to run" in response.text


def test_precomputed_weights():
    weights = torch.rand(2, 300, 200).softmax(-1)
    names = [TokenLabels(tuple(map(str, range(n))), (False,) * n, (False,) * n) for n in (300, 200)]
    layer = SceneLayer("cross.0", "cross", 0, 1, Precomputed(weights))
    store = TileStore(Scene((SceneInput("x", tuple(SceneAxis(str(i), n) for i, n in enumerate(names)), (layer,)),)))
    assert torch.equal(store.weights(0, "cross.0", 1), weights[1])
    tile = store.tile(0, "cross.0", 1, 0, 1, 0, "max")
    assert torch.equal(tile, weights[1, 256:300, :200])
