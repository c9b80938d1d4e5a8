"""Data statements (Bender and Friedman 2018): facts of a corpus, and the sections that only a person can write."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from clearhead.cards.card_answers import Answers, CardQuestion, answer_or_mark, find_blanks, license_fields
from clearhead.cards.card_fields import check_fields, license_id, size_category
from clearhead.cards.model_card import Card, cell, sealed, table
from clearhead.data.catalog import Dataset
from clearhead.data.rows import Row, Rows

MAX_LABELS = 50  # more different values in a column are not labels
MAX_LABEL_CHARACTERS = 40
LABEL_COLUMNS = ("category", "class", "coarse", "intent", "label", "labels", "sentiment", "tag", "tags", "topic")

SECTIONS = (  # of a data statement: the name of its answer, and its heading
    ("curation_rationale", "Curation rationale"),
    ("language_variety", "Language variety"),
    ("speaker_demographics", "Speaker demographic"),
    ("annotator_demographics", "Annotator demographic"),
    ("speech_situation", "Speech situation"),
    ("text_characteristics", "Text characteristics"),
    ("provenance", "Provenance"),
    ("limitations", "Known problems"),
)
DATA_QUESTIONS = (
    CardQuestion(
        name="license", kind="license", example="cc-by-4.0",
        prompt="Under which license are the data? An identifier of the hub.",
    ),
    CardQuestion(
        name="license_name", example="acme-research-1.0",
        prompt="What is the license called? Put its text into a file LICENSE.",
    ),
    CardQuestion(
        name="languages", kind="languages", example="en, de",
        prompt="Which languages are the texts in? ISO 639 codes.",
    ),
    CardQuestion(
        name="curation_rationale", example="All support mail of May 2024, to sort mail by topic.",
        prompt="Which texts were selected, and why?",
    ),
    CardQuestion(
        name="language_variety", example="British English, informal, written.",
        prompt="Which varieties of the languages are they in, in prose?",
    ),
    CardQuestion(
        name="speaker_demographics", example="Customers, adults, mostly from Scotland; gender not known.",
        prompt="Who wrote or spoke them: age, gender, origin, first language, number, or why it is not known?",
    ),
    CardQuestion(
        name="annotator_demographics", example="Three members of the team, native speakers; two annotate each text.",
        prompt="Who labeled them, how were they trained and paid? Write 'no labels' where there are none.",
    ),
    CardQuestion(
        name="speech_situation", example="Written mail to a company, not edited, 2024.",
        prompt="When, where and for whom were they written or spoken, and were they edited?",
    ),
    CardQuestion(
        name="text_characteristics", example="Short complaints and questions about bills.",
        prompt="What genre and topics do they have?",
    ),
    CardQuestion(
        name="provenance", example="Exported from the ticket system by the team; names removed by hand.",
        prompt="Where do they come from, what was changed, and did the people in them consent?",
    ),
    CardQuestion(
        name="limitations", example="No mail after office hours; 2 % of the labels are known to be wrong.",
        prompt="Which problems are known, and what must the data not be used for?",
    ),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ColumnFacts:
    """A column of a table: its lengths in characters, its different values, and the counts of its labels."""

    name: str
    rows: int  # with a value
    median: int
    p95: int
    longest: int
    different: int
    labels: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class FileFacts:
    """What a data card states of a file."""

    name: str
    size: int  # bytes
    sha256: str
    rows: int | None = None  # None: its rows were not read
    skipped: int = 0
    duplicates: int = 0  # rows equal to an earlier one, apart from case and spaces
    columns: tuple[ColumnFacts, ...] = ()


def file_facts(name: str, size: int, sha256: str, rows: Rows, labels: Sequence[str] = ()) -> FileFacts:
    """Return the facts of a file from its rows; `labels` are its columns with labels besides those with usual names.

    No text of a row is kept, except the values of columns with few different ones that are labels.
    """
    lengths: dict[str, list[int]] = {}
    values: dict[str, Counter[str]] = {}
    hashes: dict[str, set[bytes]] = {}
    seen: set[bytes] = set()
    duplicates = 0
    for row in rows:
        key = _row_hash(row)
        duplicates += key in seen
        seen.add(key)
        for column, value in row.values.items():
            text = _text(value)
            lengths.setdefault(column, []).append(len(text))
            hashes.setdefault(column, set()).add(_hash(text))
            counter = values.setdefault(column, Counter())
            if len(counter) <= MAX_LABELS:
                counter.update(_items(value))
    named = (*LABEL_COLUMNS, *labels)
    columns = tuple(
        ColumnFacts(
            name=column, rows=len(n), median=int(np.median(n)), p95=int(np.percentile(n, 95)), longest=max(n),
            different=len(hashes[column]),
            labels=_labels(values[column], len(n)) if column.lower() in named or column in labels else (),
        )
        for column, n in lengths.items()
    )  # fmt: skip
    return FileFacts(
        name=name, size=size, sha256=sha256, rows=rows.num_rows, skipped=rows.num_skipped, duplicates=duplicates,
        columns=columns,
    )  # fmt: skip


def data_questions(dataset: Dataset | None) -> tuple[CardQuestion, ...]:
    """Return the questions of a data card: the license of a data set of the catalog is known."""
    known = ("license", "license_name") if dataset is not None else ()
    return tuple(question for question in DATA_QUESTIONS if question.name not in known)


def data_card(name: str, files: Sequence[FileFacts], answers: Answers, dataset: Dataset | None = None) -> Card:
    """Return the card of a data file or of a data set of the catalog."""
    from huggingface_hub import DatasetCardData

    questions = data_questions(dataset)
    rows = [file.rows for file in files if file.rows is not None]
    count = dataset.examples if dataset is not None else sum(rows) if rows else None
    data = DatasetCardData(
        language=answers.get("languages"),  # pyright: ignore[reportArgumentType]
        pretty_name=name if dataset is None else f"{dataset.name}: {dataset.title}",
        size_categories=None if count is None else [size_category(count)],
        **(license_fields(answers) if dataset is None else _known_license(dataset)),  # pyright: ignore[reportArgumentType]
    )
    fields = data.to_dict()
    check_fields(fields)
    blanks = tuple(find_blanks(questions, answers))
    lines = [f"# {cell(name)}", ""]
    if blanks:
        shown = ", ".join(f"`{question.name}`" for question in blanks)
        lines += [f"> **Draft.** Blank: {shown}. `clearhead card --data` asks for them.", ""]
    if dataset is not None:
        lines += [f"{dataset.title}, {dataset.examples:,} examples.", "", dataset.about.strip(), ""]
        lines += [f"License: {dataset.license}. Source: {dataset.source}.", ""]
    lines += ["A data statement (Bender and Friedman 2018).", ""]
    for key, heading in SECTIONS:
        lines += [f"## {heading}", "", answer_or_mark(questions, answers, key), ""]
    lines += ["## Files", "", *_file_lines(files), ""]
    return Card(text=sealed(f"---\n{data.to_yaml()}\n---\n\n" + "\n".join(lines)), fields=fields, blanks=blanks)


def facts_as_json(files: Iterable[FileFacts]) -> list[dict[str, Any]]:
    return [asdict(file) for file in files]


def _known_license(dataset: Dataset) -> dict[str, str]:
    """Return the metadata of a license of the catalog: one that the hub does not list has a name."""
    identifier = license_id(dataset.license)
    return {"license": identifier} | ({"license_name": _slug(dataset.license)} if identifier == "other" else {})


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


def _file_lines(files: Sequence[FileFacts]) -> list[str]:
    rows = [[file.name, f"{file.size:,}", *_counts(file), file.sha256[:16]] for file in files]
    lines = [*table(("file", "bytes", "rows", "unreadable", "duplicates", "SHA-256"), rows), ""]
    lines += ["Duplicates are rows equal to an earlier one of the file, apart from case and spaces."]
    about = [
        [file.name, c.name, *(f"{n:,}" for n in (c.rows, c.different, c.median, c.p95, c.longest))]
        for file in files
        for c in file.columns
    ]
    if about:
        names = ("file", "column", "rows", "different values", "characters: median", "p95", "max")
        lines += ["", "## Columns", "", *table(names, about)]
    for file in files:
        for column in file.columns:
            if column.labels:
                total = sum(count for _, count in column.labels)
                shares = [[label, f"{count:,}", f"{100 * count / total:.1f} %"] for label, count in column.labels]
                lines += ["", f"Labels of {cell(file.name)}:", "", *table((column.name, "rows", "share"), shares)]
    return lines


def _counts(file: FileFacts) -> list[str]:
    if file.rows is None:
        return ["not read", "", ""]
    return [f"{file.rows:,}", f"{file.skipped:,}", f"{file.duplicates:,}"]


def _labels(values: Counter[str], rows: int) -> tuple[tuple[str, int], ...]:
    """Return the labels of a column with their counts; empty where its values are texts or numbers instead."""
    few = len(values) <= MAX_LABELS and 2 * len(values) <= max(rows, sum(values.values()))
    short = all(len(value) <= MAX_LABEL_CHARACTERS for value in values)
    return tuple(sorted(values.items(), key=lambda item: (-item[1], item[0]))) if few and short else ()


def _items(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]


def _text(value: Any) -> str:
    return " ".join(_items(value))


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).digest()


def _row_hash(row: Row) -> bytes:
    values: Mapping[str, Any] = row.values
    return _hash("\0".join(" ".join(_text(values[name]).split()).casefold() for name in sorted(values)))
