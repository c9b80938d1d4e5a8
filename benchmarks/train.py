"""Training a translation model, compared with `transformers` and the bare matmuls of the same shapes.

    python benchmarks/train.py [--full]

A Marian-shaped model (width 256, 3 + 3 layers, 4 heads, feed-forward width 1,024, vocabulary 8,000, dropout 0.1)
trains on pairs with the lengths of Multi30k, 128 pairs per batch: forward, loss, backward, clipping, AdamW.
`transformers` pads its batches, once in random order and once sorted by length; clearhead uses random order through
the loop's own `step`. Every side runs in float32 and, where the processor supports it, in bfloat16 autocast, and the
faster one counts. Results are source and target tokens per second, without padding. "Bare" is the matmuls of the
linear layers and the vocabulary alone, forward and backward (three per layer), in clearhead's faster dtype.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import torch
from torch import nn
from transformers import MarianConfig, MarianMTModel

from benchmark import Benchmark
from clearhead.data import Ragged
from clearhead.distributed import Distributed
from clearhead.models import HeadConfig, ModelConfig, TransformerConfig, build
from clearhead.tasks import Translate
from clearhead.train.loop import TrainingJob, step
from clearhead.train.optimizer import make_optimizer
from clearhead.train.prefetch import StepParts, read_batches
from clearhead.train.recipe import OptimizerConfig, TrainConfig
from clearhead.train.signals import SignalGuard
from texts import data_file
from timing import FAST, Dtype, keep_memory

V, PAIRS = 8000, 128
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
STACK = TransformerConfig(
    vocab_size=V,
    width=256,
    num_layers=3,
    num_heads=4,
    ffn_dim=1024,
    positions="sinusoidal_concat",
    scale_embeddings=True,
    dropout=0.1,
)


def pair_lengths() -> np.ndarray:
    """Return the source and target lengths of Multi30k (pairs, 2)."""
    sides = []
    for language in ("en", "de"):
        with gzip.open(data_file(f"multi30k:train.{language}.gz"), "rt", encoding="utf-8") as file:
            sides.append([round(len(line.split()) * 1.25) + 1 for line in file])
    return np.array(sides).T


class Words(Translate):
    """The task without a tokenizer: token ids are random here."""

    start = V - 1  # type: ignore[assignment]


class Ours:
    def __init__(self, lengths: np.ndarray, dtype: Dtype) -> None:
        rng = np.random.default_rng(0)
        columns = {
            n: Ragged.from_lists(rng.integers(V, size=k) for k in lengths[:, i])
            for i, n in enumerate(("source", "target"))
        }
        model = build(ModelConfig(encoder=STACK, decoder=STACK, head=HeadConfig(kind="lm", width=256, vocab_size=V)))
        settings = TrainConfig(steps=1, batch_tokens=10**6, dtype=dtype, optimizer=OptimizerConfig(lr=1e-4))
        self.job = TrainingJob(Words(None), model, columns, settings, 0, Path())  # type: ignore[arg-type]
        self.optimizer = make_optimizer(model, settings.optimizer)

    def run(self, batches: list[np.ndarray]) -> None:
        for number, batch in enumerate(batches):
            parts = StepParts.of(self.job.task, self.job.columns, batch, self.job.settings)
            inputs = read_batches(self.job.task, self.job.columns, parts, number)
            step(self.job, self.optimizer, inputs, number, Distributed(), SignalGuard())


class Theirs:
    def __init__(self, lengths: np.ndarray, dtype: str) -> None:
        config = MarianConfig(
            vocab_size=V, d_model=256, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=1024, decoder_ffn_dim=1024, activation_function="relu",
            dropout=0.1, max_position_embeddings=512, pad_token_id=V - 1, eos_token_id=0,
            decoder_start_token_id=V - 1, scale_embedding=True,
        )  # fmt: skip
        self.model, self.lengths, self.dtype = MarianMTModel(config).train(), lengths, DTYPES[dtype]
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)

    def run(self, batches: list[np.ndarray]) -> None:
        for batch in batches:
            source, target = (self._padded(self.lengths[batch, i]) for i in (0, 1))
            labels = target.masked_fill(target == V - 1, -100)
            with torch.autocast("cpu", self.dtype, enabled=self.dtype == torch.bfloat16):
                loss = self.model(input_ids=source, attention_mask=source != V - 1, labels=labels).loss
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()

    def _padded(self, lengths: np.ndarray) -> torch.Tensor:
        ids = torch.randint(V - 1, (len(lengths), int(lengths.max())))
        return ids.masked_fill(torch.arange(ids.shape[1]) >= torch.from_numpy(lengths).unsqueeze(1), V - 1)


class Bare:
    """The matmuls alone, into preallocated memory."""

    def __init__(self, lengths: np.ndarray, dtype: str) -> None:
        self.lengths, self.dtype = lengths, DTYPES[dtype]
        square, up, down = (256, 256), (256, 1024), (1024, 256)
        self.encoder = [square] * 4 + [up, down]
        self.decoder = [square] * 6 + [up, down]  # queries and outputs of both attentions, keys and values of one
        self.cross = [square] * 2  # its keys and values are the source's

    def run(self, batches: list[np.ndarray]) -> None:
        for batch in batches:
            source, target = self.lengths[batch].sum(0).tolist()
            for layers, tokens in ((self.encoder + self.cross, source), (self.decoder, target)):
                for shape in layers * 3:
                    self._three(tokens, *shape)
            self._three(target, 256, V)

    def _three(self, n: int, i: int, o: int) -> None:
        key = n, i, o
        kept = self.__dict__.setdefault("kept", {})
        if key not in kept:
            kept[key] = [torch.randn(*s).to(self.dtype) for s in ((n, i), (o, i), (n, o), (n, i), (o, i), (n, o))]
        x, w, y, dx, dw, out = kept[key]
        torch.mm(x, w.t(), out=out)
        torch.mm(y, w, out=dx)
        torch.mm(y.t(), x, out=dw)


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="more batches and rounds: a few minutes")
    full = bench.parse().full
    torch.set_num_threads(2)
    torch.manual_seed(0)
    keep_memory()
    lengths = pair_lengths()
    bench.reads("multi30k: lengths of its training pairs; token ids are random")
    count, rounds, budget = (6, 4, 240.0) if full else (2, 2, 22.0)
    order = np.random.default_rng(0).permutation(len(lengths))
    random = [order[i * PAIRS : (i + 1) * PAIRS] for i in range(count)]
    by_length = np.argsort(lengths.sum(1), kind="stable")
    starts = np.linspace(0, len(lengths) - PAIRS, 2 * count + 1).astype(int)[1::2]
    ordered = [by_length[i : i + PAIRS] for i in starts]
    works, tokens = {}, {}
    for dtype in FAST:
        theirs = Theirs(lengths, dtype)
        for name, side, batches in (
            ("ours", Ours(lengths, dtype), random),
            ("bare", Bare(lengths, dtype), random),
            ("hf_random", theirs, random),
            ("hf_sorted", theirs, ordered),
        ):
            works[f"{name}_{dtype}"] = lambda side=side, batches=batches: side.run(batches)
            tokens[f"{name}_{dtype}"] = int(sum(lengths[b].sum() for b in batches))
    times = bench.interleaved("training", works, rounds, budget=budget)
    rate = {name: tokens[name] / seconds for name, seconds in times.items()}
    best = {name: max(FAST, key=lambda d: rate[f"{name}_{d}"]) for name in ("ours", "hf_random", "hf_sorted")}
    ours = rate[f"ours_{best['ours']}"]
    for name, value in rate.items():
        print(f"{name:20} {value:10,.0f} tokens/s")
    bench.runs_in({**best, "bare": best["ours"]})
    bench.finish({
        "vs_hf_random": round(ours / rate[f"hf_random_{best['hf_random']}"], 3),
        "vs_hf_sorted": round(ours / rate[f"hf_sorted_{best['hf_sorted']}"], 3),
        "of_bare": round(ours / rate[f"bare_{best['ours']}"], 3),
        "tokens_per_second": {n: round(r) for n, r in rate.items()},
    }, peers=("transformers",))  # fmt: skip


if __name__ == "__main__":
    main()
