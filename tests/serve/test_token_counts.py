"""The queue counts the tokens of the model's own tokenizer."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from starlette.requests import Request

from clearhead.serve.dispatcher import Dispatcher
from clearhead.serve.engine import Engine, EngineLimits
from clearhead.serve.errors import ApiError
from clearhead.serve.model_registry import ModelRegistry
from clearhead.serve.token_counts import CHUNK_CHARACTERS, chunks, count_tokens, min_tokens

CHINESE = "老人在雨中走回家，手里拿着一把绿色的伞。"


@pytest.fixture(scope="module")
def registry(folders) -> ModelRegistry:
    names = ("classify", "pair", "tag", "lm", "translate")
    return ModelRegistry({name: str(folders[name]) for name in names}, dtype="float32")


def request() -> Request:
    async def receive() -> Any:
        await asyncio.sleep(60)

    return Request({"type": "http", "headers": []}, receive)


def queued_tokens(registry: ModelRegistry, name: str, work: str, values: list[Any], options: tuple[Any, ...]) -> int:
    """The tokens in the queue while these values wait behind a call that blocks the engine."""
    engine, release = Engine(), threading.Event()
    dispatcher, model = Dispatcher(engine, registry), registry.find(name, work)
    blocked = engine.call(model, release.wait)
    while engine._queued_tokens:
        time.sleep(0.01)

    async def run() -> int:
        task = asyncio.create_task(dispatcher.answers(request(), model, work, values, options))
        while not engine._queued_tokens:
            await asyncio.sleep(0.01)
        count = engine._queued_tokens
        release.set()
        await task
        return count

    count = asyncio.run(run())
    assert blocked.result(20)
    dispatcher.close()
    return count


def test_a_chinese_text_counts_its_tokens(registry):
    model = registry.find("classify", "classify")
    expected = len(model.pipeline.tokenizer(CHINESE).ids)
    assert expected > len(CHINESE) // 2
    assert queued_tokens(registry, "classify", "classify", [CHINESE], ()) == expected
    assert count_tokens(model, "classify", [CHINESE, "the old man"])[0] == expected


def test_pairs_prompts_and_truncated_texts(registry):
    pair = registry.find("pair", "pair")
    assert count_tokens(pair, "pair", [(CHINESE, "a dog")]) == [len(pair.pipeline.tokenizer(CHINESE, "a dog").ids)]
    tag = registry.find("tag", "tag")
    assert count_tokens(tag, "embed", [CHINESE * 50]) == [tag.pipeline.max_len]
    assert count_tokens(tag, "tag", [CHINESE * 50])[0] > 10 * tag.pipeline.max_len


def test_a_full_queue_refuses_before_it_tokenizes(registry, monkeypatch):
    engine, release = Engine(EngineLimits(queue_tokens=10)), threading.Event()
    dispatcher, model = Dispatcher(engine, registry), registry.find("tag", "tag")
    engine.call(model, release.wait)
    monkeypatch.setattr("clearhead.serve.dispatcher.count_tokens", lambda *_: pytest.fail("it was tokenized"))
    with pytest.raises(ApiError, match="tokens are waiting"):
        asyncio.run(dispatcher.answers(request(), model, "tag", ["the old man"] * 11))
    release.set()
    dispatcher.close()


def test_the_event_loop_is_not_blocked(registry, monkeypatch):
    """While a slow tokenizer works on one request, others are answered."""
    engine = Engine()
    dispatcher, model = Dispatcher(engine, registry), registry.find("tag", "tag")

    def slow(model: Any, work: str, values: list[str]) -> list[int]:
        if len(values[0]) > 100:
            time.sleep(1)
        return count_tokens(model, work, values)

    monkeypatch.setattr("clearhead.serve.dispatcher.count_tokens", slow)

    async def run() -> bool:
        long = asyncio.create_task(dispatcher.answers(request(), model, "tag", ["the old man " * 20]))
        await asyncio.sleep(0)
        await dispatcher.answers(request(), model, "tag", ["the old man"])
        first = not long.done()
        await long
        return first

    assert asyncio.run(run())
    dispatcher.close()


def test_long_requests_are_tokenized_in_chunks():
    values = ["x" * 40_000] * 5 + ["y" * 300_000, "z"]
    parts = list(chunks(values))
    assert [value for part in parts for value in part] == values
    assert all(len(part) == 1 or sum(map(len, part)) <= CHUNK_CHARACTERS for part in parts)
    assert min_tokens(values) == len(values)
