"""Generated tokens do not depend on the other requests in the batch: RELIABILITY 21."""

from __future__ import annotations

import asyncio
import json
import random

import pytest
import torch
from benchmarks.clients import Connection

from clearhead.attention import Layout
from clearhead.pipeline import load
from tests.serve.models import WORDS

TIE = 1e-4


def prompts(count: int) -> list[dict]:
    draw = random.Random(5)
    return [
        {
            "prompt": " ".join(draw.choices(WORDS, k=draw.randint(1, 30))),
            "max_new_tokens": draw.randint(1, 24),
            **({} if i % 2 else {"temperature": draw.choice([0.5, 1.0]), "top_k": draw.choice([0, 20]), "seed": i}),
        }
        for i in range(count)
    ]


def texts(address: str, bodies: list[dict], clients: int, order: list[int]) -> dict[int, str]:
    """What is written for each, with so many asking at once."""
    found: dict[int, str] = {}

    async def one(mine: list[int]) -> None:
        connection = Connection(address)
        for number in mine:
            status, _, content = await connection.post("/generate", bodies[number])
            assert status == 200, content
            found[number] = json.loads(content)["text"]
        connection.close()

    async def run() -> None:
        await asyncio.gather(*(one(order[i::clients]) for i in range(clients)))

    asyncio.run(run())
    return found


def gap(app, prompt: str, text: str, other: str) -> float:
    """How near the two best tokens are where the greedy texts part."""
    ids = app.generate(prompt, max_new_tokens=24).ids
    row = app.tokenizer(prompt, offsets=False).ids.tolist()
    minimum = float("inf")
    for n in range(len(ids)):
        full = torch.tensor([*row, *ids[:n]])
        with torch.inference_mode():
            scores = app.model(full, Layout.from_lengths([len(full)]))[-1].float().topk(2).values
        minimum = min(minimum, float(scores[0] - scores[1]))
    return minimum


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_alone_and_among_others(server, folders, count):
    bodies = prompts(count)
    alone = texts(server.address, bodies, 1, list(range(count)))
    order = list(range(count))
    random.Random(1).shuffle(order)
    together = texts(server.address, bodies, 32, order)
    app = load(folders["lm"], dtype="float32")
    other = [i for i in range(count) if alone[i] != together[i]]
    near = [i for i in other if gap(app, bodies[i]["prompt"], alone[i], together[i]) < TIE]
    print(f"{count} prompts, {len(other)} differ, {len(near)} of them where the two best are within {TIE}")
    assert near == other
