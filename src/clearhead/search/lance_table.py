"""The table of an index: passages with their words and vectors in one versioned Lance table."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import Tensor

VECTOR_INDEX_ROWS = 50_000  # from so many passages on, vectors are searched by an index instead of exactly
FILE_ROWS = 65_536  # passages of a file: larger files are not written again when passages are added
KEPT = timedelta(days=1)  # old versions stay so long, for processes that still read them
KEY = b"clearhead"  # of the schema's metadata


@dataclass(frozen=True)
class _VersionVectors:
    """All vectors of a version of a table."""

    version: int
    ids: list[str]
    values: Tensor  # (passages, width)


class LanceTable:
    """Passages in Lance. One process writes at a time; readers keep the version that they opened."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._vectors: _VersionVectors | None = None  # of a small table, from its first search by vectors on

    @staticmethod
    def open(uri: str) -> "LanceTable | None":
        """Open a table; None where there is none."""
        lance = _lance()
        try:
            return LanceTable(lance.dataset(uri))
        except (ValueError, FileNotFoundError) as error:
            if "not found" in str(error).lower() or "no object store provider" in str(error).lower():
                return None
            raise

    @staticmethod
    def create(uri: str, info: dict[str, Any], width: int | None) -> "LanceTable":
        """Create an empty table whose rows have vectors of this width, or none."""
        import pyarrow as pa

        columns = [("id", pa.string()), ("source", pa.string()), ("sha256", pa.string()), ("start", pa.int64()),
                   ("end", pa.int64()), ("page", pa.int32()), ("heading", pa.string()), ("text", pa.string()),
                   ("words", pa.string())]  # fmt: skip
        if width is not None:
            columns.append(("vector", pa.list_(pa.float32(), width)))
        schema = pa.schema(columns, metadata={KEY: json.dumps(info).encode()})
        return LanceTable(_lance().write_dataset(pa.table([[] for _ in columns], schema=schema), uri, mode="create"))

    @property
    def info(self) -> dict[str, Any]:
        """What the index was made with."""
        metadata = self._dataset.schema.metadata or {}
        if KEY not in metadata:
            raise ValueError(f"{self._dataset.uri} is a Lance table, but no index of clearhead")
        return json.loads(metadata[KEY])

    def set_info(self, info: dict[str, Any]) -> None:
        """Replace the metadata of the index in one commit."""
        self._dataset.update_schema_metadata({KEY.decode(): json.dumps(info)})
        self._dataset = _lance().dataset(self._dataset.uri)

    @property
    def version(self) -> int:
        return self._dataset.version

    def __len__(self) -> int:
        return self._dataset.count_rows()

    def documents(self) -> dict[str, str]:
        """Return the hash of each document, by source."""
        found: dict[str, str] = {}
        for batch in self._dataset.to_batches(columns=["source", "sha256"]):
            found.update(zip(batch["source"].to_pylist(), batch["sha256"].to_pylist(), strict=True))
        return found

    def replace(self, sources: Sequence[str], rows: Sequence[dict[str, Any]], vectors: np.ndarray | None) -> None:
        """Replace all passages of these documents by the rows, in one commit: readers see all of it or nothing."""
        table = self._rows(rows, vectors)
        merge = self._dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.when_not_matched_by_source_delete(_is_of(sources)).execute(table)
        self._dataset = _lance().dataset(self._dataset.uri)

    def write_fragments(self, rows: Sequence[dict[str, Any]], vectors: np.ndarray | None) -> list[str]:
        """Write passages that no reader sees before `commit_fragments`; return what it needs to know of them."""
        from lance.fragment import write_fragments

        if not rows:
            return []
        written = write_fragments(self._rows(rows, vectors), self._dataset.uri, mode="append")
        return [json.dumps(fragment.to_json()) for fragment in written]

    def commit_fragments(self, removed: Sequence[str], fragments: Sequence[str]) -> None:
        """Delete the passages of the documents `removed` and add written fragments, in one commit."""
        lance = _lance()
        operation = lance.LanceOperation.Update(
            new_fragments=[lance.FragmentMetadata.from_json(fragment) for fragment in fragments]
        )
        if removed:
            for fragment in self._dataset.get_fragments():
                before = fragment.metadata
                after = fragment.delete(_is_of(removed))
                if after is None:
                    operation.removed_fragment_ids.append(fragment.fragment_id)
                elif after.num_deletions != before.num_deletions:
                    operation.updated_fragments.append(after)
        uri, version = self._dataset.uri, self._dataset.version
        self._dataset = lance.LanceDataset.commit(uri, operation, read_version=version, max_retries=0)

    def _rows(self, rows: Sequence[dict[str, Any]], vectors: np.ndarray | None) -> Any:
        import pyarrow as pa

        schema = self._dataset.schema
        names = [name for name in schema.names if name != "vector"]
        columns: list[Any] = [pa.array([row[name] for row in rows], schema.field(name).type) for name in names]
        if vectors is not None:
            width = schema.field("vector").type.list_size
            values = pa.array(np.ascontiguousarray(vectors, dtype="f4").reshape(-1))
            columns.append(pa.FixedSizeListArray.from_arrays(values, width))
        return pa.table(columns, schema=schema)

    def build_indexes(self, language: str) -> None:
        """Index the words, and the vectors of a large table; rows added later are found without it, but slower.

        Versions of more than a day ago are deleted: an index does not grow with every update.
        """
        names = {index.name for index in self._dataset.describe_indices()}
        if "words_idx" not in names and len(self):
            self._dataset.create_scalar_index(
                "words", "INVERTED", base_tokenizer="simple", language=language, stem=True, remove_stop_words=True,
                ascii_folding=True, lower_case=True, with_position=False, max_token_length=64,
            )  # fmt: skip
        if "id_idx" not in names and len(self):
            self._dataset.create_scalar_index("id", "BTREE")
        has_vectors = "vector" in self._dataset.schema.names
        if has_vectors and "vector_idx" not in names and len(self) >= VECTOR_INDEX_ROWS:
            partitions = max(16, int(len(self) ** 0.5))
            self._dataset.create_index("vector", "IVF_RQ", metric="dot", num_partitions=partitions)
        self._dataset.optimize.optimize_indices()
        self._dataset.optimize.compact_files(target_rows_per_fragment=FILE_ROWS)
        self._dataset.cleanup_old_versions(older_than=KEPT)
        self._dataset = _lance().dataset(self._dataset.uri)

    def search_text(self, query: str, k: int) -> list[tuple[str, float]]:
        """Return the ids and BM25 scores of the passages that match words of the query best."""
        if not query.strip() or not len(self):
            return []
        found = self._dataset.to_table(
            columns=["id", "_score"], full_text_query={"query": query, "columns": ["words"]}, limit=k
        )
        return list(zip(found["id"].to_pylist(), found["_score"].to_pylist(), strict=True))

    def search_vectors(self, vector: np.ndarray, k: int) -> list[tuple[str, float]]:
        """Return the ids and cosines of the passages with the nearest vectors."""
        if len(self) < VECTOR_INDEX_ROWS:
            return self._exact_search(np.asarray(vector, "f4"), k)
        nearest = {"column": "vector", "q": np.asarray(vector, "f4"), "k": k, "metric": "dot", "nprobes": 24,
                   "refine_factor": 4}  # fmt: skip
        found = self._dataset.to_table(columns=["id", "_distance"], nearest=nearest)
        return [(id, 1.0 - d) for id, d in zip(found["id"].to_pylist(), found["_distance"].to_pylist(), strict=True)]

    def _exact_search(self, vector: np.ndarray, k: int) -> list[tuple[str, float]]:
        """Search all vectors of a small table, which stay in memory: a scan of the file takes ten times as long."""
        if self._vectors is None or self._vectors.version != self.version:
            table = self._dataset.to_table(columns=["id", "vector"])
            values = table["vector"].combine_chunks().flatten().to_numpy().reshape(len(table), len(vector))
            self._vectors = _VersionVectors(self.version, table["id"].to_pylist(), torch.from_numpy(values.copy()))
        # by torch: numpy's threads would wait busily beside those of the model that encodes the next query
        ids, cosines = self._vectors.ids, torch.mv(self._vectors.values, torch.from_numpy(vector))
        best = cosines.topk(min(k, len(ids)))
        return [(ids[i], score) for i, score in zip(best.indices.tolist(), best.values.tolist(), strict=True)]

    def snapshot(self) -> AbstractContextManager[None]:
        """A table reads one version until it is refreshed."""
        return nullcontext()

    def refresh(self) -> None:
        """Read the last version from now on."""
        self._dataset.checkout_latest()

    def passages(self, source: str) -> list[dict[str, Any]]:
        """Return the passages of a document, in order."""
        columns, quoted = ["start", "end", "page", "heading", "text"], source.replace("'", "''")
        found = self._dataset.to_table(columns=columns, filter=f"source = '{quoted}'").to_pylist()
        return sorted(found, key=lambda row: row["start"])

    def scan(self) -> Iterator[dict[str, Any]]:
        """Yield all passages."""
        for batch in self._dataset.to_batches(columns=["source", "start", "end", "page", "heading", "text"]):
            yield from batch.to_pylist()

    def rows(self, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the passages of these ids."""
        listed = ", ".join("'" + id.replace("'", "''") + "'" for id in ids)
        if not listed:
            return {}
        columns = ["id", "source", "start", "end", "page", "heading", "text"]
        return {
            row["id"]: row for row in self._dataset.to_table(columns=columns, filter=f"id IN ({listed})").to_pylist()
        }


def _is_of(sources: Sequence[str]) -> str:
    """Return the condition that a passage belongs to one of these documents."""
    return "source IN (" + ", ".join("'" + source.replace("'", "''") + "'" for source in sources) + ")"


def _lance() -> Any:
    try:
        import lance
    except ModuleNotFoundError:
        raise ValueError("search needs Lance: pip install 'clearhead[search]'") from None
    return lance
