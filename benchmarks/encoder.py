"""An encoder on ragged text, as a fraction of the speed of its bare matmuls.

    python benchmarks/encoder.py [--full]

A 6-layer, 384-wide encoder (12 heads, feed-forward width 1,536) on 64 sequences of text lengths (mean 50, maximum
512). "Bare" is the time of its matmuls alone on the same tokens, into preallocated memory: the linear layers on all
tokens at once, and for each sequence queries times keys and weights times values; no bias, softmax, norm or
activation. `of_bare` is bare time / encoder time: 1.0 means that everything else is free. `of_linear` counts the
matmuls of the linear layers only.
"""

from __future__ import annotations

import torch
from torch import nn

from benchmark import Benchmark
from clearhead.attention import Layout
from clearhead.models import TransformerConfig, build_encoder
from lengths import text_lengths
from timing import FAST

CONFIG = TransformerConfig(
    vocab_size=30_522, width=384, num_layers=6, num_heads=12, ffn_dim=1536,
    positions="learned", activation="gelu", dropout=0.0,
)  # fmt: skip


def measure(bench: Benchmark, dtype: torch.dtype, lengths: list[int], rounds: int) -> dict[str, float]:
    """Return the best seconds of the encoder and of its bare matmuls."""
    model = build_encoder(CONFIG).eval().to(dtype)
    tokens = sum(lengths)
    ids = torch.randint(CONFIG.vocab_size, (tokens,))
    weights = [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
    inputs = {n: torch.randn(tokens, n).to(dtype) for n in {w.shape[1] for w in weights}}
    outputs = {n: torch.empty(tokens, n, dtype=dtype) for n in {w.shape[0] for w in weights}}
    width = CONFIG.width // CONFIG.num_heads
    per_sequence = [
        (torch.randn(CONFIG.num_heads, n, width).to(dtype), torch.empty(CONFIG.num_heads, n, n, dtype=dtype))
        for n in lengths
    ]

    def linear() -> None:
        for weight in weights:
            torch.mm(inputs[weight.shape[1]], weight.t(), out=outputs[weight.shape[0]])

    def bare() -> None:
        linear()
        for _ in range(CONFIG.num_layers):
            for x, square in per_sequence:
                torch.bmm(x, x.transpose(1, 2), out=square)
                torch.bmm(square, x)

    with torch.no_grad():  # a new layout every time, as for a new batch
        works = {"encoder": lambda: model(ids, Layout.from_lengths(lengths)), "bare": bare, "linear": linear}
        return bench.interleaved(f"{str(dtype).removeprefix('torch.')}, {tokens} tokens", works, rounds)


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="more rounds and batches, a few minutes")
    full = bench.parse().full
    torch.manual_seed(0)
    result = {}
    for dtype, name in ((torch.float32, "fp32"), (torch.bfloat16, "bf16"))[: len(FAST)]:
        runs = [measure(bench, dtype, text_lengths(seed=s), 30 if full else 20) for s in ((0, 1, 2) if full else (0,))]
        encoder, bare, linear = (
            sum(run[key] for run in runs) / len(runs) * 1e3 for key in ("encoder", "bare", "linear")
        )
        result[f"of_bare_{name}"] = round(bare / encoder, 3)
        result[f"of_linear_{name}"] = round(linear / encoder, 3)
        print(f"{name}: encoder {encoder:.1f} ms, bare matmuls {bare:.1f} ms, of which linear layers {linear:.1f} ms")
    bench.reads("64 log-normal lengths, mean 50, maximum 512; random token ids")
    bench.runs_in({"all sides": ", then ".join(sorted(FAST, reverse=True))})
    bench.finish(result)


if __name__ == "__main__":
    main()
