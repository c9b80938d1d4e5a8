"""Labelled lines: the first word of a line is its label, the rest its text (`DESC:manner How did it begin ?`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from clearhead.data.lines import text_lines
from clearhead.data.rows import Fault

NAMES = ("label", "coarse", "text")  # the first word, the same up to a colon, and all that follows
MARK = "__label__"  # before a label, as fastText writes it


def labelled_records(path: Path, wanted: Mapping[str, str]) -> Iterator[tuple[int, dict[str, str] | Fault]]:
    """The wanted values of each line."""
    for number, line in enumerate(text_lines(path), 1):
        if isinstance(line, Fault):
            yield number, line
            continue
        label, _, text = line.strip().partition(" ")
        label = label.removeprefix(MARK)
        values = {"label": label, "coarse": label.partition(":")[0], "text": text.strip()}
        yield number, {ours: values[theirs] for ours, theirs in wanted.items()} if line.strip() else Fault("empty line")
