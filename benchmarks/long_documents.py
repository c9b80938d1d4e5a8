"""Long documents: whole articles read in one go by sparse attention, beside windows, on COVID-QA's 98 articles.

`retrieval`: the article of a question, found by MiniLM's vectors of its first 512 tokens, of its windows (the mean, or
the nearest one), and of the whole article with extended positions and a window around each token; nothing is trained.
`reading` (with `--reader`, a folder of the task qa): answers from the article that is given, by windows, and by one
pass over all tokens; with `--whole`, another reader that was trained to do so. The last line is a JSON object: scores
in percent, seconds, and the most memory in use above the model in MB.
"""

from __future__ import annotations

import argparse
import json
import lzma
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import clearhead
from answers import COVID, MODEL
from clearhead.data import read_rows
from clearhead.efficient import Longformer
from clearhead.metrics.retrieval import Retrieval, evaluate_retrieval
from clearhead.tasks.registry import task_of
from timing import alone

MAX_LEN = 16_384
WINDOW = 512  # tokens around each token that sparse attention reads
WORDS = 180  # of a window of an article: about 256 tokens
COLUMNS = {"question": "question", "context": "context", "answers": "answers"}


def articles(count: int | None) -> list[dict[str, Any]]:
    return json.loads(lzma.decompress(COVID.read_bytes()))["data"][:count]


def whole(model: clearhead.Pipeline, until: int | None = None) -> clearhead.Pipeline:
    """Return the model for whole articles; tokens before the first one with the id `until` are global."""
    method = Longformer(window=WINDOW, global_tokens=1, global_until=until)
    return model.with_max_len(MAX_LEN).with_attention(method)


def retrieval(count: int | None) -> dict[str, Any]:
    found = articles(count)
    texts = [article["paragraphs"][0]["context"] for article in found]
    questions = [(qa["question"], i) for i, a in enumerate(found) for qa in a["paragraphs"][0]["qas"]]
    model = clearhead.load(MODEL)
    queries = model.encode([question for question, _ in questions])

    def windows() -> list[Tensor]:
        parts = [text.split() for text in texts]
        cut = [[" ".join(words[i : i + WORDS]) for i in range(0, len(words), WORDS)] for words in parts]
        vectors = model.encode([window for one in cut for window in one])
        return list(vectors.split([len(one) for one in cut]))

    def normalized(vectors: Tensor) -> Tensor:
        return torch.nn.functional.normalize(vectors, dim=1)

    ways: dict[str, Callable[[], Tensor]] = {
        "first_512": lambda: model.encode([text[:4000] for text in texts]),
        "whole": lambda: whole(model).encode(texts, batch_tokens=MAX_LEN),
        "mean_of_windows": lambda: normalized(torch.stack([part.mean(0) for part in windows()])),
    }
    result: dict[str, Any] = {}
    for name, encode in ways.items():
        begin = time.perf_counter()
        vectors = encode()
        seconds = time.perf_counter() - begin
        result[name] = score(queries, vectors, [place for _, place in questions], texts) | {
            "seconds": round(seconds, 1)
        }
    nearest = torch.stack([(queries @ part.T).amax(1) for part in windows()], 1)  # (Q, articles)
    places = [place for _, place in questions]
    result["nearest_window"] = score(nearest, torch.eye(len(texts)), places, texts)
    return {"articles": len(texts), "questions": len(questions), **result}


def score(queries: Tensor, documents: Tensor, places: list[int], texts: list[str]) -> dict[str, Any]:
    relevant = {str(i): {place} for i, place in enumerate(places)}
    evaluation = evaluate_retrieval(Retrieval(queries, documents, relevant, texts))
    scores, intervals = evaluation.scores(), evaluation.intervals()
    return {name: [round(x, 1) for x in (scores[name], *intervals[name])] for name in ("mrr", "recall_1")}


def reading(folder: str, count: int, other: str | None) -> dict[str, Any]:
    """Return the scores of both ways on every so many questions, one process each."""
    found = articles(None)
    flat = [(article, qa) for article in found for qa in article["paragraphs"][0]["qas"]]
    chosen = flat[:: max(1, len(flat) // count)][:count]
    data = [{"paragraphs": [{"context": article["paragraphs"][0]["context"], "qas": [qa]}]} for article, qa in chosen]
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "questions.json"
        file.write_text(json.dumps({"version": "1", "data": data}), encoding="utf-8")

        def run(is_whole: bool) -> dict[str, Any]:
            model = clearhead.load(other or folder if is_whole else folder)
            if is_whole and other is None:
                model = whole(model, model.tokenizer.id("[SEP]"))
            before, begin = peak(), time.perf_counter()
            evaluation = task_of(model.loaded).evaluate(model.loaded, read_rows(file, COLUMNS))
            seconds = time.perf_counter() - begin
            intervals = evaluation.intervals()
            scores = {
                name: [round(x, 1) for x in (value, *intervals[name])] for name, value in evaluation.scores().items()
            }
            return {**scores, "seconds_a_question": round(seconds / count, 2), "mb": round(peak() - before)}

        return {"questions": len(chosen), "windows": alone(lambda: run(False)), "whole": alone(lambda: run(True))}


def peak() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all articles, and 200 questions to read")
    parser.add_argument("--reader", help="folder of a reader (task qa)")
    parser.add_argument("--whole", help="folder of a reader that was trained on whole articles")
    given = parser.parse_args()
    result: dict[str, Any] = {"retrieval": retrieval(None if given.full else 8)}
    if given.reader:
        result["reading"] = reading(given.reader, 200 if given.full else 4, given.whole)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
