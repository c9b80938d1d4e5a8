"""The live page: tiles that are the weights, answers without heads, and a map of many tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from clearhead.attention import Layout
from clearhead.attention.call import Call
from clearhead.attention.masks import Causal
from clearhead.attention.scores import ScaledDot
from clearhead.attention.view import View
from clearhead.see import Axis, Given, Input, Layer, Names, Scene, Watched, scene_of
from clearhead.see.live import TILE, Desk, Served, application, top_level

client_of = pytest.importorskip("starlette.testclient").TestClient


def long_scene(tokens: int, heads: int = 1) -> Scene:
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(tokens, heads, 16, generator=draw) for _ in range(3))
    layout = Layout.of([tokens])
    view = View(Call(q, k, v, layout, layout, Causal(), ScaledDot()))
    names = Names(tuple(f"w{i}" for i in range(tokens)), (False,) * tokens, (False,) * tokens)
    return Scene((Input("long", (Axis("text", names),), (Layer("decoder.0", "self", 0, 0, Watched(view)),)),), "long")


def floats(response) -> np.ndarray:
    assert response.status_code == 200, response.text
    return np.frombuffer(response.content, "<f4")


WHERE = {"sequence": 0, "map": "decoder.0", "head": 0}


def test_tiles_are_the_weights():
    scene = long_scene(1300)
    record = scene.inputs[0].layers[0].record
    whole = record.head(0)
    with client_of(application(scene)) as client:
        for row, column in ((0, 0), (1, 2), (5, 5)):
            where = WHERE | {"level": 0, "row": row, "column": column, "pool": "max"}
            found = floats(client.get("/tile", params=where))
            want = whole[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]
            assert tuple(found[:2]) == want.shape
            assert np.abs(found[2:].reshape(want.shape) - want.numpy()).max() < 1e-6


@pytest.mark.parametrize("pool", ["max", "mean"])
def test_levels_pool_what_lies_below(pool):
    scene = long_scene(2048)
    desk = Desk(scene)
    whole = scene.inputs[0].layers[0].record.head(0)
    kind = torch.nn.functional.max_pool2d if pool == "max" else torch.nn.functional.avg_pool2d
    assert top_level((2048, 2048)) == 2
    for level in (1, 2, 3):
        want = kind(whole[None, None], 2**level)[0, 0]
        found = desk.tile(0, "decoder.0", 0, level, 0, 0, pool)
        torch.testing.assert_close(found, want[:TILE, :TILE], atol=1e-6, rtol=1e-5)
    far = desk.tile(0, "decoder.0", 0, 2, 1, 1, pool)
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
def test_questions_that_cannot_be_answered_are_told_so(wrong):
    where = WHERE | {"level": 0, "row": 0, "column": 0, "pool": "max"} | wrong
    with client_of(application(long_scene(600))) as client:
        response = client.get("/tile", params=where)
    assert response.status_code == 400 and response.text


def test_no_page_of_elsewhere_is_answered():
    with client_of(application(long_scene(20)), base_url="http://evil.example") as client:
        assert client.get("/scene").status_code == 400


def test_tiles_are_kept_and_old_ones_go(monkeypatch):
    monkeypatch.setattr("clearhead.see.live.HELD", 3 * TILE * TILE * 4)
    desk = Desk(long_scene(1600))
    first = desk.tile(0, "decoder.0", 0, 0, 0, 0, "max")
    assert desk.tile(0, "decoder.0", 0, 0, 0, 0, "max") is first
    for column in range(1, 5):
        desk.tile(0, "decoder.0", 0, 0, 0, column, "max")
    assert desk.tile(0, "decoder.0", 0, 0, 0, 0, "max") is not first


@pytest.fixture
def served(minilm):
    server = Served(scene_of(minilm.opened, ["The cat sat on the mat."], title="cat"))
    yield server
    server.stop()


def test_does_it_matter(tab, served):
    tab.goto(served.address + "#lines.0.0.2")
    tab.wait_for_selector(".lines .word")
    assert "cosine with itself 1.0000" in tab.text_content(".answer")
    tab.click("[data-keep=off]")
    tab.wait_for_selector(".said.changed")
    changed = float(tab.get_attribute(".said.changed .score", "data-value"))
    assert 0.5 < changed < 0.9999
    assert "without encoder.0: 2" in tab.text_content(".said.changed")
    tab.click("[data-keep=off]")
    tab.wait_for_function("document.querySelector('.said.changed') === null")


def test_a_long_map_is_zoomed_down_to_its_words(tab):
    scene = long_scene(3000)
    server = Served(scene)
    want = scene.inputs[0].layers[0].record.head(0)
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
        tab.wait_for_function("/: 0\\.\\d+$/.test(document.querySelector('output.told').textContent)")
        told = tab.text_content("output.told")
        names, value = told.rsplit(": ", 1)
        row, column = (int(n) for n in names.rsplit("(", 1)[1].rstrip(")").split(", "))
        assert names.startswith(f"w{row} → w{column}")
        assert float(value) == pytest.approx(float(want[row, column]), abs=1e-6)
    finally:
        server.stop()


def test_nobody_to_answer():
    scene = replace(long_scene(10), without=None)
    with client_of(application(scene)) as client:
        response = client.post("/without", json={"sequence": 0, "heads": {"decoder.0": [0]}})
    assert response.status_code == 400 and "not at hand" in response.text


def test_weights_that_came_from_elsewhere():
    weights = torch.rand(2, 300, 200).softmax(-1)
    names = [Names(tuple(map(str, range(n))), (False,) * n, (False,) * n) for n in (300, 200)]
    layer = Layer("cross.0", "cross", 0, 1, Given(weights))
    desk = Desk(Scene((Input("x", tuple(Axis(str(i), n) for i, n in enumerate(names)), (layer,)),)))
    assert torch.equal(desk.weights(0, "cross.0", 1), weights[1])
    tile = desk.tile(0, "cross.0", 1, 0, 1, 0, "max")
    assert torch.equal(tile, weights[1, 256:300, :200])
