"""The texts of the benchmarks: files of the data sets that `clearhead data` imports or downloads."""

from __future__ import annotations

import json
import random
from pathlib import Path

from clearhead.data import locate


def data_file(reference: str) -> Path:
    """Return a file of a named data set; where it is missing, end with the command that gets it."""
    try:
        return locate(reference, base=".")
    except ValueError as error:
        raise SystemExit(f"this benchmark reads {reference}: {error}") from None


def squad_paragraphs(part: str) -> list[dict]:
    """Return the paragraphs of SQuAD 1.1, `train` or `dev`, each with its questions."""
    content = json.loads(data_file(f"squad:{part}-v1.1.json").read_text(encoding="utf-8"))
    return [paragraph for article in content["data"] for paragraph in article["paragraphs"]]


def squad_texts(count: int) -> list[str]:
    """Return texts of SQuAD's dev part in a fixed random order: a quarter paragraphs, the rest questions."""
    draw = random.Random(0)
    chosen = draw.sample(squad_paragraphs("dev"), count)
    texts = [p["context"] for p in chosen[: count // 4]] + [p["qas"][0]["question"] for p in chosen[count // 4 :]]
    draw.shuffle(texts)
    return texts
