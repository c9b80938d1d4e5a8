"""The table of an index in PostgreSQL with pgvector, for people who have a database already."""

import json
import re
import weakref
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from clearhead.search.lance_table import VECTOR_INDEX_ROWS
from clearhead.search.passages import LANGUAGES

K1, B = 1.2, 0.75  # of BM25
COLUMNS = ("id", "source", "sha256", "start", "end", "page", "heading", "text", "words")
READ = '"id", "source", "start", "end", "page", "heading", "text"'
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,40}")

CREATE = """
CREATE TABLE {table} (
    "id" text PRIMARY KEY, "source" text NOT NULL, "sha256" text NOT NULL, "start" bigint NOT NULL,
    "end" bigint NOT NULL, "page" integer, "heading" text NOT NULL, "text" text NOT NULL, "words" text NOT NULL{vector},
    "lexemes" tsvector GENERATED ALWAYS AS (to_tsvector('{language}'::regconfig, "words")) STORED,
    "length" integer GENERATED ALWAYS AS (length(to_tsvector('{language}'::regconfig, "words"))) STORED
);
CREATE INDEX ON {table} USING gin ("lexemes");
CREATE INDEX ON {table} ("source");
"""

BM25 = """
WITH query AS (SELECT lexeme FROM unnest(to_tsvector(%(language)s::regconfig, %(query)s))),
     total AS (SELECT count(*)::float8 AS n, coalesce(avg("length"), 1)::float8 AS mean FROM {table}),
     hits AS (
         SELECT t."id", t."length", l.lexeme, cardinality(l.positions) AS tf
         FROM {table} t, unnest(t."lexemes") l JOIN query USING (lexeme)
         WHERE t."lexemes" @@ (SELECT string_agg(quote_literal(lexeme), ' | ')::tsquery FROM query)
     ),
     frequency AS (SELECT lexeme, count(*)::float8 AS df FROM hits GROUP BY lexeme)
SELECT h."id", sum(ln(1 + (n - df + 0.5) / (df + 0.5)) * tf * ({k1} + 1)
                   / (tf + {k1} * (1 - {b} + {b} * h."length" / mean))) AS score
FROM hits h JOIN frequency USING (lexeme) CROSS JOIN total
GROUP BY h."id" ORDER BY score DESC, h."id" LIMIT %(k)s
"""


def is_postgres(uri: str) -> bool:
    """Return whether an address is one of PostgreSQL."""
    return uri.startswith(("postgresql://", "postgres://"))


