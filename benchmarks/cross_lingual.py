"""Questions in German over documents in English: XQuAD, translated by a model that was trained here.

`--write FILE` writes the training rows of `recipes/questions-de-en.yaml`: Tatoeba's pairs, its questions twice, and
questions of SQuAD's train part as pairs of themselves, which teaches names to stay (copied monolingual data, Currey et
al. 2017).
With `--translator` the questions of XQuAD are searched in English, in German, by their translation alone, and by the
translation and the German question together, as `clearhead ask --translator` does ("translated"). A passage is right if
it holds an answer. By default the paragraphs of SQuAD's dev part are searched by words; with `--full` those of
train and dev by words and vectors. The last line is a JSON object: recall@10 of each, with intervals, and that of the
translated questions divided by that of the English ones.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from answers import MODEL, make_index, squad_documents
from benchmark import Benchmark
from clearhead.data import read_rows
from clearhead.search.evaluate_index import evaluate_index
from clearhead.search.translated_questions import QuestionTranslator
from texts import data_file

COPIES = 40_000  # questions of SQuAD's train part


def training_rows() -> Iterator[dict[str, str]]:
    """Return all rows, shuffled: Tatoeba is sorted by length."""
    rows = list(unshuffled_rows())
    random.Random(1).shuffle(rows)
    return iter(rows)


def unshuffled_rows() -> Iterator[dict[str, str]]:
    for row in read_rows(data_file("tatoeba:deu-eng.zip/deu.txt"), {"en": "1", "de": "2"}):
        yield {"de": row.values["de"], "en": row.values["en"]}
        if row.values["de"].rstrip().endswith("?"):
            yield {"de": row.values["de"], "en": row.values["en"]}
    rows = read_rows(data_file("squad:train-v1.1.json"), {"question": "question"})
    questions = [row.values["question"].strip() for row in rows]
    for question in random.Random(1).sample(questions, COPIES):
        yield {"de": question, "en": question}


def questions(language: str) -> list[dict[str, Any]]:
    content = json.loads(data_file(f"xquad:xquad.{language}.json").read_text(encoding="utf-8"))
    return [
        {"id": qa["id"], "question": qa["question"], "answers": [a["text"] for a in qa["answers"]]}
        for article in content["data"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--write", type=Path, metavar="FILE", help="write the training rows, and stop")
    bench.parser.add_argument("--translator", help="trained translator, a model folder")
    bench.parser.add_argument("--full", action="store_true", help="all questions over all paragraphs, with vectors")
    bench.parser.add_argument("--folder", help="keep the index here")
    given = bench.parse()
    if given.write:
        with given.write.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in training_rows())
        return
    if not given.translator:
        bench.parser.error("needs --translator, a model trained by recipes/questions-de-en.yaml")
    english, german = questions("en"), questions("de")
    if not given.full:
        english, german = english[::12], german[::12]
    with tempfile.TemporaryDirectory() as temporary:
        uri = f"{given.folder or temporary}/squad-{'open' if given.full else 'dev'}"
        index = make_index(uri, squad_documents(given.full), MODEL if given.full else None, 200)
        translated = QuestionTranslator(given.translator)([row["question"] for row in german])
        asked = {
            "english": english,
            "german": [{**e, "question": d["question"]} for e, d in zip(english, german, strict=True)],
            "translation": [{**e, "question": t.text} for e, t in zip(english, translated, strict=True)],
            "translated": [{**e, "question": t.query} for e, t in zip(english, translated, strict=True)],
        }
        result: dict[str, Any] = {"questions": len(english), "passages": len(index)}
        for name, rows in asked.items():
            evaluation, _ = evaluate_index(index, None, rows)
            result[name] = {"recall_10": evaluation.scores()["recall_10"], "mrr": evaluation.scores()["mrr"],
                            "interval": evaluation.intervals()["recall_10"]}  # fmt: skip
    for number in range(0, len(german), max(1, len(german) // 8)):
        print(f"{german[number]['question']}\n  {translated[number].text}\n  {english[number]['question']}")
    result["translated_of_english"] = result["translated"]["recall_10"] / result["english"]["recall_10"]
    bench.reads("xquad: questions in English and German; squad: paragraphs to search")
    bench.runs_in({"translator and retriever": "that of their folders"})
    bench.finish(result)


if __name__ == "__main__":
    main()
