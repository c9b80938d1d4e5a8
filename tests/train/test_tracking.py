"""Where numbers go: the log, TensorBoard, the terminal."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from clearhead.train.tracking import JsonLinesLog, MetricLogger, ProgressBar, TensorBoardWriter, read_log, time_left


def test_a_log_goes_on_where_the_checkpoint_was(tmp_path):
    path = tmp_path / "log.jsonl"
    log = JsonLinesLog(path, 0)
    log.write({"step": 1})
    known = log.size()
    log.write({"step": 2})
    log.close()
    path.write_bytes(path.read_bytes() + b'{"step": 3')  # a process that was killed while it wrote
    log = JsonLinesLog(path, known)
    log.write({"step": 2, "again": True})
    assert log.size() == path.stat().st_size
    log.close()
    assert read_log(path) == [{"step": 1}, {"step": 2, "again": True}]


def test_a_log_that_has_lost_what_a_checkpoint_knows_is_told(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"step": 1}\n')
    with pytest.raises(ValueError, match=r"has 12 bytes, but had 13 at the last checkpoint"):
        JsonLinesLog(tmp_path / "log.jsonl", 13)


def scalars(folder, tag: str) -> dict[int, float]:
    found = EventAccumulator(str(folder)).Reload()
    return {event.step: event.value for event in found.Scalars(tag)}


def test_tensorboard_reads_what_is_written(tmp_path):
    board = TensorBoardWriter(tmp_path / "board", 0)
    for step in (1, 2, 3):
        board.track(step, {"loss": step / 4, "valid_loss": 7.0})
    assert scalars(tmp_path / "board", "loss") == {1: 0.25, 2: 0.5, 3: 0.75}, "before it is closed"
    board.close()
    again = TensorBoardWriter(tmp_path / "board", 1)  # a process that goes on after step 1
    again.track(2, {"loss": 0.125})
    again.close()
    assert len(list((tmp_path / "board").iterdir())) == 2
    assert scalars(tmp_path / "board", "loss") == {1: 0.25, 2: 0.125}


def test_records_go_everywhere(tmp_path):
    seen = []
    with MetricLogger(tmp_path, 0, 0, [lambda step, numbers: seen.append((step, numbers))]) as records:
        records.write({"step": 1, "epoch": 0, "loss": 0.5}, {"seconds": 1.23456, "tokens_per_second": 9.87654})
        size = records.size()
    text = (tmp_path / "log.jsonl").read_text()
    assert json.loads(text) == {"step": 1, "epoch": 0, "loss": 0.5, "seconds": 1.235, "tokens_per_second": 9.877}
    assert size == len(text)
    assert seen == [(1, {"loss": 0.5, "tokens_per_second": 9.87654})]
    assert scalars(tmp_path / "tensorboard", "loss") == {1: 0.5}


def test_a_tracker_that_fails_is_heard(tmp_path):
    def fails(step, numbers):
        raise ConnectionError("the server is gone")

    with pytest.raises(ConnectionError, match="gone"), MetricLogger(tmp_path, 0, 0, [fails]) as records:
        records.write({"step": 1, "loss": 0.5}, {})
    assert read_log(tmp_path / "log.jsonl") == [{"step": 1, "loss": 0.5}]


def test_a_file_gets_a_line_now_and_then(monkeypatch):
    out = io.StringIO()
    with ProgressBar(1000, 0, shown=True) as screen:
        screen.console = Console(file=out, width=200)
        for step in range(1, 100):
            screen.show(step, 1.5, 2000.0, float(step), None if step < 3 else 60.0)
        screen.say("step 99: valid [loss] 1.2")
    lines = out.getvalue().splitlines()
    assert [line.split()[1] for line in lines[:-1]] == ["1/1,000", "32/1,000", "63/1,000", "94/1,000"]
    assert lines[1] == "step 32/1,000  loss 1.500  2,000 tokens/s  1 min 00 s left"
    assert lines[-1] == "step 99: valid [loss] 1.2"


def test_a_bar_says_why_it_stands_still(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    with ProgressBar(1000, 0, shown=True) as screen:
        screen.console.file = out = io.StringIO()
        screen.show(9, 1.5, 2000.0, 5.0, 60.0)
        screen.measure()
    assert "evaluating on the validation set" in out.getvalue()


def test_nothing_is_shown_unless_asked(capsys):
    with ProgressBar(10, 0, shown=False) as screen:
        screen.show(1, 1.5, 2000.0, 100.0, None)
        screen.say("nothing")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0.4, "0 s left"), (59.6, "1 min 00 s left"), (200, "3 min 20 s left"), (7325, "2 h 02 min left")],
)
def test_the_time_that_is_left(seconds, text):
    assert time_left(seconds) == text
