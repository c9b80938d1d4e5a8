"""Long documents: whole articles read in one pass by sparse attention, beside windows, on COVID-QA's 98 articles.

`retrieval`: the article of a question, found by MiniLM's vectors of its first 256 tokens, of its windows (the mean, or
the nearest one), and of the whole article with extended positions and a window around each token; nothing is trained.
`reading` (with `--reader`, a folder of the task qa): answers from the article that is given, by windows, and by one
pass over all tokens; with `--whole`, another reader that was trained to do so. Articles of at least 8,000 tokens
are measured apart.
`classifying` (with `--classifier` and `--whole-classifier`, folders of the task pair): does an article answer a
question? Each question is asked of its article, and of the same article without the words around the answers. By
windows, the score of an article is that of its best window.
The last line is a JSON object: scores in percent, seconds, and the most memory in use above the model in MB.
`--write FOLDER` joins the paragraphs of each article of SQuAD: the data of `recipes/squad-articles.yaml`,
`recipes/answered-paragraphs.yaml` and `recipes/answered-articles.yaml`.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

import clearhead
from answers import COVID, MODEL
from benchmark import Benchmark
from clearhead.data import locate, read_rows
from clearhead.efficient import Longformer
from clearhead.metrics.bootstrap import bootstrap, interval
from clearhead.metrics.retrieval import Retrieval, evaluate_retrieval
from clearhead.tasks.registry import task_of
from texts import data_file
from timing import alone

MAX_LEN = 16_384
WINDOW = 512  # tokens around each token that sparse attention reads
WORDS = 180  # of a window of an article: about 256 tokens
LONG = 8_000  # tokens of a long article
Encoded = TypeVar("Encoded")
COLUMNS = {"question": "question", "context": "context", "answers": "answers"}


def articles(count: int | None) -> list[dict[str, Any]]:
    return json.loads(data_file(COVID).read_text(encoding="utf-8"))["data"][:count]


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

    places, result = [place for _, place in questions], dict[str, Any]()

    def timed(encode: Callable[[], Encoded]) -> tuple[Encoded, dict[str, float]]:
        begin = time.perf_counter()
        return encode(), {"seconds": round(time.perf_counter() - begin, 1)}

    first, seconds = timed(lambda: model.encode([text[:2000] for text in texts]))
    result["first_256"] = score(queries, first, places, texts) | seconds
    vectors, seconds = timed(lambda: whole(model).encode(texts, batch_tokens=MAX_LEN))
    result["whole"] = score(queries, vectors, places, texts) | seconds
    parts, seconds = timed(windows)
    means = torch.nn.functional.normalize(torch.stack([part.mean(0) for part in parts]), dim=1)
    result["mean_of_windows"] = score(queries, means, places, texts) | seconds
    nearest = torch.stack([(queries @ part.T).amax(1) for part in parts], 1)  # (Q, articles)
    result["nearest_window"] = score(nearest, torch.eye(len(texts)), places, texts) | seconds
    return {"articles": len(texts), "questions": len(questions), **result}


def score(queries: Tensor, documents: Tensor, places: list[int], texts: list[str]) -> dict[str, Any]:
    relevant = {str(i): {place} for i, place in enumerate(places)}
    evaluation = evaluate_retrieval(Retrieval(queries, documents, relevant, texts))
    scores, intervals = evaluation.scores(), evaluation.intervals()
    return {name: [round(x, 1) for x in (scores[name], *intervals[name])] for name in ("mrr", "recall_1")}


def reading(folder: str, count: int, other: str | None) -> dict[str, Any]:
    """Return the scores of both ways on every so many questions, for short and for long articles."""
    tokenizer = clearhead.load(folder).tokenizer
    parts: dict[str, list[dict[str, Any]]] = {"short": [], "long": []}
    for article in articles(None):
        for paragraph in article["paragraphs"]:
            is_long = tokenizer(paragraph["context"], special=False, offsets=False).layout.num_tokens >= LONG
            parts["long" if is_long else "short"] += [{**paragraph, "qas": [qa]} for qa in paragraph["qas"]]
    return {
        name: read_both_ways(folder, part[:: max(1, len(part) // count)][:count], other) for name, part in parts.items()
    }


def read_both_ways(folder: str, chosen: list[dict[str, Any]], other: str | None) -> dict[str, Any]:
    """Return the scores by windows and by one pass, one process each."""
    data = [{"paragraphs": [paragraph]} for paragraph in chosen]
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
            return {**scores, "seconds_a_question": round(seconds / len(chosen), 2), "mb": round(peak() - before)}

        return {"questions": len(chosen), "windows": alone(lambda: run(False)), "whole": alone(lambda: run(True))}


def classifying(windows: str, articles_at_once: str, count: int) -> dict[str, Any]:
    """Return how well both ways tell long articles from the same articles without the answer to a question."""
    tokenizer = clearhead.load(windows).tokenizer
    found = [
        (qa, paragraph["context"])
        for article in articles(None)
        for paragraph in article["paragraphs"]
        if tokenizer(paragraph["context"], special=False, offsets=False).layout.num_tokens >= LONG
        for qa in paragraph["qas"]
    ]
    chosen = found[:: max(1, len(found) // count)][:count]
    pairs = [(qa["question"].strip(), text) for qa, context in chosen for text in (context, unanswered(qa, context))]

    def by_windows(question: str, text: str, model: clearhead.Pipeline) -> float:
        words = text.split()
        parts = [" ".join(words[i : i + WORDS]) for i in range(0, len(words), WORDS // 2)]
        return max(answer.scores["yes"] for answer in model.classify([question] * len(parts), parts))

    def at_once(question: str, text: str, model: clearhead.Pipeline) -> float:
        return model.classify([question], [text])[0].scores["yes"]

    def run(folder: str, score_of: Callable[[str, str, clearhead.Pipeline], float]) -> dict[str, Any]:
        model = clearhead.load(folder)
        before, begin = peak(), time.perf_counter()
        scores = np.array([score_of(question, text, model) for question, text in pairs])
        seconds = time.perf_counter() - begin
        result = separation(scores[::2], scores[1::2])
        return {**result, "seconds_a_document": round(seconds / len(pairs), 2), "mb": round(peak() - before)}

    return {
        "documents": len(pairs),
        "windows": alone(lambda: run(windows, by_windows)),
        "whole": alone(lambda: run(articles_at_once, at_once)),
    }


def unanswered(qa: dict[str, Any], context: str) -> str:
    """Return an article without the 180 words around each answer."""
    for answer in sorted(qa["answers"], key=lambda answer: -answer["answer_start"]):
        start, end = answer["answer_start"], answer["answer_start"] + len(answer["text"])
        before, after = context[:start].split(" "), context[end:].split(" ")
        context = " ".join([*before[: -WORDS // 2], *after[WORDS // 2 :]])
    return context


def separation(answered: Any, other: Any) -> dict[str, list[float]]:
    """Return the area under the ROC curve and the share of questions whose article scores above the cut one."""

    def of(rows: Any) -> dict[str, float]:
        wins = (answered[rows, None] > other[None, rows]) + 0.5 * (answered[rows, None] == other[None, rows])
        return {"auc": 100 * float(wins.mean()), "above_the_cut_one": 100 * float(np.diag(wins).mean())}

    samples = bootstrap(len(answered), of, seed=0)
    return {
        name: [round(x, 1) for x in (value, *interval(samples[name], len(answered)))]
        for name, value in of(np.arange(len(answered))).items()
    }


def write(folder: Path, questions: int) -> None:
    """Write the articles of SQuAD as one context each, with so many of their questions, and pairs for classifiers."""
    folder.mkdir(parents=True, exist_ok=True)
    write_pairs(folder)
    for name, file in (("train", "train-v1.1.json"), ("dev", "dev-v1.1.json")):
        rows: list[dict[str, Any]] = []
        for article in json.loads(locate(f"squad:{file}", base=".").read_text(encoding="utf-8"))["data"]:
            context, found = "", []
            for paragraph in article["paragraphs"]:
                for qa in paragraph["qas"]:
                    moved = [{**a, "answer_start": a["answer_start"] + len(context)} for a in qa["answers"]]
                    found.append({**qa, "answers": moved})
                context += paragraph["context"] + "\n"
            rows.append(
                {"paragraphs": [{"context": context, "qas": found[:: max(1, len(found) // questions)][:questions]}]}
            )
        (folder / f"{name}.json").write_text(json.dumps({"version": "1.1", "data": rows}), encoding="utf-8")


def write_pairs(folder: Path) -> None:
    """Write questions with a paragraph, and with an article, that holds the answer or, every second time, does not."""
    data = json.loads(locate("squad:train-v1.1.json", base=".").read_text(encoding="utf-8"))["data"]
    paragraphs: list[dict[str, str]] = []
    whole: list[dict[str, str]] = []
    for number, article in enumerate(data):
        contexts = [paragraph["context"] for paragraph in article["paragraphs"]]
        asked = [(i, qa["question"].strip()) for i, p in enumerate(article["paragraphs"]) for qa in p["qas"]]
        for turn, (i, question) in enumerate(asked[:: max(1, len(asked) // 40)][:40]):
            shown = i if turn % 2 == 0 else (i + 1 + turn % (len(contexts) - 1)) % len(contexts)
            paragraphs.append(
                {"question": question, "text": contexts[shown], "answered": "yes" if shown == i else "no"}
            )
        for turn, (i, question) in enumerate(asked[number % 7 :: max(1, len(asked) // 2)][:2]):
            kept = contexts if turn == 0 else contexts[:i] + contexts[i + 1 :]
            whole.append({"question": question, "text": "\n".join(kept), "answered": "no" if turn else "yes"})
    for name, rows in (("paragraphs", paragraphs), ("articles", whole)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"answered-{name}.jsonl").write_text(lines, encoding="utf-8")


def peak() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="all articles, 160 questions to read, 40 to classify")
    bench.parser.add_argument("--reader", help="folder of a reader (task qa)")
    bench.parser.add_argument("--whole", help="folder of a reader that was trained on whole articles")
    bench.parser.add_argument("--classifier", help="folder of recipes/answered-paragraphs.yaml's model")
    bench.parser.add_argument("--whole-classifier", help="folder of recipes/answered-articles.yaml's model")
    bench.parser.add_argument("--write", type=Path, help="write SQuAD's articles to this folder instead")
    bench.parser.add_argument("--questions", type=int, default=1, help="of an article, with --write. Default: 1.")
    given = bench.parse()
    if given.write:
        write(given.write, given.questions)
        return
    torch.set_num_threads(1)  # a process that has used OpenMP's threads forks none that can
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "retrieval": lambda: alone(lambda: retrieval(None if given.full else 4))
    }
    if given.classifier and given.whole_classifier:
        folders = given.classifier, given.whole_classifier
        parts["classifying"] = lambda: classifying(*folders, 40 if given.full else 2)
    if given.reader:
        parts["reading"] = lambda: reading(given.reader, 80 if given.full else 2, given.whole)
    result: dict[str, Any] = {}
    for name, measure in parts.items():
        result[name] = measure()
        print(name, json.dumps(result[name]), flush=True)
    bench.reads(f"{COVID}: whole articles and their questions")
    bench.runs_in({"all sides": "float32"})
    bench.finish(result)


if __name__ == "__main__":
    main()
