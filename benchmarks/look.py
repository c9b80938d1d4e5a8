"""The cost of `look`: none while the model runs, little when attention is computed.

    python benchmarks/look.py [--full]

`overhead`: forward inside `look` / outside, on ragged text, in a process that retains freed memory: the cost of
`look` without the page faults of fresh memory (`overhead_cold` includes them). `row_ms_32k`: one exact row of one
head over 32,768 keys. `overview_ratio_8k`: a 512 x 512 max-pooled map of one head at 8,192 tokens / torch's fused
forward of that head. `peak_mb_32k`: memory that capturing 32,768 tokens and computing a row and a tile adds to the
peak of the forward pass; `allowed_mb_32k` is queries, keys and values plus 64 MB. `vs_eager_4k`: time and peak memory
of a forward pass with one head's overview and a row / the same model materializing its weights, at 4,096 tokens.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import psutil
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmark import Benchmark
from clearhead.attention import AttentionCore, AttentionInputs, AttentionMap, Full, Layout, MultiHead, ScaledDot
from clearhead.attention.capture import look
from clearhead.models import build_encoder
from encoder import CONFIG
from lengths import text_lengths
from timing import keep_memory

HEADS, WIDTH = 4, 64


def overhead(bench: Benchmark, label: str, rounds: int) -> float:
    """Return forward time inside `look` / outside, on the ragged encoder of benchmarks/encoder.py."""
    model = build_encoder(replace(CONFIG, num_layers=2)).eval()
    lengths = text_lengths(16, most=128)  # short runs, many of them
    ids = torch.randint(CONFIG.vocab_size, (sum(lengths),))

    def outside() -> None:
        model(ids, Layout.from_lengths(lengths))

    def inside() -> None:
        with look(model):
            model(ids, Layout.from_lengths(lengths))

    with torch.no_grad():
        best = bench.interleaved(label, {"outside": outside, "inside": inside}, rounds)
    return best["inside"] / best["outside"]


def view(tokens: int) -> AttentionMap:
    layout = Layout.from_lengths([tokens])
    q, k, v = (torch.randn(tokens, HEADS, WIDTH) for _ in range(3))
    return AttentionMap(AttentionInputs(q, k, v, layout, layout, Full(), ScaledDot()))


def row_ms(bench: Benchmark, tokens: int, rounds: int) -> float:
    seen = view(tokens)
    return bench.interleaved("row", {"row": lambda: seen.rows([tokens // 3], head=1)}, rounds)["row"] * 1e3


def overview_ratio(bench: Benchmark, tokens: int, rounds: int) -> tuple[float, float]:
    """Return the time of the overview / the fused forward of the head, in SDPA's preferred memory layout."""
    seen = view(tokens)
    q, k, v = (x[:, 1].contiguous()[None, None] for x in (seen.inputs.q, seen.inputs.k, seen.inputs.v))
    works: dict[str, Callable[[], object]] = {
        "overview": lambda: seen.overview(1),
        "fused": lambda: F.scaled_dot_product_attention(q, k, v),
    }
    best = bench.interleaved("overview", works, rounds)
    return best["overview"] / best["fused"], best["overview"] * 1e3


class Eager(AttentionCore):
    """Attention that materializes all weights in memory."""

    def forward(self, inputs: AttentionInputs) -> Tensor:
        q, k, v = (x.transpose(0, 1) for x in (inputs.q, inputs.k, inputs.v))
        self.kept = torch.softmax(q @ k.transpose(1, 2) * q.shape[2] ** -0.5, dim=-1)
        return (self.kept @ v).transpose(0, 1)


class Peak:
    """The peak memory of the process inside the block, sampled by a thread."""

    def __enter__(self) -> Peak:
        self._process, self.most, self._stop = psutil.Process(), 0, threading.Event()
        self.before = self._process.memory_info().rss
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.is_set():
            self.most = max(self.most, self._process.memory_info().rss)
            time.sleep(0.001)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def mb(self) -> float:
        return max(0, self.most - self.before) / 2**20


