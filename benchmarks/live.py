"""The cost of capturing attention in a live `transformers` model, compared with output_attentions=True.

    python benchmarks/live.py [--full]

The model is a transformers BERT with SDPA, on one sequence of 8,192 tokens. `overhead`: forward inside `look` /
outside, in a process that retains freed memory. `map_ms`: the 512 x 512 max-pooled map of one head, from the captured
tensors. `hf_eager_ratio`: time for the attention maps of every head of one layer: a forward inside `look` and the
maps / a forward of the same model in eager mode with output_attentions=True (pooling its weights is not counted).
`hf_eager_mb_ratio`: ratio of the peak memory that each of the two adds to a fresh process.
"""

from __future__ import annotations

import argparse
import copy
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import torch
from transformers import BertConfig, BertModel

from benchmark import Benchmark
from clearhead import look
from look import Peak
from timing import keep_memory

TOKENS, LAYER = 8_192, "encoder.1"
CONFIG = BertConfig(
    vocab_size=1_000,
    hidden_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=1_024,
    max_position_embeddings=TOKENS,
    attn_implementation="sdpa",  # pyright: ignore[reportCallIssue]
)


class Works:
    """Attention maps of one layer, by `look` and by the model's eager mode."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.fast = BertModel(CONFIG, add_pooling_layer=False).eval()
        self.eager = copy.deepcopy(self.fast)
        self.eager.set_attn_implementation("eager")
        self.ids = torch.randint(CONFIG.vocab_size, (1, TOKENS))

    def outside(self) -> None:
        self.fast(self.ids)

    def inside(self) -> None:
        with look(self.fast) as self.seen:
            self.fast(self.ids)

    def map(self) -> None:
        self.seen[LAYER].overview(1)

    def by_looking(self) -> None:
        self.inside()
        for head in range(CONFIG.num_attention_heads):
            self.seen[LAYER].overview(head)

    def by_eager(self) -> None:
        self.eager(self.ids, output_attentions=True)


def peak_mb(what: str) -> float:
    """Return the memory that one run adds, in a separate process."""
    out = subprocess.run([sys.executable, __file__, "--apart", what], capture_output=True, text=True, check=True)
    return json.loads(out.stdout.splitlines()[-1])


def apart(what: str) -> None:
    works = Works()
    works.fast(works.ids[:, :64])
    works.eager(works.ids[:, :64])
    with Peak() as peak:
        getattr(works, what)()
    print(json.dumps(peak.mb))


@torch.no_grad()
def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="more rounds, a few minutes")
    bench.parser.add_argument("--apart", help=argparse.SUPPRESS)
    args = bench.parse()
    if args.apart:
        apart(args.apart)
        return
    many = 6 if args.full else 1
    with ThreadPoolExecutor() as pool:  # not timed
        looking, eager = pool.map(peak_mb, ("by_looking", "by_eager"))
    print(f"peak memory added: by looking {looking:.0f} MB, by eager {eager:.0f} MB", flush=True)
    keep_memory()
    works = Works()
    times = bench.interleaved("forward", {"outside": works.outside, "inside": works.inside}, 8 * many, budget=10 * many)
    overhead = times["inside"] / times["outside"]
    print(f"forward of {TOKENS:,} tokens {times['outside']:.2f} s, inside look / outside: {overhead:.3f}", flush=True)
    milliseconds = bench.interleaved("map", {"map": works.map}, 10 * many, budget=3 * many)["map"] * 1e3
    print(f"512 x 512 map of one head: {milliseconds:.0f} ms", flush=True)
    times = bench.interleaved(
        "maps of a layer", {"looking": works.by_looking, "eager": works.by_eager}, 2 * many, budget=4 * many
    )
    print(f"forward and the maps of a layer: by looking {times['looking']:.2f} s, by eager {times['eager']:.2f} s")
    bench.reads(f"{TOKENS:,} random token ids")
    bench.runs_in({"by looking": "float32", "by eager": "float32"})
    bench.finish({
        "overhead": round(overhead, 3),
        "map_ms": round(milliseconds, 1),
        "hf_eager_ratio": round(times["looking"] / times["eager"], 3),
        "hf_eager_mb_ratio": round(looking / eager, 3),
    }, peers=("transformers",))  # fmt: skip


if __name__ == "__main__":
    main()
