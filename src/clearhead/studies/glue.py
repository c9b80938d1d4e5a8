"""GLUE: rows of its tasks, as studies fine-tune on them."""

from __future__ import annotations

from pathlib import Path

from clearhead.data import read_rows
from clearhead.data.sets import locate
from clearhead.studies.tuned import COLUMNS, Labelled

Task = tuple[str, dict[str, str]]
"""Its files, {} for the part, and which column is which."""

SST2: Task = "SST-2/{}.tsv", {"text": "sentence", "label": "label"}
MRPC: Task = "MRPC/{}.tsv", {"text": "#1 String", "second": "#2 String", "label": "Quality"}


def rows_of(task: Task, part: str) -> list[Labelled]:
    """The rows of a part: "train" or "dev"."""
    file, columns = task
    names = [name for name in COLUMNS if name in columns]
    rows = read_rows(locate(f"glue:{file.format(part)}", Path()), columns)
    return [(tuple(row.values[name] for name in names), row.values["label"]) for row in rows]
