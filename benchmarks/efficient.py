"""Efficient attention beside exact attention at 65,536 tokens, one head of width 64.

    python benchmarks/efficient.py [--full]

- `bigbird_64k_vs_exact`, `window_64k_vs_exact`, `lsh_64k_vs_exact`, `linformer_64k_vs_exact`,
  `performer_64k_vs_exact`: the time of exact attention (torch's fused kernel) divided by the method's, forward.
- `backward_64k_vs_exact`: the same for forward and backward together, by method (`--full` only).
- `slopes`: of log time against log length, from 8,192 to 65,536 tokens.
- `peak_mb_64k`: the most memory in use while a method runs forward, with its inputs and output, by method;
  `inputs_and_output_mb`: what these need alone.
- `of_bare_blocks`: the time of the bare products of the blocks of BigBird's pattern, on blocks that are already
  gathered, divided by the method's.

The last line is a JSON object. Without `--full`, exact attention runs once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmark import Benchmark
from clearhead.attention.attend import dispatch
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels.block_plan import BlockCall
from clearhead.efficient import make_method
from clearhead.efficient.cost import peak_megabytes, random_inputs, seconds, slope
from timing import keep_memory

LENGTH, WIDTH = 65_536, 64
METHODS: dict[str, dict[str, Any]] = {
    "bigbird": {"kind": "bigbird", "window": 3, "global_blocks": 2, "random": 3},
    "window": {"kind": "longformer", "window": 512, "global_tokens": 0},
    "lsh": {"kind": "lsh"},
    "linformer": {"kind": "linformer", "rank": 256},
    "performer": {"kind": "performer", "features": 256},
}


def backward(x: AttentionInputs, run: Callable[[AttentionInputs], torch.Tensor]) -> None:
    out = run(x)
    torch.autograd.grad(out, (x.q, x.k, x.v), out.detach())


def bare_blocks(x: AttentionInputs) -> Callable[[], object]:
    """The products of the tiles of BigBird's pattern alone, on blocks that are gathered beforehand."""
    method = make_method(METHODS["bigbird"])
    under_mask = method.exact_inputs(x)
    assert under_mask is not None
    plan = BlockCall(x.layout_q, x.layout_k, under_mask.mask).plan(0, range(1))
    q, k, v = x.q[:, :1], x.k[:, :1], x.v[:, :1]
    # one gathered tile of each shape
    shapes = [(tile.t1 - tile.t0, *tile.keys.shape) for tile in plan.tiles]
    each = dict(zip(shapes, plan.tiles, strict=True))
    gathered = {
        s: (t.queries(q)[:, 0], t.gather(k)[:, 0].contiguous().transpose(1, 2), t.gather(v)[:, 0].contiguous())
        for s, t in each.items()
    }

    def run() -> None:
        for shape in shapes:
            queries, keys, values = gathered[shape]
            torch.bmm(torch.bmm(queries, keys), values)

    return run


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="more rounds, and backward")
    args = bench.parse()
    torch.manual_seed(0)
    keep_memory()
    rounds = 7 if args.full else 3
    lengths = [LENGTH // 8, LENGTH // 4, LENGTH // 2, LENGTH]
    inputs = {n: random_inputs(n, 1, WIDTH) for n in lengths}
    methods = {n: {name: make_method(options, max_len=n) for name, options in METHODS.items()} for n in lengths}
    result: dict[str, object] = {}
    with torch.no_grad():
        exact_time = seconds(None, inputs[LENGTH], 3 if args.full else 1)
        bench.add_rounds(f"forward {LENGTH}", {"exact, best": [exact_time]})
        print(f"exact: {exact_time:.1f} s at {LENGTH:,} tokens", flush=True)
        times: dict[str, dict[int, float]] = {name: {} for name in METHODS}
        for n in lengths:
            works: dict[str, Callable[[], object]] = {name: partial(m, inputs[n]) for name, m in methods[n].items()}
            if n == LENGTH:
                works["bare"] = bare_blocks(inputs[n])
            for name, best in bench.interleaved(f"forward {n}", works, rounds).items():
                if name == "bare":
                    result["of_bare_blocks"] = round(best / times["bigbird"][LENGTH], 3)
                else:
                    times[name][n] = best
    for name, measured in times.items():
        result[f"{name}_64k_vs_exact"] = round(exact_time / measured[LENGTH], 1)
        print(f"{name}: {measured[LENGTH]:.3f} s, {exact_time / measured[LENGTH]:.0f} times as fast", flush=True)
    result["slopes"] = {name: round(slope(measured), 3) for name, measured in times.items()}
    if args.full:
        x = inputs[LENGTH]
        for tensor in (x.q, x.k, x.v):
            tensor.requires_grad_()
        begin = time.perf_counter()
        backward(x, dispatch)
        slow = time.perf_counter() - begin
        bench.add_rounds("backward", {"exact": [slow]})
        print(f"exact with backward: {slow:.1f} s", flush=True)
        works = {name: partial(backward, x, method) for name, method in methods[LENGTH].items()}
        fast = bench.interleaved("backward", works, 3)
        result["backward_64k_vs_exact"] = {name: round(slow / best, 1) for name, best in fast.items()}
    result["peak_mb_64k"] = {
        name: round(peak_megabytes(options, LENGTH, 1, WIDTH), 1) for name, options in METHODS.items()
    }
    result["inputs_and_output_mb"] = 4 * LENGTH * WIDTH * 4 / 2**20
    bench.reads(f"random numbers at {LENGTH:,} positions, one head of width {WIDTH}")
    bench.runs_in({"all sides": "float32"})
    bench.finish(result)


if __name__ == "__main__":
    main()
