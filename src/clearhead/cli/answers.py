"""Data for a model that answers: which rows a file holds, and under which names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clearhead.data import Rows, columns_of, read_rows
from clearhead.data.spans import is_span_file
from clearhead.models.store import Opened
from clearhead.tasks.labels import COLUMNS

GIVEN = {"classify": ("text",), "pair": ("text", "second"), "tag": ("words",), "qa": ("question", "context")}


def rows_for(task: Any, opened: Opened, file: Path, columns: dict[str, str], *, labelled: bool) -> Rows:
    """The rows of a file; its columns are named as asked, or as in training, or as the task calls them."""
    trained = opened.facts.get("recipe", {}).get("data", {}).get("train", {})
    wanted = list(GIVEN[task.name])
    if labelled:
        form = next((f for f in task.forms if set(f) <= set(trained)), task.forms[0])
        wanted += [name for name in form if name not in wanted]
        if task.name in ("classify", "pair"):
            wanted = [*GIVEN[task.name], next(n for n, kind in COLUMNS.items() if kind == task.labels.kind)]
    if task.name == "tag" and labelled and not columns and is_span_file(file):
        return read_rows(file, {"words": "spans", "tags": "spans"})
    there = columns_of(file)
    found: dict[str, str] = {}
    for name in wanted:
        asked = columns.get(name) or (trained.get(name) if trained.get(name) in there else name)
        if asked == "words" not in there and "text" in there and not labelled:
            asked = "text"  # a tagger finds the words itself
        if asked not in there:
            raise ValueError(
                f"{file} has the columns {', '.join(there)}: which one is the {name}? Say --column {name}=NAME"
            )
        found[name] = asked
    return read_rows(file, found)


def columns_named(given: list[str] | None) -> dict[str, str]:
    """--column text=review as {"text": "review"}."""
    out: dict[str, str] = {}
    for one in given or []:
        name, equals, theirs = one.partition("=")
        if not equals:
            raise ValueError(f"--column {one}: write it as --column text=NAME")
        out[name] = theirs
    return out
