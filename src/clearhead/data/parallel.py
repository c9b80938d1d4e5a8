"""Parallel text, one file a column, where line n of one belongs to line n of the others; and text that stands alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

from clearhead.data.lines import text_lines
from clearhead.data.rows import Bad, Fault, Row

OVER = Fault("the file is at its end")


def parallel_rows(files: Mapping[str, Path]) -> Iterator[Row | Bad]:
    """The lines of several files side by side; files of different lengths are an error, once all are read."""
    number = 0
    lengths: dict[str, int] = {}  # of the files that are over, while others go on
    paths = {name: str(path) for name, path in files.items()}
    for number, lines in enumerate(zip_longest(*map(text_lines, files.values()), fillvalue=OVER), 1):
        over = [name for name, line in zip(paths, lines, strict=True) if line is OVER]
        if not over:
            yield _row(paths, dict(zip(paths, lines, strict=True)), number)
        for name in over:
            lengths.setdefault(name, number - 1)
    if lengths:
        counts = ", ".join(f"{path} has {lengths.get(name, number):,} lines" for name, path in paths.items())
        raise ValueError(
            f"{counts}: line n of each must belong to line n of the others, and somewhere they go apart; "
            "find the line that is missing or doubled"
        )


def _row(paths: dict[str, str], lines: dict[str, str | Fault], number: int) -> Row | Bad:
    for name, line in lines.items():
        if isinstance(line, Fault):
            return Bad(paths[name], number, line.reason)
    values = {name: line for name, line in lines.items() if isinstance(line, str)}
    empty = [paths[name] for name, text in values.items() if not text or text.isspace()]
    if empty:
        return Bad(empty[0], number, "empty line" if len(empty) == len(paths) else "empty")
    return Row(values, next(iter(paths.values())), number)


def plain_rows(name: str, files: list[Path]) -> Iterator[Row | Bad]:
    """The lines of text files, one after another; empty lines only part them and are no rows."""
    for path in files:
        for number, line in enumerate(text_lines(path), 1):
            if isinstance(line, Fault):
                yield Bad(str(path), number, line.reason)
            elif line.strip():
                yield Row({name: line}, str(path), number)


def text_files(folder: Path) -> list[Path]:
    """The .txt files in a folder and the folders in it, packed ones too, in the order of their names."""
    files = [p for p in folder.rglob("*") if p.name.removesuffix(".gz").removesuffix(".xz").endswith(".txt")]
    found = sorted((p for p in files if p.is_file()), key=lambda p: p.relative_to(folder).parts)
    if not found:
        raise ValueError(f"{folder} has no text files: looked for .txt, .txt.gz and .txt.xz, in its folders too")
    return found
