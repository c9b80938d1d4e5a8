"""Readers: the files people have, as rows of named text, streamed, with every row that is left out on record."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from clearhead.data.conll import conll_names, conll_rows, place
from clearhead.data.delimited import comma, delimited_names, delimited_records, tsv
from clearhead.data.dialogues import dialogue_rows
from clearhead.data.labelled import NAMES as LABELLED
from clearhead.data.labelled import labelled_records
from clearhead.data.lines import ends_with
from clearhead.data.parallel import parallel_rows, plain_rows, text_files
from clearhead.data.records import json_names, json_records, parquet_names, parquet_records
from clearhead.data.rows import Bad, Fault, Row, Rows
from clearhead.data.spans import span_rows
from clearhead.data.squad import NAMES, paragraph_rows, squad_rows

DELIMITED = {".tsv": tsv, ".csv": comma, ".txt": tsv}  # a .txt that is a table has tabs
TABLES = (".tsv", ".csv", ".jsonl", ".parquet")
CONLL = (".conllu", ".conll", ".iob2", ".iob", ".bio")
ARCHIVES = {".zip", ".tar", ".bz2", ".zst", ".7z"}


def read_rows(source: Mapping[str, Path] | Path, columns: Mapping[str, str] | None = None) -> Rows:
    """The rows of parallel text, of plain text, or of a table; each time they are gone through, the files are read.

    `source` is a file for each column ({"source": ..., "target": ...}: line n belongs to line n), one text file, a
    folder of .txt files or SQuAD's JSON for its paragraphs ({"text": ...}), or the path of a table: .tsv, .csv, .jsonl,
    .parquet. All but Parquet may end in .gz or .xz. `columns` maps our names to those of the table; numbers ("1", "2")
    for a TSV or CSV file whose first line is no header; "label" (or "coarse", up to a colon) and "text" for a .txt file
    whose lines begin with their label; None for every column under its own name. "words" and "tags" are columns of a
    CoNLL file, by number or, of CoNLL-U, by name, or both "spans" for marked text (doccano, Prodigy, Label Studio,
    brat); "turns" the list of a dialogue in a JSONL file, or the mark between turns in a text ("__eou__"). Any other
    .json file is SQuAD's, with a question, its context and answers a row.

    A row that cannot be used (not UTF-8, an empty value, the wrong number of columns, broken JSON, over 1 MiB) is
    left out and counted: see `Rows.report`. What makes the whole file doubtful is a ValueError.
    """
    if isinstance(source, Mapping):
        if columns is not None:
            raise ValueError("columns are for a table: with a file for each column, its name is the key")
        return Rows(_text(source))
    if columns is not None and set(columns) == {"turns"}:
        return Rows(partial(dialogue_rows, _there(source), columns["turns"]))
    if columns is not None and columns.get("words") == "spans":
        if not source.exists():
            raise ValueError(_no_file(source))
        return Rows(partial(span_rows, source))
    if columns is not None and "words" in columns and not ends_with(source, *TABLES):
        names = conll_names(_there(source))
        return Rows(
            partial(conll_rows, source, {ours: place(source, theirs, names) for ours, theirs in columns.items()})
        )
    if ends_with(source, ".json"):
        return Rows(partial(squad_rows, _there(source)))
    kind = _kind(source)
    if kind == ".txt" and columns is not None and set(columns.values()) <= set(LABELLED):
        return Rows(partial(_labelled, source, columns))
    header = kind not in DELIMITED or columns is None or not all(name.isdecimal() for name in columns.values())
    if kind == ".txt" and columns is None:
        raise ValueError(
            f"{source} ends in .txt: read plain text with {{'text': path}}, or name the columns of a table with tabs"
        )
    names = columns_of(source, header=header)
    wanted = {name: name for name in names} if columns is None else dict(columns)
    if not wanted:
        raise ValueError(f"no columns to read from {source}: there are {', '.join(map(repr, names)) or 'none'}")
    for name in wanted.values():
        _check(source, name, names)
    return Rows(partial(_table, source, kind, wanted, header))


def columns_of(path: Path, *, header: bool = True) -> list[str]:
    """The names of a table's columns; without a header, which TSV and CSV may lack, "1", "2" and so on."""
    if ends_with(path, ".json"):
        return NAMES
    if ends_with(path, *CONLL):
        return conll_names(_there(path))
    kind = _kind(path)
    if kind in DELIMITED:
        return delimited_names(DELIMITED[kind], path, header)
    return json_names(path) if kind == ".jsonl" else parquet_names(path)


def _text(files: Mapping[str, Path]) -> partial[Iterator[Row | Bad]]:
    if not files:
        raise ValueError("no files to read: give one for each column, such as {'text': path}")
    for path in files.values():
        if path.suffix.lower() in ARCHIVES:
            raise ValueError(f"{path} is no text file: unpack it; .gz and .xz are read as they are")
        if not path.is_file() and not (path.is_dir() and len(files) == 1):
            raise ValueError(f"{path} is a folder: give a file for each column" if path.is_dir() else _no_file(path))
    if len(files) > 1:
        return partial(parallel_rows, dict(files))
    ((name, path),) = files.items()
    if ends_with(path, ".json"):
        return partial(paragraph_rows, name, path)
    return partial(plain_rows, name, text_files(path) if path.is_dir() else [path])


def _labelled(path: Path, wanted: Mapping[str, str]) -> Iterator[Row | Bad]:
    return _rows(str(path), labelled_records(path, wanted), wanted)


def _table(path: Path, kind: str, wanted: Mapping[str, str], header: bool) -> Iterator[Row | Bad]:
    if kind in DELIMITED:
        records = delimited_records(DELIMITED[kind], path, wanted, header)
    else:
        records = json_records(path, wanted) if kind == ".jsonl" else parquet_records(path, wanted)
    return _rows(str(path), records, wanted)


def _rows(
    file: str, records: Iterator[tuple[int, dict[str, str] | Fault]], wanted: Mapping[str, str]
) -> Iterator[Row | Bad]:
    for line, values in records:
        if isinstance(values, Fault):
            yield Bad(file, line, values.reason)
        elif empty := [theirs for ours, theirs in wanted.items() if not values[ours].strip()]:
            yield Bad(file, line, f"{empty[0]!r} is empty")
        else:
            yield Row(values, file, line)


def _there(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(_no_file(path))
    return path


def _kind(path: Path) -> str:
    _there(path)
    packed = path.suffix.lower() in (".gz", ".xz")
    kind = Path(path.stem if packed else path.name).suffix.lower()
    if kind not in (*TABLES, ".txt") or (packed and kind == ".parquet"):
        raise ValueError(
            f"{path} is no table that can be read: {', '.join(TABLES)} are, all but .parquet also with .gz or .xz; "
            "plain text is given as {'text': path}"
        )
    return kind


def _check(path: Path, name: str, names: list[str]) -> None:
    if names.count(name) > 1:
        raise ValueError(f"{path} has {names.count(name)} columns called {name!r}: give each its own name")
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        raise ValueError(
            f"{path} has no column {name!r}: there are {', '.join(map(repr, names)) or 'none'}"
            + (f"; did you mean {near[0]!r}?" if near else "")
        )


def _no_file(path: Path) -> str:
    return f"{path} is no file"
