"""Whatever is sent, the server answers what its own description says: RELIABILITY 15."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from typing import cast

import hypothesis
import psutil
import pytest
import schemathesis
import schemathesis.checks
from benchmarks.clients import Connection
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_schema_conformance,
]
BODIES = {
    "/classify": {"text": ["the old man", "a dog"]},
    "/pair": {"text": "the old man", "second": "a dog"},
    "/tag": {"text": "the old man"},
    "/qa": {"question": "who ?", "context": "the old man sees a dog", "nbest": 2},
    "/translate": {"text": "a dog", "beam": 2, "max_len": 5, "nbest": 2},
    "/embed": {"text": "the old man", "normalize": True},
    "/generate": {"prompt": "the old", "max_new_tokens": 4, "temperature": 0.5, "seed": 3, "stop": ["x"]},
    "/chat": {"turns": ["the old man"], "max_new_tokens": 3},
    "/attention": {"text": "the old man", "layer": "encoder.0", "head": 0},
    "/v1/embeddings": {"model": "tag", "input": "the old man"},
    "/v1/completions": {"model": "lm", "prompt": "the", "max_tokens": 3, "n": 2},
    "/v1/chat/completions": {"model": "lm", "messages": [{"role": "user", "content": "the old"}], "max_tokens": 3},
}


@pytest.mark.parametrize("count", [5, pytest.param(300, marks=pytest.mark.slow)])
def test_requests_made_of_the_description(server, count):
    """Right ones and wrong ones; every answer as described, and no fault of ours."""
    schema = schemathesis.openapi.from_url(server.address + "openapi.json")
    modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
    tried = 0
    for operation in schema.get_all_operations():
        assert isinstance(operation, Ok)
        made = operation.ok()
        if made.path == "/reload":
            continue
        for mode in modes:

            @hypothesis.settings(
                max_examples=count, deadline=None, database=None, derandomize=True,
                suppress_health_check=cast("list[hypothesis.HealthCheck]", list(hypothesis.HealthCheck)),
            )  # fmt: skip
            @hypothesis.given(case=made.as_strategy(generation_mode=mode))
            def ask(case) -> None:
                nonlocal tried
                response = case.call(base_url=server.address)
                case.validate_response(response, checks=CHECKS)
                tried += 1

            with contextlib.suppress(Unsatisfiable):  # a route without a body has no wrong one
                ask()
    print(f"{tried} requests")
    assert tried > 50


@pytest.mark.parametrize("count", [600, pytest.param(95_000, marks=pytest.mark.slow)])
def test_bytes_that_were_changed(server, count):
    """Bodies with bytes flipped, cut, doubled and put in: a 4xx or an answer, always JSON, and memory stays."""
    process = psutil.Process(server.process.pid)

    async def one(number: int, every: int) -> None:
        connection = Connection(server.address)
        for turn in range(number, count, every):
            draw = random.Random(turn)
            path, body = draw.choice(list(BODIES.items()))
            raw = bytearray(json.dumps(body).encode())
            for _ in range(draw.randint(1, 4)):
                at = draw.randrange(len(raw) + 1)
                what = draw.choice(["flip", "cut", "put", "double"])
                if what == "flip" and at < len(raw):
                    raw[at] ^= 1 << draw.randrange(8)
                elif what == "cut":
                    del raw[at : at + draw.randint(1, 5)]
                elif what == "put":
                    raw[at:at] = draw.choice(
                        [b"\x00", b"\xff\xfe", b"9" * 40, b"[" * 50, b"\\ud800", b"NaN", "😀".encode()]
                    )
                else:
                    raw[at:at] = raw[at : at + 20]
            status, _, content = await connection.post(path, raw=bytes(raw))
            assert status < 500 or status == 503, (path, bytes(raw), status, content)
            if content.startswith(b"data:"):
                continue  # a change that asked for a stream
            json.loads(content)
        connection.close()

    async def run() -> None:
        await asyncio.gather(*(one(i, 8) for i in range(8)))

    asyncio.run(run())
    before = process.memory_info().rss
    if count > 10_000:
        asyncio.run(run())
        grown = (process.memory_info().rss - before) / 2**20
        print(f"{2 * count} requests, grown by {grown:.1f} MiB")
        assert grown < 50
