"""Readers: common file formats as a stream of rows with named columns; every skipped row is recorded."""

import difflib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from clearhead.data.conll import column_index, conll_names, conll_rows
from clearhead.data.delimited import (
    LABELED_COLUMNS,
    csv_records,
    delimited_names,
    delimited_records,
    labeled_records,
    tsv_records,
)
from clearhead.data.dialogues import dialogue_rows
from clearhead.data.hub_dataset import HubDataset
from clearhead.data.image_rows import image_rows, is_image_source, with_images
from clearhead.data.lines import ends_with
from clearhead.data.parallel_text import parallel_rows, plain_rows, text_files
from clearhead.data.records import json_names, json_records, parquet_names, parquet_records
from clearhead.data.rows import Row, RowError, Rows, SkippedRow
from clearhead.data.spans import span_rows
from clearhead.data.squad import SQUAD_COLUMNS, paragraph_rows, squad_rows

DELIMITED = {".tsv": tsv_records, ".csv": csv_records, ".txt": tsv_records}  # a table in a .txt file is tab-separated
TABLES = (".tsv", ".csv", ".jsonl", ".parquet")
CONLL = (".conllu", ".conll", ".iob2", ".iob", ".bio")
ARCHIVES = {".zip", ".tar", ".bz2", ".zst", ".7z"}


def read_rows(source: Mapping[str, Path] | Path | HubDataset, columns: Mapping[str, str] | None = None) -> Rows:
    """Return the rows of parallel text, plain text or a table; every iteration reads the files again.

    `source` is one of:

    - a file per column, {"source": ..., "target": ...}, where line n of each file belongs together;
    - {"text": path} for one text file, a folder of .txt files, or the paragraphs of a SQuAD JSON file;
    - the path of a table: .tsv, .csv, .jsonl or .parquet (all but Parquet also as .gz or .xz);
    - the path of a folder or tar file of images in folders, or of a table with the paths of images, relative to it;
    - the path of a CoNLL, SQuAD (.json), dialogue or span-annotation file;
    - a data set of the Hugging Face hub: HubDataset(name="nyu-mll/glue", config="sst2", revision=...).

    `columns` maps our names to those of the table; None reads every column under its own name. Use numbers ("1", "2")
    for a TSV or CSV file without a header, and "label" (or "coarse", the label up to a colon) and "text" for a .txt
    file whose lines begin with their label. For CoNLL, "words" and "tags" are column numbers or CoNLL-U names; both are
    "spans" for doccano, Prodigy, Label Studio and brat. "turns" is the key of the list of turns in a JSONL file, or the
    separator between turns in a text file ("__eou__"). "image" is the column of an image's path, or of images in
    folders the folder that holds them ("train", "."), with "label" as "folder".

    A row that cannot be used (not UTF-8, empty value, wrong number of columns, broken JSON, over 1 MiB) is skipped and
    counted: see `Rows.report`. A problem with the file as a whole raises a ValueError.
    """
    if isinstance(source, Mapping):
        if columns is not None:
            raise ValueError("columns apply to a table only: with one file per column, the keys are the column names")
        return Rows(_text(source))
    if isinstance(source, HubDataset):
        names = source.column_names()
        wanted = _wanted(str(source), names, columns)
        return Rows(lambda: _rows(str(source), source.records(wanted), wanted))
    if columns is not None and "image" in columns and is_image_source(source):
        return Rows(partial(image_rows, source, columns))
    if columns is not None and set(columns) == {"turns"}:
        return Rows(partial(dialogue_rows, _existing(source), columns["turns"]))
    if columns is not None and columns.get("words") == "spans":
        if not source.exists():
            raise ValueError(_no_file(source))
        return Rows(partial(span_rows, source))
    if columns is not None and "words" in columns and not ends_with(source, *TABLES):
        names = conll_names(_existing(source))
        indices = {ours: column_index(source, theirs, names) for ours, theirs in columns.items()}
        return Rows(partial(conll_rows, source, indices))
    if ends_with(source, ".json"):
        for name in (columns or {}).values():
            _check(str(source), name, SQUAD_COLUMNS)
        return Rows(partial(_squad, _existing(source), columns))
    kind = _kind(source)
    if kind == ".txt" and columns is not None and set(columns.values()) <= set(LABELED_COLUMNS):
        return Rows(partial(_labeled, source, columns))
    header = kind not in DELIMITED or columns is None or not all(name.isdecimal() for name in columns.values())
    if kind == ".txt" and columns is None:
        raise ValueError(
            f"{source} is a .txt file: read plain text with {{'text': path}}, or pass columns for a tab-separated table"
        )
    names = columns_of(source, header=header)
    wanted = _wanted(str(source), names, columns)
    rows = partial(_table, source, kind, wanted, header)
    return Rows(lambda: with_images(rows(), source.parent)) if "image" in wanted else Rows(rows)


