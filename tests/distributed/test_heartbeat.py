"""Heartbeats: a silent rank is lost, and no other. Ranks are threads here, and a beat takes milliseconds."""

from __future__ import annotations

import os
import signal
import threading
from datetime import timedelta

import pytest
import torch
from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage]

from clearhead.distributed import heartbeat
from clearhead.distributed.heartbeat import Heartbeat

ME, OTHER = 0, 1


class Scene:
    """A store, the processes that were killed, and the reason for ending the attempt."""

    def __init__(self) -> None:
        self.store = TCPStore("localhost", 0, is_master=True, timeout=timedelta(seconds=5))
        self.killed: list[tuple[int, int]] = []
        self.given_up = threading.Event()
        self.reason = ""

    def give_up(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.given_up.set()

    def heartbeat(self, rank: int, local: range = range(2)) -> Heartbeat:
        return Heartbeat(self.store, rank, [ME, OTHER], local)


@pytest.fixture
def scene(monkeypatch) -> Scene:
    scene = Scene()
    monkeypatch.setattr(heartbeat, "INTERVAL_S", 0.01)
    monkeypatch.setattr(heartbeat, "_give_up", scene.give_up)
    monkeypatch.setattr(os, "kill", lambda *given: scene.killed.append(given))
    return scene


def test_two_that_live_leave_each_other_alone(scene):
    with scene.heartbeat(ME), scene.heartbeat(OTHER):
        assert not scene.given_up.wait(1.0)  # a hundred beats


def test_a_silent_rank_is_ended_where_it_runs(scene):
    scene.store.set(f"heartbeat/{OTHER}", "12345 7")
    with scene.heartbeat(ME):
        assert scene.given_up.wait(5.0)
    assert scene.killed[0] == (12345, signal.SIGKILL) and scene.reason == "rank 1 sends no heartbeat"


def test_a_process_of_another_machine_is_not_killed_from_here(scene):
    scene.store.set(f"heartbeat/{OTHER}", "12345 7")
    with scene.heartbeat(ME, local=range(1)):
        assert scene.given_up.wait(5.0)
    assert not scene.killed


def test_a_rank_that_has_left_is_not_lost(scene):
    with scene.heartbeat(OTHER):
        pass
    with scene.heartbeat(ME):
        assert not scene.given_up.wait(1.0)


def test_a_rank_that_starts_late_has_more_time(scene, monkeypatch):
    monkeypatch.setattr(heartbeat, "MAX_START_BEATS", 100)
    with scene.heartbeat(ME):
        assert not scene.given_up.wait(0.5)
        assert scene.given_up.wait(5.0)
    assert not scene.killed  # its process id is unknown


def test_without_the_store_the_attempt_ends(scene):
    with scene.heartbeat(ME):
        scene.store.set(f"heartbeat/{OTHER}", heartbeat.LEFT)
        scene.store = None  # type: ignore[assignment]
        assert scene.given_up.wait(10.0)
    assert scene.reason == "the launcher of this run is gone"


def test_a_process_whose_launcher_is_gone_ends(scene, monkeypatch):
    with scene.heartbeat(ME), scene.heartbeat(OTHER):
        assert not scene.given_up.wait(0.2)
        monkeypatch.setattr(os, "getppid", lambda: 1)
        assert scene.given_up.wait(5.0)
    assert scene.reason == "the launcher of this run is gone" and not scene.killed


def test_a_busy_main_thread_does_not_keep_the_heart_from_beating(scene):
    x = torch.ones(300, 300)
    with scene.heartbeat(ME), scene.heartbeat(OTHER):
        while not scene.given_up.wait(0) and x.sum() < 1e30:
            x = x @ x * 1e-2
    assert not scene.given_up.is_set()
