"""What an index needs of its engine, and which engine an address belongs to."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from clearhead.search.lance_table import LanceTable
from clearhead.search.postgres_table import PostgresTable, is_postgres


class PassageTable(Protocol):
    """Passages with their words and vectors, searchable by both. One process writes at a time."""

    @property
    def info(self) -> dict[str, Any]:
        """What the index was made with, and what was fitted to it."""
        ...

    def set_info(self, info: dict[str, Any]) -> None:
        """Replace the metadata of the index in one commit."""
        ...

    @property
    def version(self) -> int:
        """The number of the version that is read; every commit makes a new one."""
        ...

    def __len__(self) -> int: ...

    def documents(self) -> dict[str, str]:
        """Return the hash of each document, by source."""
        ...

    def replace(self, sources: Sequence[str], rows: Sequence[dict[str, Any]], vectors: np.ndarray | None) -> None:
        """Replace all passages of these documents by the rows, in one commit: readers see all of it or nothing."""
        ...

    def build_indexes(self, language: str) -> None:
        """Make the search fast after rows were added."""
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """All that is read inside belongs to one version."""
        ...

    def refresh(self) -> None:
        """Read the last version from now on."""
        ...

    def search_text(self, query: str, k: int) -> list[tuple[str, float]]:
        """Return the ids and BM25 scores of the passages that match words of the query best."""
        ...

    def search_vectors(self, vector: np.ndarray, k: int) -> list[tuple[str, float]]:
        """Return the ids and cosines of the passages with the nearest vectors."""
        ...

    def rows(self, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the passages of these ids."""
        ...

    def passages(self, source: str) -> list[dict[str, Any]]:
        """Return the passages of a document, in order."""
        ...

    def scan(self) -> Iterator[dict[str, Any]]:
        """Yield all passages."""
        ...


def open_table(uri: str) -> PassageTable | None:
    """Open the passages of an index in a folder, on object storage or in a database; None where there is none."""
    return PostgresTable.open(uri) if is_postgres(uri) else LanceTable.open(f"{uri.rstrip('/')}/passages.lance")


def create_table(uri: str, info: dict[str, Any], width: int | None, language: str) -> PassageTable:
    """Create an empty table whose rows have vectors of this width, or none."""
    if is_postgres(uri):
        return PostgresTable.create(uri, info, width, language)
    return LanceTable.create(f"{uri.rstrip('/')}/passages.lance", info, width)
