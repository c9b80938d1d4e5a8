"""Parallel text (one file per column; line n of each file belongs together) and plain text files."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

from clearhead.data.lines import text_lines
from clearhead.data.rows import Row, RowError, SkippedRow

END_OF_FILE = RowError("end of file")


def parallel_rows(files: Mapping[str, Path]) -> Iterator[Row | SkippedRow]:
    """Yield rows of aligned lines; files of different lengths raise a ValueError after all lines are read."""
    number = 0
    lengths: dict[str, int] = {}  # of the files that end before the others
    paths = {name: str(path) for name, path in files.items()}
    for number, lines in enumerate(zip_longest(*map(text_lines, files.values()), fillvalue=END_OF_FILE), 1):
        ended = [name for name, line in zip(paths, lines, strict=True) if line is END_OF_FILE]
        if not ended:
            yield _row(paths, dict(zip(paths, lines, strict=True)), number)
        for name in ended:
            lengths.setdefault(name, number - 1)
    if lengths:
        counts = ", ".join(f"{path} has {lengths.get(name, number):,} lines" for name, path in paths.items())
        raise ValueError(
            f"{counts}: line n of each file must belong to line n of the others; find the missing or duplicated line"
        )


def _row(paths: dict[str, str], lines: dict[str, str | RowError], number: int) -> Row | SkippedRow:
    for name, line in lines.items():
        if isinstance(line, RowError):
            return SkippedRow(paths[name], number, line.reason)
    values = {name: line for name, line in lines.items() if isinstance(line, str)}
    empty = [paths[name] for name, text in values.items() if not text or text.isspace()]
    if empty:
        return SkippedRow(empty[0], number, "empty line" if len(empty) == len(paths) else "empty")
    return Row(values, next(iter(paths.values())), number)


def plain_rows(name: str, files: list[Path]) -> Iterator[Row | SkippedRow]:
    """Yield the non-empty lines of text files; empty lines are separators, not skipped rows."""
    for path in files:
        for number, line in enumerate(text_lines(path), 1):
            if isinstance(line, RowError):
                yield SkippedRow(str(path), number, line.reason)
            elif line.strip():
                yield Row({name: line}, str(path), number)


def text_files(folder: Path) -> list[Path]:
    """Return the .txt files below a folder, plain or compressed, sorted by path."""
    files = [p for p in folder.rglob("*") if p.name.removesuffix(".gz").removesuffix(".xz").endswith(".txt")]
    result = sorted((p for p in files if p.is_file()), key=lambda p: p.relative_to(folder).parts)
    if not result:
        raise ValueError(f"{folder} has no text files: .txt, .txt.gz and .txt.xz are read, also in subfolders")
    return result
