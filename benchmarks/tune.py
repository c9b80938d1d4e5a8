"""Measure the thresholds that choose between attention kernels on this machine, and write them to a file.

    python benchmarks/tune.py [--full] [--out FILE]

Each threshold of `clearhead.attention.tuning` gets a few candidates, timed interleaved on the cases that it decides. A
candidate replaces the default if it is at least 3 % faster over these cases. Use the file with
`CLEARHEAD_TUNING=FILE`. `cache_masks_below` limits memory, not time, and keeps its default.

`thresholds`: the chosen values. `changed`: those that differ from the defaults. `gain`: default time / chosen time of
each.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmark import Benchmark
from clearhead.attention import Causal, Layout, Window, attend
from clearhead.attention.capture import look
from clearhead.attention.tuning import Tuning, use_tuning, write_tuning
from clearhead.models import TransformerConfig, build_encoder
from clearhead.models.precision import has_bfloat16
from lengths import text_lengths

MIN_GAIN = 1.03
HEADS, HEAD_DIM = 12, 64

Work = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The attention of one batch."""

    lengths: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    backward: bool = False
    dropout: float = 0.0
    window: int = 0
    causal: bool = False

    def work(self) -> Work:
        """Return a function that computes the attention, with a layout and plans of its own."""
        layout = Layout.from_lengths(list(self.lengths))
        rows = [torch.randn(layout.num_tokens, HEADS, HEAD_DIM).to(self.dtype) for _ in range(3)]
        rows = [x.requires_grad_(self.backward) for x in rows]
        options: dict[str, Any] = {"dropout": self.dropout}
        if self.window or self.causal:
            options["mask"] = Window(self.window, self.window) if self.window else Causal()

        def run() -> None:
            q, k, v = rows
            out = attend(q, k, v, layout, layout, **options)
            if self.backward:
                torch.autograd.grad(out, rows, out.detach())

        return run


@dataclass(frozen=True)
class NewShapes:
    """An encoder that reads batches whose token counts have not occurred before."""

    mean: int

    def work(self) -> Work:
        config = TransformerConfig(vocab_size=100, width=384, num_layers=2, num_heads=12, ffn_dim=1536, max_len=512)
        encoder, seed = build_encoder(config).eval(), iter(range(10**6))

        def run() -> None:
            with torch.no_grad():
                for _ in range(8):
                    layout = Layout.from_lengths(text_lengths(32, self.mean, 256, next(seed)))
                    encoder(torch.zeros(layout.num_tokens, dtype=torch.long), layout)

        return run


@dataclass(frozen=True)
class Weights:
    """The mean attention of a head over one long sequence, computed on request."""

    length: int

    def work(self) -> Work:
        config = TransformerConfig(vocab_size=100, width=64, num_layers=1, num_heads=1, ffn_dim=64, max_len=self.length)
        encoder, layout = build_encoder(config).eval(), Layout.from_lengths([self.length])
        with torch.no_grad(), look(encoder) as seen:
            encoder(torch.randint(100, (self.length,)), layout)
        captured = seen["0"]
        return lambda: captured.entropy(0)


