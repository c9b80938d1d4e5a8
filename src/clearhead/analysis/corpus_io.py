"""Files of an analysis: reads the documents of a corpus, writes result rows as a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def read_texts(path: Path) -> Iterator[str]:
    """Yield the "text" field of each line of a JSONL file, or each line of any other file; skips blank lines."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            if path.suffix not in (".jsonl", ".json"):
                yield line.rstrip("\n")
                continue
            try:
                yield str(json.loads(line)["text"])
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise ValueError(f'{path}:{number}: each line must be an object with a "text" key ({error})') from None


def write_parquet(rows: Sequence[DataclassInstance], path: Path) -> None:
    """Write dataclass instances as the rows of a Parquet file; the file appears when it is complete."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ValueError("Parquet files need pyarrow: pip install 'clearhead[parquet]'") from None
    partial = path.with_name(path.name + ".partial")
    pq.write_table(pa.Table.from_pylist([asdict(row) for row in rows]), partial)
    partial.replace(path)
