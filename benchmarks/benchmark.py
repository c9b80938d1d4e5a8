"""What all benchmarks share: options, interleaved rounds, the fastest dtype of a side, the last line and its record.

`--record` writes `docs/results/speed/NAME.json`. A record has one run for each kind of machine (`machine.KINDS`);
measuring again replaces the run of this kind and leaves the others. A run holds the command, the date, the machine,
the versions, the texts, the dtype of each side, the seconds (or another unit) of all rounds of each side, and the
JSON object that the benchmark printed as its last line.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from machine import ROOT, machine_facts, machine_kind, versions
from timing import interleaved

SPEED = ROOT / "docs" / "results" / "speed"
FORMAT = "clearhead benchmark 1"


class Benchmark:
    """A run of a benchmark script: `parse` its options, measure, `finish` with the result."""

    def __init__(self, script: str, description: str | None) -> None:
        self.name = Path(script).stem
        self.parser = argparse.ArgumentParser(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        self.parser.add_argument(
            "--record", nargs="?", type=Path, const=SPEED / f"{self.name}.json", metavar="FILE",
            help=f"write the run into this record. Default: docs/results/speed/{self.name}.json.",
        )  # fmt: skip
        self._record: Path | None = None
        self._rounds: dict[str, dict[str, Any]] = {}
        self._texts: list[str] = []
        self._dtypes: dict[str, str] = {}
        self._machine = machine_facts()  # before the benchmark loads the machine itself
        self._began = time.perf_counter()

    def parse(self) -> argparse.Namespace:
        """Return the options of the command line."""
        given = self.parser.parse_args()
        self._record = given.record
        return given

    def reads(self, text: str) -> None:
        """Note which text, images or lengths the sides read."""
        if text not in self._texts:
            self._texts.append(text)

    def runs_in(self, dtypes: Mapping[str, str]) -> None:
        """Note the dtype of each side."""
        self._dtypes |= dtypes

    def add_rounds(self, label: str, rounds: Mapping[str, Sequence[float]], unit: str = "s") -> None:
        """Note all rounds of each side of one comparison."""
        known = self._rounds.setdefault(label, {"unit": unit, "sides": {}})
        for side, values in rounds.items():
            known["sides"].setdefault(side, []).extend(float(f"{value:.6g}") for value in values)

    def interleaved(
        self, label: str, works: Mapping[str, Callable[[], object]], rounds: int, *, budget: float = 60.0
    ) -> dict[str, float]:
        """Return the best time of each function in seconds, interleaved; stops early when the budget is spent."""
        times = interleaved(works, rounds, budget=budget)
        self.add_rounds(label, times)
        return {side: min(values) for side, values in times.items()}

    def fastest_dtype(self, side: str, works: Mapping[str, Callable[[], object]]) -> str:
        """Return the dtype that is fastest for a side on this machine, by a short trial where there is a choice."""
        if len(works) == 1:
            (only,) = works
            self.runs_in({side: only})
            return only
        seconds = {dtype: min(times) for dtype, times in interleaved(works, 2, budget=10.0).items()}
        self.add_rounds(f"trial of {side}", {dtype: [best] for dtype, best in seconds.items()})
        chosen = min(seconds, key=lambda dtype: seconds[dtype])
        self.runs_in({side: chosen})
        return chosen

    def finish(self, result: Mapping[str, Any], peers: Iterable[str] = ()) -> None:
        """Print the result as the last line, with the texts and dtypes, and write the record if `--record` asks."""
        line = {**result, "texts": self._texts, "dtypes": self._dtypes, "machine_kind": machine_kind()}
        if self._record is not None:
            run = {
                "command": shlex.join(["python", f"benchmarks/{self.name}.py", *without_record(sys.argv[1:])]),
                "date": datetime.now(UTC).date().isoformat(),
                "seconds": round(time.perf_counter() - self._began, 1),
                "threads": torch.get_num_threads(),
                "machine": self._machine,
                "versions": versions(tuple(peers)),
                "texts": self._texts,
                "dtypes": self._dtypes,
                "rounds": self._rounds,
                "result": dict(result),
            }
            write_run(self._record, self.name, machine_kind(), run)
        print(json.dumps(line))


def without_record(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without `--record` and its file: they do not change what is measured."""
    kept, values = [], iter(arguments)
    for word in values:
        if word == "--record":
            if (following := next(values, None)) is not None and following.startswith("-"):
                kept.append(following)
        elif not word.startswith("--record="):
            kept.append(word)
    return kept


def write_run(path: Path, benchmark: str, kind: str, run: Mapping[str, Any]) -> None:
    """Write a run into a record, in place of the run of this kind of machine; other kinds keep theirs."""
    record: dict[str, Any] = {"format": FORMAT, "benchmark": benchmark, "runs": {}}
    if path.exists():
        record = json.loads(path.read_text(encoding="utf-8"))
        if record.get("format") != FORMAT or record.get("benchmark") != benchmark:
            raise ValueError(f"{path} is not a record of benchmarks/{benchmark}.py: give --record another file")
    record["runs"] = dict(sorted({**record["runs"], kind: run}.items()))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    text = json.dumps(record, indent=1, ensure_ascii=False)
    text = re.sub(r"\[\s+([-+.\de,\s]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)  # a line each
    temporary.write_text(text + "\n", encoding="utf-8")
    os.replace(temporary, path)
