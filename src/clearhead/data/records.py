"""JSONL and Parquet readers: records with named, typed values; text and finite numbers are read as text."""

import json
import math
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from clearhead.data.lines import MAX_LINE_BYTES, NOT_UTF8, TOO_LONG, check_text, text_lines
from clearhead.data.rows import RowError

KEY_SAMPLE_RECORDS = 100  # JSONL records whose keys name the columns
LIST_COLUMNS = ("negative", "answers", "words", "tags")  # of ours: may be lists of texts; answers may be empty
PARQUET_BATCH_ROWS = 256  # rows in memory at a time


def json_names(path: Path) -> list[str]:
    """Return the keys of the first hundred records, in order of appearance."""
    records = (_object(line) for line in islice(text_lines(path), KEY_SAMPLE_RECORDS))
    return list({key: None for record in records if not isinstance(record, RowError) for key in record})


def json_records(path: Path, wanted: Mapping[str, str]) -> Iterator[tuple[int, dict[str, Any] | RowError]]:
    """Yield the line number and the wanted values of each JSON object; numbers keep their written form."""
    for number, line in enumerate(text_lines(path), 1):
        record = _object(line)
        yield number, record if isinstance(record, RowError) else record_texts(record, wanted)


def _object(line: str | RowError) -> dict[str, Any] | RowError:
    if isinstance(line, RowError):
        return line
    if not line.strip():
        return RowError("empty line")
    try:
        value = json.loads(line, parse_int=str, parse_float=str, parse_constant=_no_constant)
    except RecursionError:
        return RowError("broken JSON (nested too deeply)")
    except json.JSONDecodeError as error:
        return RowError(f"broken JSON ({error.msg} at character {error.pos + 1:,})")
    except ValueError as error:  # NaN and the like
        return RowError(f"broken JSON ({error})")
    return value if isinstance(value, dict) else RowError("not a JSON object: each line must be {...}")


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


def record_texts(record: Mapping[str, Any], wanted: Mapping[str, str]) -> dict[str, Any] | RowError:
    """Return the wanted values of a record as text, or the first reason why one cannot be used."""
    texts: dict[str, Any] = {}
    for ours, theirs in wanted.items():
        if theirs not in record:
            return RowError(f"missing {theirs!r}")
        value = record[theirs]
        if ours in LIST_COLUMNS and isinstance(value, list):
            items = [record_texts({theirs: item}, {ours: theirs}) for item in value if not isinstance(item, list)]
            if error := next((item for item in items if isinstance(item, RowError)), None):
                return error
            if (not items and ours != "answers") or len(items) < len(value):
                return RowError(f"{theirs!r} must be a list of texts, not empty and not nested")
            texts[ours] = [item[ours] for item in items if not isinstance(item, RowError)]
            continue
        if type(value) is int or (type(value) is float and math.isfinite(value)):
            value = json.dumps(value)
        if not isinstance(value, str):
            return RowError(f"{theirs!r} is {_TYPE_NAMES.get(type(value), 'an unsupported type')}, not text")
        if error := TOO_LONG if len(value) > MAX_LINE_BYTES else check_text(value):
            return error
        texts[ours] = value
    return texts


_TYPE_NAMES: dict[type, str] = {
    type(None): "null",
    bool: "a boolean",
    float: "not a finite number",
    list: "a list",
    dict: "an object",
}


def parquet_names(path: Path) -> list[str]:
    return list(_parquet(path).schema_arrow.names)


def parquet_records(path: Path, wanted: Mapping[str, str]) -> Iterator[tuple[int, dict[str, Any] | RowError]]:
    """Yield the row number, from 1, and the wanted values of each row."""
    number = 1
    file = _parquet(path)
    try:
        for batch in file.iter_batches(PARQUET_BATCH_ROWS, columns=sorted(set(wanted.values()))):
            columns = {name: _values(batch.column(name)) for name in set(wanted.values())}
            for i in range(batch.num_rows):
                record = {name: values[i] for name, values in columns.items()}
                yield number, NOT_UTF8 if NOT_UTF8 in record.values() else record_texts(record, wanted)
                number += 1
    except (ValueError, OSError) as error:  # ArrowInvalid is a ValueError
        raise ValueError(f"{path}, row {number}: reading failed: {error}") from error


def _values(column: Any) -> list[Any]:
    try:
        return column.to_pylist()
    except UnicodeDecodeError:
        return [_value(value) for value in column]


def _value(value: Any) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return NOT_UTF8


def _parquet(path: Path) -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise ValueError(f"{path}: Parquet requires pyarrow: pip install 'clearhead[parquet]'") from None
    try:
        return parquet.ParquetFile(path)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from error
