"""The engine under concurrent use."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, cast

import pytest

from clearhead.decode import SamplingParams
from clearhead.serve.continuous_batch import GenerationRequest
from clearhead.serve.engine import MIN_JOIN_RATIO, Engine, EngineLimits
from clearhead.serve.jobs import GENERATE, BatchKey, RequestJob
from clearhead.serve.model_registry import ModelRegistry
from tests.serve.models import make_models


@pytest.fixture
def fast_switching():
    """Threads switch as often as possible, so that missing locks show."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_refuse_while_work_is_queued_and_finished(fast_switching):
    engine, model, done = Engine(EngineLimits(batch_window_s=0.0)), cast(Any, _Model()), threading.Event()

    def ask() -> int:
        count = 0
        while not done.is_set():
            assert engine.refuse() is None
            count += 1
        return count

    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask) for _ in range(2)]
        for _ in range(300):
            called = [engine.call(model, lambda: 1) for _ in range(10)]
            wait(called, 20)
            assert [one.result() for one in called] == [1] * 10
        done.set()
        assert all(one.result(20) > 100 for one in asking)
    engine.close()


@pytest.mark.parametrize(("come", "steps"), [(1, MIN_JOIN_RATIO), (2, 1)])
def test_a_single_request_waits_a_few_steps_before_it_joins(tmp_path: Path, come: int, steps: int):
    """Twelve sequences run when another arrives, one step after the last of them has joined."""
    registry = ModelRegistry({"lm": str(make_models(tmp_path)["lm"])}, dtype=None)
    engine, model, done = Engine(EngineLimits(batch_window_s=0.0)), registry.find("lm", "generate"), threading.Event()
    written: list[tuple[str, int]] = []  # request and index of each token, in order

    def put(name: str, count: int) -> None:
        def tell(place: int, what: Any) -> None:
            written.append((name, place))
            if len(written) == 2 * MIN_JOIN_RATIO:
                put("new", come)
            if name == "new" and what.finish_reason:
                done.set()

        asked = [GenerationRequest([5, 6, 7], SamplingParams(), 20) for _ in range(count)]
        engine.put(BatchKey(model, GENERATE), RequestJob("", 60.0, tell), asked, [23] * count)

    put("old", 2 * MIN_JOIN_RATIO)
    assert done.wait(30)
    engine.close()
    assert written[: written.index(("new", 0))].count(("old", 0)) == 1 + steps


def test_disconnected_clients_do_not_lower_the_measured_throughput(tmp_path: Path):
    registry = ModelRegistry({"lm": str(make_models(tmp_path)["lm"])}, dtype=None)
    engine, model, began = Engine(EngineLimits(batch_window_s=0.0)), registry.find("lm", "generate"), threading.Event()

    def put(tell: Any) -> RequestJob:
        job = RequestJob("", 60.0, tell)
        engine.put(BatchKey(model, GENERATE), job, [GenerationRequest([5, 6, 7], SamplingParams(), 100)], [103])
        return job

    for _ in range(120):
        left = put(lambda place, what: None)
        left.cancelled = True
        engine.probe(model).result(20)  # the engine has had a turn
    job = put(lambda place, what: began.set())
    assert began.wait(20)
    assert engine.refuse(100, 0.1) is None
    job.cancelled = True
    engine.close()


class _Model:
    """Hashed and compared in Python, so that a dict can change while it is iterated."""

    def __hash__(self) -> int:
        return hash("model")

    def __eq__(self, other: object) -> bool:
        return self is other
