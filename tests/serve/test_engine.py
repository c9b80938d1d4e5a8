"""The engine, asked from many threads at once."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, cast

import pytest

from clearhead.serve.engine import Engine, Limits


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


class _Model:
    """Found in a table by code of Python's, so that a table can change while it is gone through."""

    def __hash__(self) -> int:
        return hash("model")

    def __eq__(self, other: object) -> bool:
        return self is other