def run_apart(what: str, tokens: int) -> dict[str, float]:
    """Return seconds and peak MB of one forward of a 256-wide, 4-head attention layer in a separate process."""
    out = subprocess.run(
        [sys.executable, __file__, "--apart", what, str(tokens)], capture_output=True, text=True, check=True
    )
    return json.loads(out.stdout.splitlines()[-1])


def apart(what: str, tokens: int) -> None:
    torch.manual_seed(0)
    model = MultiHead(HEADS * WIDTH, HEADS, core=Eager() if what == "eager" else AttentionCore()).eval()
    x, layout = torch.randn(tokens, HEADS * WIDTH), Layout.from_lengths([tokens])
    with torch.no_grad():
        model(x[:64], Layout.from_lengths([64]))
        with Peak() as peak:
            begin = time.perf_counter()
            if what == "look":
                with look(model) as seen:
                    model(x, layout)
                seen["attention"].rows([tokens // 3], head=1)
                last = slice(tokens - tokens // 4, tokens)
                seen["attention"].tile(1, last, last, size=(256, 256)) if tokens > 8192 else seen["attention"].overview(
                    1
                )
            else:
                model(x, layout)
            seconds = time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "mb": peak.mb}))


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="more rounds, a few minutes")
    bench.parser.add_argument("--apart", nargs=2, help=argparse.SUPPRESS)
    args = bench.parse()
    if args.apart:
        apart(args.apart[0], int(args.apart[1]))
        return
    torch.manual_seed(0)
    many = 5 if args.full else 1
    with torch.no_grad():
        cold = overhead(bench, "forward, memory given back", 40 * many)
        keep_memory()
        slower = overhead(bench, "forward", 100 * many)
        print(
            f"forward inside look / outside: {slower:.3f}; where memory is given back and fetched: {cold:.3f}",
            flush=True,
        )
        row = row_ms(bench, 32_768, 20 * many)
        print(f"one row of 32,768 keys: {row:.2f} ms", flush=True)
        ratio, milliseconds = overview_ratio(bench, 8_192, 4 * many)
        print(
            f"512 x 512 overview of 8,192 tokens: {milliseconds:.0f} ms, {ratio:.2f} of the fused forward", flush=True
        )
    plain = [run_apart("plain", 32_768) for _ in range(many)]
    looked = [run_apart("look", 32_768) for _ in range(many)]
    extra = min(r["mb"] for r in looked) - min(r["mb"] for r in plain)
    allowed = 3 * 32_768 * HEADS * WIDTH * 4 / 2**20 + 64
    print(f"extra memory at 32,768 tokens: {extra:.0f} MB of {allowed:.0f} allowed", flush=True)
    eager = [run_apart("eager", 4_096) for _ in range(2 * many)]
    ours = [run_apart("look", 4_096) for _ in range(2 * many)]
    for name, runs in (("eager", eager), ("look", ours)):
        bench.add_rounds("forward with a map and a row, 4,096 tokens", {name: [r["seconds"] for r in runs]})
        bench.add_rounds("its peak memory", {name: [r["mb"] for r in runs]}, unit="MB")
    best = {
        name: {key: min(r[key] for r in runs) for key in ("seconds", "mb")}
        for name, runs in (("eager", eager), ("look", ours))
    }
    print(f"4,096 tokens, eager {best['eager']}, look {best['look']}")
    versus = {
        "time": round(best["look"]["seconds"] / best["eager"]["seconds"], 3),
        "memory": round(best["look"]["mb"] / best["eager"]["mb"], 3),
    }
    bench.reads("16 log-normal lengths, mean 50, maximum 128; random numbers for the long maps")
    bench.runs_in({"all sides": "float32"})
    bench.finish({
        "overhead": round(slower, 3),
        "overhead_cold": round(cold, 3),
        "row_ms_32k": round(row, 2),
        "overview_ratio_8k": round(ratio, 3),
        "peak_mb_32k": round(extra, 1),
        "vs_eager_4k": versus,
        "allowed_mb_32k": allowed,
    })  # fmt: skip


if __name__ == "__main__":
    main()
