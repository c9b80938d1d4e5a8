"""Rows of a file as the input of a trained task model: which column is which field."""

from pathlib import Path
from typing import Any

from clearhead.data import Rows, columns_of, read_rows
from clearhead.data.image_rows import FOLDER, is_image_source, single_image, with_image_name
from clearhead.data.spans import is_span_file
from clearhead.hub.folder import LoadedModel
from clearhead.tasks.image_inputs import decode_images
from clearhead.tasks.labels import COLUMNS
from clearhead.tasks.task import ReadsImages
from clearhead.train.recipe_finetune import find_pairs
from clearhead.vision.image_files import SUFFIXES

PAIR_FIELDS = ("anchor", "positive", "negative", "text", "second", "number")
INPUTS = {
    "classify": ("text",), "pair": ("text", "second"), "tag": ("words",), "qa": ("question", "context"),
    "embed": ("text",), "rerank": ("text", "second"), "answer": ("question", "context", "negative"),
}  # fmt: skip


def inputs_of(task: Any) -> tuple[str, ...]:
    """Return the fields that a task reads."""
    return task.texts if reads_images(task) else INPUTS[task.spec.name]


def reads_images(task: Any) -> bool:
    return isinstance(task, ReadsImages)


def rows_for(
    task: Any, loaded: LoadedModel, file: Path, columns: dict[str, str], *, labeled: bool, id_column: str | None = None
) -> Rows:
    """Return the rows of a file; a field's column is the given one, else that of training, else the field's name.

    With an id column, the rows have its value under "id"; images in a folder have their name there.
    """
    trained = loaded.metadata.get("recipe", {}).get("data", {}).get("train", {})
    fields = list(inputs_of(task))
    if reads_images(task) and not columns_in_table(file):
        rows = _images(task, file, columns, labeled=labeled)
        return Rows(lambda: decode_images(map(with_image_name, rows.raw()), task.processor))
    if labeled and task.spec.name in ("embed", "rerank"):
        available = set() if columns else set(columns_of(file))
        if task.spec.name == "embed" and {"text", "label"} <= available and "second" not in available:
            return read_rows(file, {"text": "text", "label": "label"})  # labels that are predicted from vectors
        return labeled_pairs(file, columns, trained)
    if labeled:
        column_set = next((c for c in task.spec.column_sets if set(c) <= set(trained)), task.spec.column_sets[0])
        fields += [name for name in column_set if name not in fields]
        if task.spec.name in ("classify", "pair"):
            fields = [*inputs_of(task), next(n for n, kind in COLUMNS.items() if kind == task.labels.kind)]
    if task.spec.name == "tag" and labeled and not columns and is_span_file(file):
        return read_rows(file, {"words": "spans", "tags": "spans"})
    available = columns_of(file)
    result: dict[str, str] = {}
    for name in fields:
        column = columns.get(name) or (trained.get(name) if trained.get(name) in available else name)
        if column == "words" not in available and "text" in available and not labeled:
            column = "text"  # a tagger splits text into words itself
        if column not in available:
            raise ValueError(
                f"{file} has no column {column!r} for the field {name!r}; its columns are {', '.join(available)}: "
                f"name one with --column {name}=NAME"
            )
        result[name] = column
    rows = read_rows(file, result | ({"id": id_column} if id_column is not None else {}))
    return Rows(lambda: decode_images(rows.raw(), task.processor)) if reads_images(task) else rows


def columns_in_table(file: Path) -> bool:
    """Return whether a file is a table of images, not an image, or a folder or tar file of images."""
    return not is_image_source(file) and file.suffix.lower() not in SUFFIXES


def _images(task: Any, file: Path, columns: dict[str, str], *, labeled: bool) -> Rows:
    """Return an image, or the images of a folder or tar file."""
    if not is_image_source(file):
        if labeled:
            raise ValueError(f"{file} is one image without a label: give a folder with a folder for each label")
        return Rows(lambda: single_image(file))
    fields = {"image": columns.get("image", ".")}
    if labeled:
        if task.spec.name == "caption":
            raise ValueError(f"{file} has images without captions: give a table with the columns image and caption")
        fields[next(name for name, kind in COLUMNS.items() if kind == task.labels.kind)] = FOLDER
    return read_rows(file, fields)


def labeled_pairs(file: Path, columns: dict[str, str], trained: dict[str, str]) -> Rows:
    """Return rows for the evaluation of vectors and rerankers: pairs, triplets or scored pairs."""
    if columns:
        return read_rows(file, columns)
    part = {name: column for name, column in trained.items() if name not in ("file", "group")}
    available = columns_of(file)
    if part and set(part.values()) <= set(available):
        return read_rows(file, part)
    return read_rows(file, {name: str(column) for name, column in find_pairs(file).items() if name in PAIR_FIELDS})


def pair_rows(file: Path, columns: dict[str, str]) -> Rows:
    """Return the pairs of a file: its anchors and positives."""
    found = columns or {name: str(column) for name, column in find_pairs(file).items()}
    if not {"anchor", "positive"} <= set(found):
        raise ValueError(f"{file} has no pairs: name them with --column anchor=NAME --column positive=NAME")
    return read_rows(file, {name: found[name] for name in ("anchor", "positive")})


def question_rows(file: Path, columns: dict[str, str]) -> Rows:
    """Return the questions of a file with their answers, and the context if the file has it."""
    found = columns or {name: name for name in ("question", "answers", "answer", "context") if name in columns_of(file)}
    if "answers" in found:
        found = {name: column for name, column in found.items() if name != "answer"}
    if "question" not in found or not {"answer", "answers"} & set(found):
        raise ValueError(f"{file} has no questions: name them with --column question=NAME --column answer=NAME")
    return read_rows(file, found)


def question_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return a row of `question_rows` with the texts of its answers."""
    answers = values["answers"] if "answers" in values else [values["answer"]]
    answers = [answers] if isinstance(answers, str) else [a["text"] if isinstance(a, dict) else a for a in answers]
    return {"question": values["question"], "answers": answers, "context": values.get("context")}


def parse_columns(options: list[str] | None) -> dict[str, str]:
    """Parse --column options: ["text=review"] becomes {"text": "review"}."""
    columns: dict[str, str] = {}
    for option in options or []:
        field, equals, column = option.partition("=")
        if not equals:
            raise ValueError(f"--column {option} has no '=': write it as --column text=NAME")
        columns[field] = column
    return columns