class PostgresTable:
    """Passages in PostgreSQL. The address is that of the database, and the fragment the name: postgresql://HOST/DB#NAME."""

    def __init__(self, connection: Any, name: str) -> None:
        self._connection, self._name, self._table = connection, name, f'"clearhead_{name}"'
        weakref.finalize(self, connection.close)

    @staticmethod
    def open(uri: str) -> "PostgresTable | None":
        """Open a table; None where there is none."""
        table = PostgresTable(*_connect(uri))
        found = table._one("SELECT to_regclass('clearhead_indexes')")
        if found is None or table._one("SELECT name FROM clearhead_indexes WHERE name = %s", table._name) is None:
            return None
        return table

    @staticmethod
    def create(uri: str, info: dict[str, Any], width: int | None, language: str) -> "PostgresTable":
        """Create an empty table whose rows have vectors of this width, or none."""
        connection, name = _connect(uri)
        table = PostgresTable(connection, name)
        vector = "" if width is None else f', "vector" vector({int(width)}) NOT NULL'
        with connection.transaction():
            if width is not None:
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS clearhead_indexes "
                "(name text PRIMARY KEY, info jsonb NOT NULL, version bigint NOT NULL)"
            )
            connection.execute(CREATE.format(table=table._table, vector=vector, language=language.lower()))
            connection.execute("INSERT INTO clearhead_indexes VALUES (%s, %s, 1)", (name, json.dumps(info)))
        return table

    @property
    def info(self) -> dict[str, Any]:
        """What the index was made with."""
        return self._one("SELECT info FROM clearhead_indexes WHERE name = %s", self._name)

    def set_info(self, info: dict[str, Any]) -> None:
        """Replace the metadata of the index in one transaction."""
        self._connection.execute(
            "UPDATE clearhead_indexes SET info = %s, version = version + 1 WHERE name = %s",
            (json.dumps(info), self._name),
        )

    @property
    def version(self) -> int:
        return self._one("SELECT version FROM clearhead_indexes WHERE name = %s", self._name)

    def __len__(self) -> int:
        return self._one(f"SELECT count(*) FROM {self._table}")

    def documents(self) -> dict[str, str]:
        """Return the hash of each document, by source."""
        return dict(self._all(f'SELECT DISTINCT "source", "sha256" FROM {self._table}'))

    def replace(self, sources: Sequence[str], rows: Sequence[dict[str, Any]], vectors: np.ndarray | None) -> None:
        """Replace all passages of these documents by the rows, in one transaction."""
        names = [*COLUMNS, *(["vector"] if vectors is not None else [])]
        columns = ", ".join(f'"{name}"' for name in names)
        with self._connection.transaction():
            # the lock on this row makes writers wait for one another
            self._connection.execute(
                "UPDATE clearhead_indexes SET version = version + 1 WHERE name = %s", (self._name,)
            )
            self._connection.execute(f'DELETE FROM {self._table} WHERE "source" = ANY(%s)', (list(sources),))
            with (
                self._connection.cursor() as cursor,
                cursor.copy(f"COPY {self._table} ({columns}) FROM STDIN") as copy,
            ):
                for i, row in enumerate(rows):
                    more = [] if vectors is None else [_literal(vectors[i])]
                    copy.write_row([_clean(row[name]) for name in COLUMNS] + more)

    def build_indexes(self, language: str) -> None:
        """Index the vectors of a large table; words are always indexed."""
        has_vectors = self._one(
            "SELECT count(*) FROM information_schema.columns WHERE table_name = %s AND column_name = 'vector'",
            self._table.strip('"'),
        )
        if has_vectors and len(self) >= VECTOR_INDEX_ROWS:
            name = f'"clearhead_{self._name}_vector"'
            self._connection.execute(
                f'CREATE INDEX IF NOT EXISTS {name} ON {self._table} USING hnsw ("vector" vector_ip_ops)'
            )
        self._connection.execute(f"ANALYZE {self._table}")

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """All that is read inside belongs to one version."""
        with self._connection.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield

    def refresh(self) -> None:
        """Nothing to do: every snapshot is of the last version."""

    def search_text(self, query: str, k: int) -> list[tuple[str, float]]:
        """Return the ids and BM25 scores of the passages that match words of the query best."""
        language = LANGUAGES[self.info["passages"]["language"]].lower()
        statement = BM25.format(table=self._table, k1=K1, b=B)
        return self._all(statement, {"language": language, "query": _clean(query), "k": k})

    def search_vectors(self, vector: np.ndarray, k: int) -> list[tuple[str, float]]:
        """Return the ids and cosines of the passages with the nearest vectors."""
        statement = (
            f'SELECT "id", -("vector" <#> %(vector)s::vector) FROM {self._table} '
            f'ORDER BY "vector" <#> %(vector)s::vector, "id" LIMIT %(k)s'
        )
        return self._all(statement, {"vector": _literal(vector), "k": k})

    def rows(self, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the passages of these ids."""
        found = self._dicts(f'SELECT {READ} FROM {self._table} WHERE "id" = ANY(%s)', list(ids))
        return {row["id"]: row for row in found}

    def passages(self, source: str) -> list[dict[str, Any]]:
        """Return the passages of a document, in order."""
        return self._dicts(f'SELECT {READ} FROM {self._table} WHERE "source" = %s ORDER BY "start"', source)

    def scan(self) -> Iterator[dict[str, Any]]:
        """Yield all passages."""
        with self.snapshot(), self._connection.cursor("scan") as cursor:
            cursor.execute(f'SELECT {READ} FROM {self._table} ORDER BY "source", "start"')
            names = [column.name for column in cursor.description]
            for row in cursor:
                yield dict(zip(names, row, strict=True))

    def _all(self, statement: str, values: Any = ()) -> list[Any]:
        return self._connection.execute(statement, values).fetchall()

    def _one(self, statement: str, *values: Any) -> Any:
        row = self._connection.execute(statement, values).fetchone()
        return None if row is None else row[0]

    def _dicts(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        cursor = self._connection.execute(statement, values)
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _connect(uri: str) -> tuple[Any, str]:
    try:
        import psycopg
    except ModuleNotFoundError:
        raise ValueError("an index in PostgreSQL needs psycopg: pip install 'clearhead[postgres]'") from None
    address, _, name = uri.partition("#")
    name = name or "documents"
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of an index: use lower-case letters, digits and _, at most 41")
    try:
        return psycopg.connect(address, autocommit=True), name
    except psycopg.OperationalError as error:
        raise ValueError(f"PostgreSQL cannot be reached: {str(error).splitlines()[0]}") from None


def _literal(vector: np.ndarray) -> str:
    return "[" + ",".join(f"{x:.8g}" for x in vector.tolist()) + "]"


def _clean(value: Any) -> Any:
    """Return a value without the character that PostgreSQL cannot store."""
    return value.replace("\0", " ") if isinstance(value, str) else value
