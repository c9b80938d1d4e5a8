"""Attention compared with PyTorch's SDPA: equal lengths, ragged lengths, forward and backward.

    python benchmarks/attention.py [--full]

`equal_ratio`: `attend` / SDPA on equal lengths, forward. `backward_ratio`: the same, forward and backward
together. Both sides read queries, keys and values where a model's projections leave them, (tokens, heads, width),
and leave the output there too; times are summed over the lengths, in float32 and bfloat16. `detail` has each dtype
alone, the worst single length, and the ratio to SDPA on (batch, heads, length, width) copies made beforehand.
`ragged_speedup`, `bucketed_speedup`: attention with its projections on 64 ragged sequences (float32), against
padding all of them and masking, and against padding within length-sorted buckets of 16.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmark import Benchmark
from clearhead.attention import Layout, MultiHead, attend
from lengths import text_lengths
from timing import FAST

HEADS, WIDTH = 12, 64


def dense(x: Tensor, count: int, length: int) -> Tensor:
    return x.view(count, length, HEADS, WIDTH).transpose(1, 2)


def equal(
    bench: Benchmark, lengths: list[int], dtype: torch.dtype, backward: bool, rounds: int
) -> dict[int, dict[str, float]]:
    """Return the best seconds of `attend`, SDPA, and SDPA on its preferred layout, per length, at 4,096 tokens."""
    found = {}
    for length in lengths:
        count = max(1, 4096 // length)
        layout = Layout.uniform(count, length)
        q, k, v, grad = (torch.randn(count * length, HEADS, WIDTH).to(dtype) for _ in range(4))
        rows = [x.requires_grad_(backward) for x in (q, k, v)]
        blocks = [dense(x.detach(), count, length).contiguous().requires_grad_(backward) for x in (q, k, v)]
        block_grad = dense(grad, count, length).contiguous()

        def finish(out: Tensor, inputs: list[Tensor], grad: Tensor) -> None:
            if backward:
                torch.autograd.grad(out, inputs, grad)

        def ours(rows: list[Tensor] = rows, layout: Layout = layout, grad: Tensor = grad) -> None:
            q, k, v = rows
            finish(attend(q, k, v, layout, layout), rows, grad)

        def sdpa(rows: list[Tensor] = rows, count: int = count, length: int = length, grad: Tensor = grad) -> None:
            q, k, v = (dense(x, count, length) for x in rows)
            out = F.scaled_dot_product_attention(q, k, v)
            finish(out.transpose(1, 2).reshape(grad.shape), rows, grad)

        def preferred(blocks: list[Tensor] = blocks, grad: Tensor = block_grad) -> None:
            q, k, v = blocks
            finish(F.scaled_dot_product_attention(q, k, v), blocks, grad)

        label = f"{str(dtype).removeprefix('torch.')} {'backward' if backward else 'forward'} {length}"
        found[length] = bench.interleaved(label, {"ours": ours, "sdpa": sdpa, "preferred": preferred}, rounds)
    return found


def ragged(bench: Benchmark, dtype: torch.dtype, rounds: int, seed: int) -> dict[str, float]:
    """Return the best seconds of attention with projections: ragged, padded with a mask, padded in sorted buckets."""
    lengths = text_lengths(seed=seed)
    layout = Layout.from_lengths(lengths)
    model = MultiHead(HEADS * WIDTH, HEADS).to(dtype).eval()
    x = torch.randn(sum(lengths), HEADS * WIDTH).to(dtype)

    def padded(part: Layout, rows: Tensor) -> tuple[Tensor, Tensor]:
        allowed = torch.arange(part.max_len) < part.lengths.unsqueeze(1)
        return part.pad(rows), allowed[:, None, None, :]

    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    buckets = [order[i : i + 16] for i in range(0, len(order), 16)]
    bucketed = [padded(layout.select(b), x[layout.row_indices(b)]) for b in buckets]
    everything = padded(layout, x)

    def theirs(batches: list[tuple[Tensor, Tensor]]) -> None:
        for rows, mask in batches:
            q, k, v = (
                f(rows).unflatten(2, (HEADS, WIDTH)).transpose(1, 2) for f in (model.query, model.key, model.value)
            )
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            model.output(out.transpose(1, 2).flatten(2))

    with torch.no_grad():
        return bench.interleaved(
            f"{str(dtype).removeprefix('torch.')} ragged {seed}",
            {
                "ours": lambda: model(x, Layout.from_lengths(lengths)),
                "padded": lambda: theirs([everything]),
                "bucketed": lambda: theirs(bucketed),
            },
            rounds,
        )


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="more rounds and lengths, a few minutes")
    full = bench.parse().full
    torch.manual_seed(0)
    lengths = [16, 32, 64, 128, 256, 512, 1024] if full else [32, 64, 128, 512]

    detail: dict[str, dict[str, float]] = {}
    sums = {"equal": [0.0, 0.0], "backward": [0.0, 0.0]}
    for dtype in (torch.float32, torch.bfloat16)[: len(FAST)]:
        name = str(dtype).removeprefix("torch.")
        rounds = 20 if full else 6
        with torch.no_grad():
            forward = equal(bench, lengths, dtype, False, 2 * rounds)
        both = equal(bench, lengths, dtype, True, rounds)
        detail[name] = {}
        for what, figures in (("equal", forward), ("backward", both)):
            line = "  ".join(
                f"{n}: {t['ours'] * 1e3:.1f}/{t['sdpa'] * 1e3:.1f} = {t['ours'] / t['sdpa']:.2f}"
                for n, t in figures.items()
            )
            print(f"{name} {what} (tokens: ours/SDPA ms)  {line}", flush=True)
            total = {key: sum(t[key] for t in figures.values()) for key in ("ours", "sdpa", "preferred")}
            sums[what] = [sums[what][0] + total["ours"], sums[what][1] + total["sdpa"]]
            detail[name] |= {
                f"{what}_ratio": round(total["ours"] / total["sdpa"], 3),
                f"{what}_worst": round(max(t["ours"] / t["sdpa"] for t in figures.values()), 3),
                f"{what}_to_preferred": round(total["ours"] / total["preferred"], 3),
            }
        runs = [ragged(bench, dtype, 8 if full else rounds // 2, seed) for seed in ((0, 1, 2) if full else (0,))]
        total = {key: sum(run[key] for run in runs) / len(runs) for key in runs[0]}
        print(f"{name} ragged ms  " + "  ".join(f"{k}: {v * 1e3:.1f}" for k, v in total.items()), flush=True)
        detail[name] |= {
            f"{k}_speedup": round(total[p] / total["ours"], 2)
            for k, p in (("ragged", "padded"), ("bucketed", "bucketed"))
        }
    bench.reads("64 log-normal lengths, mean 50, maximum 512; random numbers in place of tokens")
    bench.runs_in({"all sides": ", then ".join(sorted(FAST, reverse=True))})
    bench.finish({
        "equal_ratio": round(sums["equal"][0] / sums["equal"][1], 3),
        "ragged_speedup": detail["float32"]["ragged_speedup"],
        "bucketed_speedup": detail["float32"]["bucketed_speedup"],
        "backward_ratio": round(sums["backward"][0] / sums["backward"][1], 3),
        "detail": detail,
    })  # fmt: skip


if __name__ == "__main__":
    main()