def columns_of(path: Path, *, header: bool = True) -> list[str]:
    """Return the column names of a table; for TSV and CSV without a header, "1", "2" and so on."""
    if ends_with(path, ".json"):
        return SQUAD_COLUMNS
    if ends_with(path, *CONLL):
        return conll_names(_existing(path))
    kind = _kind(path)
    if kind in DELIMITED:
        return delimited_names(DELIMITED[kind], path, header)
    return json_names(path) if kind == ".jsonl" else parquet_names(path)


def _text(files: Mapping[str, Path]) -> partial[Iterator[Row | SkippedRow]]:
    if not files:
        raise ValueError("no files to read: pass one file per column, such as {'text': path}")
    for path in files.values():
        if path.suffix.lower() in ARCHIVES:
            raise ValueError(f"{path} is an archive: unpack it first; only .gz and .xz are read directly")
        if not path.is_file() and not (path.is_dir() and len(files) == 1):
            raise ValueError(f"{path} is a folder: pass one file per column" if path.is_dir() else _no_file(path))
    if len(files) > 1:
        return partial(parallel_rows, dict(files))
    ((name, path),) = files.items()
    if ends_with(path, ".json"):
        return partial(paragraph_rows, name, path)
    return partial(plain_rows, name, text_files(path) if path.is_dir() else [path])


def _squad(path: Path, columns: Mapping[str, str] | None) -> Iterator[Row | SkippedRow]:
    for row in squad_rows(path):
        if columns is None or isinstance(row, SkippedRow):
            yield row
        else:
            yield Row({ours: row.values[theirs] for ours, theirs in columns.items()}, row.file, row.line)


def _labeled(path: Path, wanted: Mapping[str, str]) -> Iterator[Row | SkippedRow]:
    return _rows(str(path), labeled_records(path, wanted), wanted)


def _table(path: Path, kind: str, wanted: Mapping[str, str], header: bool) -> Iterator[Row | SkippedRow]:
    if kind in DELIMITED:
        records = delimited_records(DELIMITED[kind], path, wanted, header)
    else:
        records = json_records(path, wanted) if kind == ".jsonl" else parquet_records(path, wanted)
    return _rows(str(path), records, wanted)


def _rows(
    file: str, records: Iterator[tuple[int, dict[str, Any] | RowError]], wanted: Mapping[str, str]
) -> Iterator[Row | SkippedRow]:
    for line, values in records:  # an empty answer says that there is none
        if isinstance(values, RowError):
            yield SkippedRow(file, line, values.reason)
        elif empty := [theirs for ours, theirs in wanted.items() if ours != "answer" and _is_empty(values[ours])]:
            yield SkippedRow(file, line, f"{empty[0]!r} is empty", values)
        else:
            yield Row(values, file, line)


def _is_empty(value: Any) -> bool:
    """Return whether a text, or one of a list of texts, is blank; images and answers with their places are not."""
    return any(isinstance(text, str) and not text.strip() for text in (value if isinstance(value, list) else [value]))


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(_no_file(path))
    return path


def _kind(path: Path) -> str:
    _existing(path)
    compressed = path.suffix.lower() in (".gz", ".xz")
    kind = Path(path.stem if compressed else path.name).suffix.lower()
    if kind not in (*TABLES, ".txt") or (compressed and kind == ".parquet"):
        raise ValueError(
            f"{path} is no table: {', '.join(TABLES)} are supported, all but .parquet also as .gz or .xz; "
            "pass plain text as {'text': path}"
        )
    return kind


def _wanted(file: str, names: list[str], columns: Mapping[str, str] | None) -> dict[str, str]:
    """Return the columns to read, by our names; ValueError if there are none, or one does not exist."""
    wanted = {name: name for name in names} if columns is None else dict(columns)
    if not wanted:
        raise ValueError(f"no columns to read from {file}: the columns are {', '.join(map(repr, names)) or 'none'}")
    for name in wanted.values():
        _check(file, name, names)
    return wanted


def _check(file: str, name: str, names: list[str]) -> None:
    if names.count(name) > 1:
        raise ValueError(f"{file} has {names.count(name)} columns named {name!r}: column names must be unique")
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        raise ValueError(
            f"{file} has no column {name!r}: the columns are {', '.join(map(repr, names)) or 'none'}"
            + (f"; did you mean {near[0]!r}?" if near else "")
        )


def _no_file(path: Path) -> str:
    return f"there is no file {path}: check the path"