def uniform(lengths: tuple[int, ...], tokens: int, **options: Any) -> list[Batch]:
    """Batches of equal lengths with about this many tokens each."""
    return [Batch(lengths=(length,) * max(1, tokens // length), **options) for length in lengths]


def ragged(count: int, mean: float, maximum: int, **options: Any) -> Batch:
    return Batch(lengths=tuple(text_lengths(count, mean, maximum)), **options)


BF16: dict[str, Any] = {"dtype": torch.bfloat16}
SINGLE = [Batch(lengths=(n,), backward=True) for n in (16, 24, 32, 48, 96, 144, 192, 256)]
SHORT = [ragged(n, 20, 40, backward=back) for n in (4, 8, 12, 20) for back in (False, True)]
SPARSE = [Batch(lengths=(4096,), window=128), Batch(lengths=(2048,), window=64, backward=True)]
MIXED = [ragged(64, 50, 512), ragged(64, 50, 512, backward=True), ragged(16, 120, 400), ragged(64, 16, 64)]

CASES: dict[str, tuple[tuple[Any, ...], list[Any]]] = {
    "fused_backward_float32_gap": (
        ((1, 2), (24**2, 128**2), (32**2, 192**2), (32**2, 288**2), (64**2, 192**2)),
        SINGLE,
    ),
    "fused_forward_bfloat16_pairs": ((1, 8**2, 12**2, 24**2, 48**2), uniform((6, 10, 16, 32, 64), 2048, **BF16)),
    "fused_backward_bfloat16_pairs": (
        (256**2, 512**2, 1024**2, 2048**2),
        uniform((128, 384, 768, 1536), 1536, backward=True, **BF16),
    ),
    "float32_backward_below": (
        (1, 128, 256, 448, 640),
        [ragged(16, 60, 100, backward=True, **BF16), ragged(8, 150, 400, backward=True, **BF16)],
    ),
    "bucket_min_sequences": ((4, 8, 12, 16, 24), SHORT),
    "bucket_max_len": ((32, 64, 96, 128), [ragged(32, 30, 60), ragged(32, 40, 90), ragged(24, 60, 120)]),
    "bucket_max_len_dropout": (
        (64, 256, 512, 1024),
        [ragged(32, 50, 200, dropout=0.1, backward=True), ragged(8, 200, 500, dropout=0.1, backward=True)],
    ),
    "bucket_multiple": ((8, 16, 32), [ragged(64, 20, 60), ragged(64, 20, 60, backward=True)]),
    "bucket_multiple_long": ((16, 32, 64), [ragged(32, 100, 400, dropout=0.1, backward=True)]),
    "gather_below": ((16, 32, 48, 96, 192), MIXED),
    "padding_pairs": ((256, 512, 1024, 2048, 4096), MIXED),
    "key_multiple": ((8, 16, 32), MIXED),
    "key_multiple_max": ((200, 400, 800), [ragged(16, 120, 400), ragged(8, 300, 790)]),
    "block_scores": (
        (2**18, 2**19, 2**20, 2**21),
        [ragged(64, 30, 64), ragged(64, 30, 64, backward=True), ragged(32, 100, 400, dropout=0.1, backward=True)],
    ),
    "strip_queries": ((256, 512, 1024), [Batch(lengths=(4096,), window=128), Batch(lengths=(2048, 3000), window=256)]),
    "sparse_block": ((32, 64, 128), SPARSE),
    "sparse_tile_scores": ((2**16, 2**17, 2**18, 2**19, 2**20), SPARSE),
    "sparse_from": ((512, 1024, 2048, 4096), [Batch(lengths=(n,), window=64) for n in (768, 1536, 3072)]),
    "sparse_fraction": ((2, 4, 8), [Batch(lengths=(3072,), window=n) for n in (200, 500)]),
    "weight_block_scores": ((2**19, 2**20, 2**21, 2**22), [Weights(2048), Weights(4096)]),
    "row_padding_fraction": ((8, 16, 32, 64), [NewShapes(30), NewShapes(60)]),
    "row_multiple_min": ((1, 8, 16, 32), [NewShapes(30)]),
    "row_multiple_max": ((64, 128, 256, 512), [NewShapes(60)]),
}

BFLOAT16_ONLY = ("fused_forward_bfloat16_pairs", "fused_backward_bfloat16_pairs", "float32_backward_below")


def with_threshold(name: str, value: Any, work: Work) -> Work:
    def run() -> None:
        with use_tuning(**{name: value}):
            work()

    return run


def measure(
    bench: Benchmark, name: str, candidates: tuple[Any, ...], cases: list[Any], rounds: int, seconds: float
) -> dict[Any, float]:
    """Return each candidate's time relative to the default: the geometric mean over the cases."""
    default, logs = getattr(Tuning(), name), dict.fromkeys(candidates, 0.0)
    for number, case in enumerate(cases):
        works = {str(value): with_threshold(name, value, case.work()) for value in candidates}
        best = bench.interleaved(f"{name}, case {number + 1}", works, rounds, budget=seconds / len(cases))
        for value in candidates:
            logs[value] += math.log(best[str(value)] / best[str(default)])
    return {value: math.exp(total / len(cases)) for value, total in logs.items()}


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="more rounds")
    bench.parser.add_argument("--out", type=Path, help="file to write; use it with CLEARHEAD_TUNING=FILE")
    args = bench.parse()
    torch.manual_seed(0)
    rounds, seconds = (60, 30.0) if args.full else (4, 1.0)
    chosen, gains, started = asdict(Tuning()), {}, time.perf_counter()
    for name, (candidates, cases) in CASES.items():
        default = chosen[name]
        if name in BFLOAT16_ONLY and not args.full and not has_bfloat16():
            print(f"{name}  default {default}, not measured: no bfloat16 hardware (--full measures it)", flush=True)
            continue
        ratios = measure(bench, name, candidates, cases, rounds, seconds)
        best = min(ratios, key=lambda value: ratios[value])
        if 1 / ratios[best] >= MIN_GAIN:
            chosen[name], gains[name] = best, round(1 / ratios[best], 3)
        table = "  ".join(f"{value}: {ratio:.3f}" for value, ratio in ratios.items())
        print(f"{name}  default {default}, chosen {chosen[name]}   {table}", flush=True)
    if args.out:
        write_tuning(Tuning(**chosen), args.out)
        print(f"written: {args.out}")
    summary = {
        "thresholds": chosen,
        "changed": {name: chosen[name] for name in gains},
        "gain": gains,
        "seconds": round(time.perf_counter() - started, 1),
    }
    bench.reads("lengths and shapes in the script; random numbers in place of tokens")
    bench.runs_in({"all candidates": "that of the case"})
    bench.finish(summary)


if __name__ == "__main__":
    main()
