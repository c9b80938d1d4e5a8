"""Signals as wishes: noted, granted, and the second one at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from clearhead.train.signals import Interrupted, SignalGuard, Stopped


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_is_noted_and_nothing_else(number):
    before = signal.getsignal(number)
    with SignalGuard() as stop:
        assert stop.wanted == 0
        send(number)
        assert stop.wanted == number
    assert signal.getsignal(number) is before


def test_where_a_launcher_stands_above_a_second_signal_says_nothing_new():
    with SignalGuard(launched=True) as stop:
        send(signal.SIGTERM)
        send(signal.SIGINT)
        assert stop.wanted == signal.SIGTERM
        with stop.breaking():
            send(signal.SIGTERM)


def run(code: str) -> subprocess.CompletedProcess[str]:
    head = "import os, signal\nfrom clearhead.train.signals import *\ndef send(n): os.kill(os.getpid(), n)\n"
    return subprocess.run([sys.executable, "-c", head + textwrap.dedent(code)], capture_output=True, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_the_process_at_once(number):
    done = run(
        f"with SignalGuard():\n    send({int(number)})\n    print('here', flush=True)\n    send({int(number)})\n    print('not here')"
    )
    assert done.returncode == -number
    assert done.stdout == "here\n"


def test_what_can_be_done_again_is_broken_off():
    with SignalGuard() as stop:
        with pytest.raises(Interrupted), stop.breaking():
            send(signal.SIGTERM)
        assert stop.wanted == signal.SIGTERM
        with pytest.raises(Interrupted), stop.breaking():
            pytest.fail("a signal that came before breaks it off too")


def test_whatever_comes_of_it_is_broken_off():
    """Code that is not Python's may turn what a handler raises into an error of its own."""

    def foreign() -> None:
        try:
            send(signal.SIGTERM)
        except BaseException:
            raise RuntimeError("enforce fail") from None

    with SignalGuard() as stop, pytest.raises(Interrupted), stop.breaking():
        foreign()


def test_a_fault_is_a_fault():
    with SignalGuard() as stop, pytest.raises(ZeroDivisionError), stop.breaking():
        _ = 1 / 0


def test_after_the_block_a_signal_is_only_noted():
    with SignalGuard() as stop:
        with stop.breaking():
            pass
        send(signal.SIGINT)
        assert stop.wanted == signal.SIGINT


def test_another_thread_listens_to_nothing_and_works_all_the_same():
    wanted = []

    def work() -> None:
        with SignalGuard() as stop:
            wanted.append(stop.wanted)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert wanted == [0]


def test_what_is_said():
    stopped = Stopped(1234, signal.SIGINT)
    assert str(stopped) == "stopped after step 1,234" and stopped.signal == 2
