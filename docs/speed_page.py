"""Write docs/speed.md and the tables of speed on other pages from the records: python docs/speed_page.py

The records are docs/results/speed/NAME.json, which `python benchmarks/NAME.py --record` writes. A table has a column for
each kind of machine in its record. Other pages show some rows between `<!-- figures: begin NAME KEY ... -->` and
`<!-- figures: end -->`: those whose key begins with one of the words, or all.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
TARGET = DOCS / "speed.md"
RECORDS = DOCS / "results" / "speed"
BLOCK = re.compile(r"(<!-- figures: begin (\w+)([^>]*?) -->\n).*?(<!-- figures: end -->)", re.S)
KINDS = {
    "amx": "with AMX", "avx512_bf16": "bfloat16 units, no AMX", "avx512": "AVX-512, no bfloat16 units", "avx2": "AVX2",
    "other": "other",
}  # fmt: skip
INTRODUCTION = """\
# Speed

Every figure is read from a record in `docs/results/speed/`, which holds the command, the machine, the versions, the texts, the dtype
of each side and all rounds: `python docs/speed_page.py` writes this page. Sides take turns in one run, and the best round of each
counts. Each side runs in the dtype that is fastest for it on that machine, unless a row names the dtype. `--record` adds a run to the
record, or replaces that of the same kind of machine; without `--full` a benchmark is shorter and rougher. The texts are
[named data sets](data.md). What was measured before there were records, and why things are as they are, is in
[Decisions](decisions.md).
"""


@dataclass(frozen=True)
class Section:
    """A benchmark on the page: its record, a heading, what is measured, and the rows: key of the result and label."""

    name: str
    title: str
    about: str
    rows: Mapping[str, str]
    options: str = "--full"


def per_dtype(rows: Mapping[str, str], before: str = "") -> dict[str, str]:
    """The rows once for each dtype."""
    return {
        f"{before}{dtype}.{key}": f"{label}, {dtype}"
        for dtype in ("float32", "bfloat16")
        for key, label in rows.items()
    }


PEERS = {
    "vs_hf_arrival": "times as fast as `transformers` with SDPA, in the given order",
    "vs_hf_sorted": "times as fast as `transformers` with SDPA, sorted by length",
    "vs_sentence_transformers": "times as fast as sentence-transformers",
    "vs_openvino": "times as fast as OpenVINO, sorted by length",
    "vs_onnxruntime": "times as fast as ONNX Runtime, sorted by length",
}
ENGINES = {"clearhead": "clearhead", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
ONE_TEXT = {
    f"one_text_ms.{engine}.{key}": f"one question at a time, {name}: {what}, ms"
    for engine, name in ENGINES.items()
    for key, what in (("p50", "median"), ("p99", "99th percentile"))
}
SECTIONS = (
    Section("attention", "Attention", "12 heads of width 64. SDPA and clearhead both read queries, keys and values where a "
        "model's projections leave them. Ragged: 64 sequences of log-normal lengths, mean 50, maximum 512, with their "
        "projections.", per_dtype({
            "equal_ratio": "equal lengths, forward: ours / SDPA",
            "backward_ratio": "equal lengths, forward and backward: ours / SDPA",
            "backward_worst": "the same, worst single length",
            "ragged_speedup": "ragged: times as fast as padding and masking",
            "bucketed_speedup": "ragged: times as fast as padding in sorted buckets of 16",
        }, "detail.")),
    Section("encoder", "A full encoder", "6 layers, width 384, 12 heads, on the same ragged lengths, as a fraction of the "
        "speed of its bare matrix products.", {
            "of_bare_fp32": "fraction of all bare products, float32",
            "of_linear_fp32": "fraction of the linear layers' products alone, float32",
            "of_bare_bf16": "fraction of all bare products, bfloat16",
            "of_linear_bf16": "fraction of the linear layers' products alone, bfloat16",
        }),
    Section("look", "Attention capture", "What `look` costs, on an encoder and on single heads.", {
            "overhead": "forward inside `look` / outside",
            "overhead_cold": "the same where freed memory is returned to the system and allocated again",
            "row_ms_32k": "one exact row of a head over 32,768 keys, ms",
            "overview_ratio_8k": "512 × 512 overview of a head at 8,192 tokens / torch's fused forward of that head",
            "peak_mb_32k": "extra peak memory at 32,768 tokens, beyond the forward pass, MB",
            "vs_eager_4k.time": "forward with a map and a row at 4,096 tokens / storing all weights: time",
            "vs_eager_4k.memory": "the same: peak memory",
        }),
    Section("encode", "Sentence vectors", "MiniLM (6 layers, width 384) on texts of SQuAD in a fixed random order. Every side "
        "computes normalized mean-pooled vectors from strings; padded peers use batches of 32.", {
            **{f"fastest.{key}": f"{label}, each in its fastest dtype" for key, label in PEERS.items()},
            **per_dtype({**PEERS, "of_bare": "bare matrix products / ours", **ONE_TEXT}),
        }),
    Section("see", "Visualization", "A causal head of 32,768 tokens in the live page, opened in headless Chromium; MiniLM's "
        "pages of 64 and 512 tokens.", {
            "first_paint_s_32k": "first paint of the overview, from navigation to the image, s",
            "tile_ms_p95": "a tile of 256 × 256 cells at a random position and zoom level, p95, ms",
            "page_kb_64_tokens": "a page of 64 tokens, 6 layers, 12 heads, with all weights, kB",
            "frame_ms_p95_512_tokens": "a frame while the pointer moves over 512 words, p95, ms",
            "bertviz_max_tokens": "the largest number of tokens that BertViz draws within 10 seconds",
        }),
    Section("live", "Live models", "A `transformers` BERT (2 layers, width 256, 4 heads, SDPA) on one sequence of 8,192 "
        "tokens.", {
            "overhead": "forward inside `look` / outside",
            "map_ms": "a 512 × 512 map of one head, ms",
            "hf_eager_ratio": "forward with the maps of a layer's heads / eager forward with attentions: time",
            "hf_eager_mb_ratio": "the same: peak memory",
        }),
    Section("train", "Training", "A Marian-shaped translator (width 256, 3 + 3 layers, 4 heads, vocabulary 8,000, dropout "
        "`0.1`) on pairs with the lengths of Multi30k, 128 pairs per batch: forward, loss, backward, clipping, AdamW.", {
            "vs_hf_random": "times as fast as `transformers`, random order",
            "vs_hf_sorted": "times as fast as `transformers`, sorted by length",
            "of_bare": "fraction of the bare matrix products",
        }),
    Section("finetune", "Fine-tuning", "MiniLM with a new head on SST-2 (batches of 32) and SQuAD (windows of 384 tokens, "
        "batches of 16); the Trainer of `transformers` from the same initialization on the same rows.", {
            "vs_hf_trainer_sst2": "SST-2: times as fast as the Trainer",
            "vs_hf_grouped_sst2": "SST-2: times as fast as the Trainer with its length grouping",
            "vs_hf_trainer_squad": "SQuAD: times as fast as the Trainer",
            "vs_hf_grouped_squad": "SQuAD: times as fast as the Trainer with its length grouping",
            "examples_per_second_sst2.ours": "SST-2: examples per second",
            "examples_per_second_squad.ours": "SQuAD: examples per second",
        }),
    Section("pretrain", "Pre-training", "Masked language modeling with MiniLM's body on SQuAD's paragraphs, and causal "
        "language modeling with a GPT-2 of the same size, beside the Trainer with the collator of `run_mlm`; preparation "
        "beside datatrove's reader and tokenizer alone.", {
            "mlm_vs_hf": "masked language modeling: times as fast as the Trainer, one document per row",
            "mlm_vs_hf_packed": "the same, documents concatenated without padding",
            "clm_vs_hf": "causal language modeling: times as fast as the Trainer, no padding on either side",
            "of_bare": "our training loop / the model alone with prepared batches",
            "prepare_docs_per_s_core": "documents prepared per second and core",
            "vs_datatrove_bare": "relative to datatrove's own reader and tokenizer",
        }),
    Section("serve", "Serving", "64 clients, each with one request at a time, on the same two cores as the server; every side "
        "answers the same requests in every round. Bare is the model alone, with all texts available and sorted.", {
            "of_bare_embed": "embeddings: fraction of bare",
            "vs_litserve": "embeddings: times as fast as LitServe with batching",
            "vs_infinity": "embeddings: times as fast as Infinity",
            "of_bare_generate": "generation: fraction of bare",
            "vs_hf_serve_generate": "generation: times as fast as `transformers serve`, the faster of its modes",
            "vs_hf_serve_plain": "generation: times as fast as `transformers serve` without continuous batching",
            "rates.embed.ours": "texts per second",
            "rates.generate.ours": "tokens per second",
            "p99_ms": "p99 latency of embeddings, with 64 requests always pending, ms",
            "ray_overhead_ms": "Ray Serve behind HAProxy: added to the median latency of one client, ms",
        }),
    Section("serve_ray", "Ray Serve", "One client that sends one short text at a time to `/embed`, alternating between one "
        "process and Ray Serve behind HAProxy.", {
            "plain_ms": "one process, median, ms",
            "ray_ms": "Ray Serve behind HAProxy, median, ms",
            "ray_overhead_ms": "difference, ms",
        }, options=""),
    Section("decode", "Translation", "64 sentences with the lengths of Multi30k, 20 steps, the same model on every side.", {
            "vs_hf_beam5": "beam 5: times as fast as `transformers` `generate`",
            "vs_ct2_beam5": "beam 5: times as fast as CTranslate2",
            "vs_hf_greedy": "greedy: times as fast as `transformers` `generate`",
            "vs_ct2_greedy": "greedy: times as fast as CTranslate2",
            "auto": "the engine that is chosen by itself, beside the fastest side, at the number of sentences where it is worst",
        }),
    Section("integrations", "Inside other libraries", "`accelerate(model)` in sentence-transformers and in the Trainer, "
        "MiniLM and texts of SQuAD, beside the same without it.", {
            "st_encode": "`SentenceTransformer.encode`, which sorts by length: times as fast",
            "st_fit": "`SentenceTransformerTrainer`, questions and paragraphs in random order: times as fast",
            "hf_trainer": "`Trainer`, classification of mixed texts in random order: times as fast",
        }),
    Section("search", "Search and answers", "127,000 passages, MiniLM as retriever and as reader; medians of 100 questions.", {
            "search_p50_ms": "words and vectors, with the forward pass of the question, ms",
            "vs_tantivy_bm25": "words alone: speed relative to tantivy",
            "vs_faiss": "vectors alone: speed relative to faiss (inverted file, 24 probes)",
            "vs_haystack": "twelve passages read: times as fast as Haystack's extractive reader, same weights",
            "p50_ms": "a whole answer, median, ms",
            "p99_ms": "a whole answer, p99, ms",
            "of_bare_forward": "a whole answer / its bare forward passes",
            "index_of_embed": "indexing: speed relative to `clearhead embed` on the same passages",
        }),
    Section("retrieval", "Retrieval", "nDCG@10 on two test sets of BEIR, by words, by MiniLM's vectors, and by both.", {
            **{f"{name.lower()}_{mode}": f"{name}, {label}" for name in ("SciFact", "NFCorpus")
               for mode, label in (("words", "words"), ("vectors", "vectors"), ("hybrid", "both"))},
            "search_p50_ms": "a query by words, median, ms",
            "search_p99_ms": "a query by words, p99, ms",
        }),
    Section("vision", "Images", "A ViT (width 192, 12 layers) at 224 × 224 pixels, images of many sizes, and the training step "
        "of `recipes/cifar10.yaml`.", {
            "vs_hf_vit": "times as fast as `transformers`' ViT",
            "ragged_vs_padded": "images of many sizes: times as fast as `transformers` on padded ones",
            "train_vs_plain": "training step: speed relative to the same model in a plain PyTorch loop",
        }),
    Section("efficient", "Efficient attention", "One head of width 64 at 65,536 tokens, forward, beside exact attention by "
        "torch's fused kernel.", {
            f"{name}_64k_vs_exact": f"{label}: times as fast" for name, label in (
                ("bigbird", "BigBird"), ("window", "window"), ("lsh", "LSH"), ("linformer", "Linformer"),
                ("performer", "Performer"))
        }),
    Section("checkpoint", "Checkpoints", "How long training stops for a checkpoint of AdamW and eight square matrices.", {
            "megabytes": "size, MB", "stall_ms": "training stops for, ms", "synchronous_ms": "written at once, ms",
            "stall": "ratio of the two", "verify_ms": "to verify all hashes, ms", "load_ms": "to load, ms",
        }, options=""),
    Section("read_ahead", "Shards in an object store", "A language model of 4 layers of width 256 trained on batches of 8 "
        "blocks, from disk and from moto's S3 server behind a proxy that delays each request. Server and proxy run on "
        "the cores that train, so the processor time of the training process is measured apart.", {
            "latency_ms": "delay of a request, ms", "threads": "threads of the training",
            "ratio": "speed from the store / from disk",
            "cpu_ratio": "the same by processor time of the training process",
            "waiting": "share of the steps that waits for batches",
        }, options=""),
)  # fmt: skip


def runs_of(name: str) -> dict[str, Any]:
    """The runs of a record by kind of machine; none where there is no record."""
    path = RECORDS / f"{name}.json"
    runs = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else {}
    return {kind: runs[kind] for kind in KINDS if kind in runs}


def value_of(result: Any, key: str) -> float | None:
    """The value at a path of keys; None where the run did not measure it."""
    for word in key.split("."):
        result = result.get(word) if isinstance(result, dict) else None
    return result


def shown(value: float | None) -> str:
    """A number with three significant digits."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def table(section: Section, prefixes: Iterable[str] = ()) -> str:
    """The table of a record, with a column for each kind of machine; empty where there is no record."""
    runs, chosen = runs_of(section.name), tuple(prefixes)
    if not runs:
        return ""
    lines = ["| | " + " | ".join(KINDS[kind] for kind in runs) + " |", "|---" * (len(runs) + 1) + "|"]
    for key, label in section.rows.items():
        values = [value_of(run["result"], key) for run in runs.values()]
        if (not chosen or key.startswith(chosen)) and any(value is not None for value in values):
            lines.append(f"| {label} | " + " | ".join(map(shown, values)) + " |")
    return "\n".join(lines) + "\n"


