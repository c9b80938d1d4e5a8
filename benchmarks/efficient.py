"""Efficient attention beside exact attention at 65,536 tokens, one head of width 64.

    python -m benchmarks.efficient [--full]

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

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import torch

from benchmarks.timing import interleaved, keep_memory
from clearhead.attention import Layout, ScaledDot
from clearhead.attention.attend import dispatch
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels.block_plan import BlockCall
from clearhead.attention.masks import Full
from clearhead.efficient import LSH, AttentionMethod, BigBird, Linformer, Longformer, Performer
from clearhead.models.precision import has_bfloat16

LENGTH, WIDTH = 65_536, 64
METHODS: dict[str, Callable[[int], AttentionMethod]] = {
    "bigbird": lambda n: BigBird(window=3, global_blocks=2, random=3),
    "window": lambda n: Longformer(window=512, global_tokens=0),
    "lsh": lambda n: LSH(),
    "linformer": lambda n: Linformer(rank=256, max_len=n),
    "performer": lambda n: Performer(features=256),
}


def attention_inputs(length: int, grad: bool = False) -> AttentionInputs:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(length, 1, WIDTH, generator=generator).requires_grad_(grad) for _ in range(3))
    layout = Layout.from_lengths([length])
    return AttentionInputs(q, k, v, layout, layout, Full(), ScaledDot())


def exact(x: AttentionInputs) -> torch.Tensor:
    return dispatch(x, kernel="sdpa")


def backward(x: AttentionInputs, run: Callable[[AttentionInputs], torch.Tensor]) -> None:
    out = run(x)
    torch.autograd.grad(out, (x.q, x.k, x.v), out.detach())


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def slope(times: dict[int, float]) -> float:
    """The least-squares slope of log time against log length."""
    points = [(math.log(n), math.log(t)) for n, t in times.items()]
    x, y = (sum(p[i] for p in points) / len(points) for i in (0, 1))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def peak_mb(name: str) -> float:
    """The most memory that a method needs with its inputs and output, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.efficient", "--memory", name]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure_memory(name: str) -> float:
    def resident(key: str) -> float:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) / 1024 for line in file if line.startswith(key))

    small = attention_inputs(4096)
    method = METHODS[name](4096)
    with torch.no_grad():
        method(small)  # what is allocated once
        before = resident("VmRSS")
        x = attention_inputs(LENGTH)
        method = METHODS[name](LENGTH)
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the peak starts again
        method(x)
    return resident("VmHWM") - before


def bare_blocks(x: AttentionInputs) -> Callable[[], object]:
    """The products of the tiles of BigBird's pattern alone, on blocks that are gathered beforehand."""
    method = METHODS["bigbird"](LENGTH)
    under_mask = method.exact_inputs(x)
    assert under_mask is not None
    plan = BlockCall(x.layout_q, x.layout_k, under_mask.mask).plan(0, 0)
    q, k, v = x.q[:, 0], x.k[:, 0].contiguous(), x.v[:, 0].contiguous()
    # one gathered tile of each shape
    gathered = {t.keys.shape: (t.queries(q), t.gather(k).transpose(1, 2), t.gather(v)) for t in plan.tiles}

    def run() -> None:
        for tile in plan.tiles:
            queries, keys, values = gathered[tile.keys.shape]
            torch.bmm(torch.bmm(queries, keys), values)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="more rounds, and backward")
    parser.add_argument("--memory", choices=METHODS, help="print the peak memory of one method in MB, and stop")
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.memory:
        print(measure_memory(args.memory))
        return
    keep_memory()
    rounds = 7 if args.full else 3
    lengths = [LENGTH // 8, LENGTH // 4, LENGTH // 2, LENGTH]
    inputs = {n: attention_inputs(n) for n in lengths}
    methods = {n: {name: make(n) for name, make in METHODS.items()} for n in lengths}
    result: dict[str, object] = {}
    with torch.no_grad():
        exact_time = min(seconds(lambda: exact(inputs[LENGTH])) for _ in range(3 if args.full else 1))
        print(f"exact: {exact_time:.1f} s at {LENGTH:,} tokens", flush=True)
        times: dict[str, dict[int, float]] = {name: {} for name in METHODS}
        for n in lengths:
            works: dict[str, Callable[[], object]] = {name: partial(m, inputs[n]) for name, m in methods[n].items()}
            if n == LENGTH:
                works["bare"] = bare_blocks(inputs[n])
            for name, best in interleaved(works, rounds).items():
                if name == "bare":
                    result["of_bare_blocks"] = round(best / times["bigbird"][LENGTH], 3)
                else:
                    times[name][n] = best
    for name, measured in times.items():
        result[f"{name}_64k_vs_exact"] = round(exact_time / measured[LENGTH], 1)
        print(f"{name}: {measured[LENGTH]:.3f} s, {exact_time / measured[LENGTH]:.0f} times as fast", flush=True)
    result["slopes"] = {name: round(slope(measured), 3) for name, measured in times.items()}
    if args.full:
        x = attention_inputs(LENGTH, grad=True)
        slow = seconds(lambda: backward(x, exact))
        print(f"exact with backward: {slow:.1f} s", flush=True)
        works = {name: partial(backward, x, method) for name, method in methods[LENGTH].items()}
        fast = interleaved(works, 3)
        result["backward_64k_vs_exact"] = {name: round(slow / best, 1) for name, best in fast.items()}
    result["peak_mb_64k"] = {name: round(peak_mb(name), 1) for name in METHODS}
    result["inputs_and_output_mb"] = 4 * LENGTH * WIDTH * 4 / 2**20
    result["machine"] = {
        "cpu": torch.backends.cpu.get_cpu_capability(), "threads": torch.get_num_threads(), "bfloat16": has_bfloat16()
    }  # fmt: skip
    print(json.dumps(result))


if __name__ == "__main__":
    main()
