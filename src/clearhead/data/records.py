"""JSONL and Parquet: records whose values have names and kinds, of which text and numbers are taken."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from clearhead.data.lines import LONGEST, NOT_UTF8, TOO_LONG, blemish, text_lines
from clearhead.data.rows import Fault

SAMPLE = 100  # records of a JSONL file that are asked for their keys
BATCH = 256  # rows of a Parquet file in memory at a time


def json_names(path: Path) -> list[str]:
    """The keys of the first hundred records, in the order they are met."""
    records = (_object(line) for line in islice(text_lines(path), SAMPLE))
    return list({key: None for record in records if not isinstance(record, Fault) for key in record})


def json_records(path: Path, wanted: Mapping[str, str]) -> Iterator[tuple[int, dict[str, str] | Fault]]:
    """The wanted values of each line, which is an object; numbers as they are written there."""
    for number, line in enumerate(text_lines(path), 1):
        record = _object(line)
        yield number, record if isinstance(record, Fault) else _texts(record, wanted)


def _object(line: str | Fault) -> dict[str, Any] | Fault:
    if isinstance(line, Fault):
        return line
    if not line.strip():
        return Fault("empty line")
    try:
        value = json.loads(line, parse_int=str, parse_float=str, parse_constant=_no_constant)
    except RecursionError:
        return Fault("broken JSON (nested too deeply)")
    except json.JSONDecodeError as error:
        return Fault(f"broken JSON ({error.msg} at character {error.pos + 1:,})")
    except ValueError as error:  # NaN and the like
        return Fault(f"broken JSON ({error})")
    return value if isinstance(value, dict) else Fault("not a JSON object: {...} is due")


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


def _texts(record: Mapping[str, Any], wanted: Mapping[str, str]) -> dict[str, str] | Fault:
    texts: dict[str, str] = {}
    for ours, theirs in wanted.items():
        if theirs not in record:
            return Fault(f"there is no {theirs!r}")
        value = record[theirs]
        if type(value) is int or (type(value) is float and math.isfinite(value)):
            value = json.dumps(value)
        if not isinstance(value, str):
            return Fault(f"{theirs!r} is {_KINDS.get(type(value), 'of another kind')}, not text")
        if fault := TOO_LONG if len(value) > LONGEST else blemish(value):
            return fault
        texts[ours] = value
    return texts


_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "true or false",
    float: "no finite number",
    list: "a list",
    dict: "an object",
}


def parquet_names(path: Path) -> list[str]:
    """The columns of the schema."""
    return list(_parquet(path).schema_arrow.names)


def parquet_records(path: Path, wanted: Mapping[str, str]) -> Iterator[tuple[int, dict[str, str] | Fault]]:
    """The wanted values of each row; `line` is the number of the row."""
    number = 1
    file = _parquet(path)
    try:
        for batch in file.iter_batches(BATCH, columns=sorted(set(wanted.values()))):
            columns = {name: _values(batch.column(name)) for name in set(wanted.values())}
            for i in range(batch.num_rows):
                record = {name: values[i] for name, values in columns.items()}
                yield number, NOT_UTF8 if NOT_UTF8 in record.values() else _texts(record, wanted)
                number += 1
    except (ValueError, OSError) as error:  # ArrowInvalid is a ValueError
        raise ValueError(f"{path}, row {number}: cannot be read further: {error}") from error


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
        raise ValueError(f"{path}: Parquet needs pyarrow: pip install 'clearhead[parquet]'") from None
    try:
        return parquet.ParquetFile(path)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from error
