"""Attention beside torch's own: equal lengths, ragged lengths, forward and backward.

    python benchmarks/attention.py [--full]

`equal_ratio`: `attend` / bare SDPA on equal lengths (float32, the worst of several lengths).
`ragged_speedup`, `bucketed_speedup`: attention with its projections on 64 ragged sequences, against padding
all of them and masking, and against padding within length-sorted buckets of 16.
`backward_ratio`: forward and backward together on equal lengths / SDPA's, summed over the lengths.
"""

from __future__ import annotations

import argparse
import json

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.attention import Layout, MultiHead, attend
from lengths import text_lengths
from timing import interleaved

HEADS, WIDTH = 12, 64


def dense(x: Tensor, count: int, length: int) -> Tensor:
    return x.view(count, length, HEADS, WIDTH).transpose(1, 2)


def equal(lengths: list[int], dtype: torch.dtype, backward: bool, rounds: int) -> dict[int, tuple[float, float]]:
    """Best seconds (ours, SDPA) for each length, at about 4,096 tokens."""
    found = {}
    for length in lengths:
        count = max(1, 4096 // length)
        q, k, v, grad = (torch.randn(count * length, HEADS, WIDTH).to(dtype) for _ in range(4))
        layout = Layout.equal(count, length)
        flat = [x.clone().requires_grad_(backward) for x in (q, k, v)]
        # SDPA gets its favourite layout, (B, H, T, K) contiguous, made beforehand
        theirs = [dense(x, count, length).contiguous().requires_grad_(backward) for x in (q, k, v)]
        their_grad = dense(grad, count, length).contiguous()

        def ours(flat: list[Tensor] = flat, layout: Layout = layout, grad: Tensor = grad) -> None:
            out = attend(*flat, layout, layout)
            if backward:
                torch.autograd.grad(out, flat, grad)

        def bare(theirs: list[Tensor] = theirs, grad: Tensor = their_grad) -> None:
            out = F.scaled_dot_product_attention(*theirs)
            if backward:
                torch.autograd.grad(out, theirs, grad)

        best = interleaved({"ours": ours, "sdpa": bare}, rounds)
        found[length] = (best["ours"], best["sdpa"])
    return found


def ragged(dtype: torch.dtype, rounds: int, seed: int) -> dict[str, float]:
    """Best seconds of attention with its projections: ours, padded with a mask, padded in sorted buckets."""
    lengths = text_lengths(seed=seed)
    layout = Layout.of(lengths)
    model = MultiHead(HEADS * WIDTH, HEADS).to(dtype).eval()
    x = torch.randn(sum(lengths), HEADS * WIDTH).to(dtype)

    def padded(part: Layout, rows: Tensor) -> tuple[Tensor, Tensor]:
        allowed = torch.arange(part.max_len) < part.lengths.unsqueeze(1)
        return part.pad(rows), allowed[:, None, None, :]

    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    buckets = [order[i : i + 16] for i in range(0, len(order), 16)]
    bucketed = [padded(layout.select(b), x[layout.tokens(b)]) for b in buckets]
    everything = padded(layout, x)

    def theirs(batches: list[tuple[Tensor, Tensor]]) -> None:
        for rows, mask in batches:
            q, k, v = (
                f(rows).unflatten(2, (HEADS, WIDTH)).transpose(1, 2) for f in (model.query, model.key, model.value)
            )
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            model.output(out.transpose(1, 2).flatten(2))

    with torch.no_grad():
        return interleaved(
            {
                "ours": lambda: model(x, Layout.of(lengths)),
                "padded": lambda: theirs([everything]),
                "bucketed": lambda: theirs(bucketed),
            },
            rounds,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="more rounds and lengths, a few minutes")
    full = parser.parse_args().full
    rounds = 40 if full else 12
    torch.manual_seed(0)
    lengths = [16, 32, 64, 128, 256, 512, 1024] if full else [32, 64, 128, 512]

    result: dict[str, object] = {}
    detail: dict[str, object] = {}
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        with torch.no_grad():
            forward = equal(lengths, dtype, False, 2 * rounds)
        both = equal(lengths, dtype, True, rounds)
        for what, figures in (("equal", forward), ("backward", both)):
            line = "  ".join(f"{n}: {a * 1e3:.1f}/{b * 1e3:.1f} = {a / b:.2f}" for n, (a, b) in figures.items())
            print(f"{name} {what} (tokens: ours/SDPA ms)  {line}", flush=True)
        runs = [ragged(dtype, rounds if full else max(3, rounds // 3), seed) for seed in ((0, 1, 2) if full else (0,))]
        total = {key: sum(run[key] for run in runs) for key in runs[0]}
        print(
            f"{name} ragged ms  " + "  ".join(f"{k}: {v * 1e3 / len(runs):.1f}" for k, v in total.items()), flush=True
        )
        detail[name] = {
            "equal_ratio": round(sum(a for a, _ in forward.values()) / sum(b for _, b in forward.values()), 3),
            "equal_worst": round(max(a / b for a, b in forward.values()), 3),
            "ragged_speedup": round(total["padded"] / total["ours"], 2),
            "bucketed_speedup": round(total["bucketed"] / total["ours"], 2),
            "backward_ratio": round(sum(a for a, _ in both.values()) / sum(b for _, b in both.values()), 3),
            "backward_worst": round(max(a / b for a, b in both.values()), 3),
        }
    result = {k: detail["float32"][k] for k in ("equal_ratio", "ragged_speedup", "bucketed_speedup", "backward_ratio")}  # type: ignore[index]
    print(json.dumps({**result, "detail": detail}))


if __name__ == "__main__":
    main()