def caption(kind: str, run: Mapping[str, Any]) -> str:
    """How a run was measured, in a sentence or two."""
    machine, found = run["machine"], run["versions"]
    versions = ", ".join(f"{name} {version}" for name, version in found.items() if name != "commit")
    dtypes = "; ".join(f"{side}: {dtype}" for side, dtype in run["dtypes"].items())
    rounds = [values for group in run["rounds"].values() for values in group["sides"].values()]
    least, most = (min(map(len, rounds)), max(map(len, rounds))) if rounds else (1, 1)
    counted = f"{least}" if least == most else f"{least} to {most}"
    return (
        f"- {KINDS[kind]}: `{run['command']}`, {run['date']}, {machine['cpu']}, {run['threads']} threads of "
        f"{machine['cores']} cores, load {machine['load_before']:g} before the run, rounds of a side: {counted}. {versions}. "
        f"Dtypes: {dtypes}. Texts: {'; '.join(run['texts'])}.\n"
    )


def page() -> str:
    """The text of docs/speed.md."""
    parts = [INTRODUCTION]
    for section in SECTIONS:
        shown_command = command(section).removesuffix(" --record")
        parts.append(f"## {section.title}: `{shown_command}`\n\n{section.about}\n")
        if runs := runs_of(section.name):
            parts += [table(section), "".join(caption(kind, run) for kind, run in runs.items())]
        else:
            parts.append(f"There is no record yet: `{command(section)}` writes it.\n")
    return "\n".join(parts)


def filled(text: str) -> str:
    """The text of another page with its tables of speed written anew."""
    sections = {section.name: section for section in SECTIONS}
    return BLOCK.sub(lambda found: found[1] + table(sections[found[2]], found[3].split()) + found[4], text)


def command(section: Section) -> str:
    """The command that measures a section for its record."""
    return " ".join(("python", f"benchmarks/{section.name}.py", *section.options.split(), "--record"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", action="store_true", help="print the commands that measure everything, and stop")
    if parser.parse_args().commands:
        print("\n".join(map(command, SECTIONS)))
        return
    TARGET.write_text(page(), encoding="utf-8")
    for path in (ROOT / "README.md", *DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
