"""The engine, asked from many threads at once."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, cast

import pytest

from clearhead.decode import Sampling
from clearhead.serve.engine import TOGETHER, Engine, Limits
from clearhead.serve.growing import Asked
from clearhead.serve.jobs import WRITE, Group, Job
from clearhead.serve.shelf import Shelf
from tests.serve.models import make_models


@pytest.fixture
def hurried():
    """Threads take turns as often as they can: what is not guarded is seen half done."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_asking_whether_there_is_room_while_work_comes_and_goes(hurried):
    engine, model, done = Engine(Limits(window=0.0)), cast(Any, _Model()), threading.Event()

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


@pytest.mark.parametrize(("come", "steps"), [(1, TOGETHER), (2, 1)])
def test_who_joins_alone_waits_a_few_steps_for_others(tmp_path: Path, come: int, steps: int):
    """Twelve are written when somebody comes, one step after the last of them has joined."""
    shelf = Shelf({"lm": str(make_models(tmp_path)["lm"])}, dtype=None)
    engine, model, done = Engine(Limits(window=0.0)), shelf.of("lm", "generate"), threading.Event()
    written: list[tuple[str, int]] = []  # whose token, in the order of writing

    def put(name: str, count: int) -> None:
        def tell(place: int, what: Any) -> None:
            written.append((name, place))
            if len(written) == 2 * TOGETHER:
                put("new", come)
            if name == "new" and what.reason:
                done.set()

        asked = [Asked([5, 6, 7], Sampling(), 20) for _ in range(count)]
        engine.put(Group(model, WRITE), Job("", 60.0, tell), asked, [23] * count)

    put("old", 2 * TOGETHER)
    assert done.wait(30)
    engine.close()
    assert written[: written.index(("new", 0))].count(("old", 0)) == 1 + steps


def test_those_who_leave_at_once_do_not_make_it_look_busy(tmp_path: Path):
    shelf = Shelf({"lm": str(make_models(tmp_path)["lm"])}, dtype=None)
    engine, model, began = Engine(Limits(window=0.0)), shelf.of("lm", "generate"), threading.Event()

    def put(tell: Any) -> Job:
        job = Job("", 60.0, tell)
        engine.put(Group(model, WRITE), job, [Asked([5, 6, 7], Sampling(), 100)], [103])
        return job

    for _ in range(120):
        left = put(lambda place, what: None)
        left.cancelled = True
        engine.canary(model).result(20)  # the engine has had a turn
    job = put(lambda place, what: began.set())
    assert began.wait(20)
    assert engine.refuse(100, 0.1) is None
    job.cancelled = True
    engine.close()


class _Model:
    """Found in a table by code of Python's, so that a table can change while it is gone through."""

    def __hash__(self) -> int:
        return hash("model")

    def __eq__(self, other: object) -> bool:
        return self is other
