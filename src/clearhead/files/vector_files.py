"""Writers of vectors to JSON lines, NumPy's .npy or Parquet, batch by batch."""

import json
import sys
from abc import abstractmethod
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self

import numpy as np
from torch import Tensor

from clearhead.files.atomic import partial_path

HEADER_BYTES = 128  # header of an .npy file; rewritten at the end, when the shape is known


class VectorWriter(Protocol):
    """A file that vectors (n, D) are appended to."""

    @abstractmethod
    def write(self, vectors: Tensor) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class JsonLinesWriter:
    """One JSON object per line: the index of the text and its vector."""

    def __init__(self, file: IO[str], first: int) -> None:
        self._file, self._next = file, first

    def write(self, vectors: Tensor) -> None:
        for vector in vectors.tolist():
            self._file.write(json.dumps({"text": self._next, "vector": [float(f"{x:.8g}") for x in vector]}) + "\n")
            self._next += 1
        self._file.flush()

    def close(self) -> None:
        if self._file is not sys.stdout:
            self._file.close()


class NpyWriter:
    """One float32 matrix (texts, D)."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb+")
        self._file.write(b"\0" * HEADER_BYTES)
        self._count = self._width = 0

    def write(self, vectors: Tensor) -> None:
        self._file.write(vectors.numpy().astype("<f4").tobytes())
        self._count, self._width = self._count + len(vectors), vectors.shape[1]

    def close(self) -> None:
        header = {"descr": "<f4", "fortran_order": False, "shape": (self._count, self._width)}
        text = repr(header).encode("latin1")
        self._file.seek(0)
        self._file.write(np.lib.format.magic(1, 0) + (HEADER_BYTES - 10).to_bytes(2, "little"))
        self._file.write(text + b" " * (HEADER_BYTES - 11 - len(text)) + b"\n")
        self._file.close()


class ParquetWriter:
    """A table with the columns `text` (the index of the text) and `vector` (a list of D numbers)."""

    def __init__(self, path: Path, first: int) -> None:
        try:
            import pyarrow.parquet as parquet
        except ImportError:
            raise ValueError("Parquet needs pyarrow: pip install 'clearhead[parquet]', or write .npy") from None
        self._parquet: Any = parquet
        self._path, self._next, self._writer = path, first, None

    def write(self, vectors: Tensor) -> None:
        import pyarrow as arrow

        values = arrow.array(vectors.numpy().reshape(-1), arrow.float32())
        rows = {
            "text": arrow.array(range(self._next, self._next + len(vectors)), arrow.int64()),
            "vector": arrow.FixedSizeListArray.from_arrays(values, vectors.shape[1]),
        }
        table = arrow.table(rows)
        if self._writer is None:
            self._writer = self._parquet.ParquetWriter(self._path, table.schema)
        self._writer.write_table(table)
        self._next += len(vectors)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class VectorOutput:
    """A writer whose file is `NAME.partial` until it is complete, and stays so if the run is interrupted."""

    def __init__(self, path: Path | None, first: int = 0) -> None:
        self.path = path
        self.partial = None if path is None else partial_path(path)
        if path is None or self.partial is None:
            self._output: VectorWriter = JsonLinesWriter(sys.stdout, first)
        elif path.suffix == ".jsonl":
            self._output = JsonLinesWriter(self.partial.open("w", encoding="utf-8"), first)
        elif path.suffix == ".npy":
            self._output = NpyWriter(self.partial)
        elif path.suffix == ".parquet":
            self._output = ParquetWriter(self.partial, first)
        else:
            raise ValueError(f"{path} ends in {path.suffix!r}: use .jsonl, .npy or .parquet")

    def write(self, vectors: Tensor) -> None:
        self._output.write(vectors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._output.close()
        if kind is None and self.partial is not None and self.path is not None and self.partial.exists():
            self.partial.replace(self.path)
