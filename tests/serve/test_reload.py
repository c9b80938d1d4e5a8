"""/reload on a full server: it succeeds, no queued request is lost, and each is answered by the model it started with."""

from __future__ import annotations

import asyncio
import gc
import shutil
import threading
import weakref
from pathlib import Path

import httpx
import pytest
import torch

from clearhead.pipeline import load
from clearhead.serve.app import make_app
from clearhead.serve.engine import Engine, EngineLimits
from clearhead.serve.middleware import SecurityConfig
from clearhead.serve.model_registry import ModelRegistry

PROMPT = {"prompt": "the old man", "max_new_tokens": 8}
TEXT = {"text": "the old man sees a dog"}


@pytest.fixture
def folder(folders, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folders["lm"], tmp_path / "lm"))


def replace_weights(folder: Path) -> None:
    """Writes another model into the folder."""
    pipeline = load(folder, dtype="float32")
    torch.manual_seed(99)
    with torch.no_grad():
        for p in pipeline.model.parameters():
            p.add_(0.5 * torch.randn_like(p))
    pipeline.save(folder, overwrite=True)


def results(folder: Path) -> tuple[str, list[float]]:
    pipeline = load(folder, dtype="float32")
    return pipeline.generate(**PROMPT_ARGS).text, pipeline.encode(TEXT["text"]).tolist()


PROMPT_ARGS = {"prompts": PROMPT["prompt"], "max_new_tokens": PROMPT["max_new_tokens"]}


def test_reload_of_a_full_server_drops_nothing(folder: Path):
    old = results(folder)
    registry = ModelRegistry({"lm": str(folder)}, dtype="float32")
    engine, release = Engine(EngineLimits(queue_tokens=120)), threading.Event()
    app = make_app(registry, security=SecurityConfig(hosts=("*",)), engine=engine)

    async def run() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://server", timeout=60) as client:
            blocked = engine.call(registry.all()[0], release.wait)
            queued: list[tuple[str, asyncio.Task[httpx.Response]]] = []
            full = False
            while not full:  # until the queue limit refuses one of each
                for path, body in (("/generate", PROMPT), ("/embed", TEXT)):
                    queued.append((path, asyncio.create_task(client.post(path, json=body))))
                done, _ = await asyncio.wait([task for _, task in queued[-2:]], timeout=1)
                full = len(done) == 2
            refused = [task for _, task in queued if task.done()]
            assert {task.result().status_code for task in refused} == {429}
            waiting = [(path, task) for path, task in queued if not task.done()]
            assert {path for path, _ in waiting} == {"/generate", "/embed"}

            await asyncio.to_thread(replace_weights, folder)
            response = await client.post("/reload", json={})
            assert response.status_code == 200, response.text
            assert response.json() == {"models": ["lm"]}
            assert (await client.post("/embed", json=TEXT)).status_code == 429  # still full

            release.set()
            blocked.result(20)
            for path, task in waiting:
                answer = await task
                assert answer.status_code == 200, answer.text
                check(path, answer, old)
            new = await asyncio.to_thread(results, folder)
            assert new[0] != old[0] and new[1] != old[1]
            for path, body in (("/generate", PROMPT), ("/embed", TEXT)):
                check(path, await client.post(path, json=body), new)

    def check(path: str, answer: httpx.Response, expected: tuple[str, list[float]]) -> None:
        if path == "/generate":
            assert answer.json()["text"] == expected[0]
        else:
            assert answer.json()["vectors"][0] == pytest.approx(expected[1], abs=1e-5)

    asyncio.run(run())
    engine.close()


def test_a_replaced_model_is_freed(folder: Path):
    registry = ModelRegistry({"lm": str(folder)}, dtype="float32")
    engine = Engine()
    app = make_app(registry, security=SecurityConfig(hosts=("*",)), engine=engine)
    alive = weakref.ref(registry.all()[0])

    async def run() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://server", timeout=60) as client:
            assert (await client.post("/generate", json=PROMPT)).status_code == 200
            assert (await client.post("/reload", json={})).status_code == 200
            for _ in range(100):
                gc.collect()
                if alive() is None:
                    return
                await asyncio.sleep(0.05)

    asyncio.run(run())
    assert alive() is None
    engine.close()


def test_a_failed_reload_replaces_nothing(folders, folder: Path):
    registry = ModelRegistry({"tag": str(folders["tag"]), "lm": str(folder)}, dtype="float32")
    before = registry.all()
    shutil.rmtree(folder)
    with pytest.raises((ValueError, OSError)):
        registry.reload()
    assert registry.all() == before
