from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.search import lance_table
from clearhead.search.lance_table import LanceTable

pytest.importorskip("lance")


def rows(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {"id": f"{i}\n0", "source": str(i), "sha256": "", "start": 0, "end": 1, "page": None, "heading": "", "text": "a",
         "words": "a"}
        for i in range(first, first + count)
    ]  # fmt: skip


def unit_vectors(count: int, seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal((count, 16), dtype="f4")
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def test_vectors_in_memory_are_searched_as_those_of_the_file_and_follow_new_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "passages.lance")
    table, vectors = LanceTable.create(uri, {}, 16), unit_vectors(60, 1)
    assert table.search_vectors(vectors[0], 5) == []
    table.replace(["0"], rows(0, 40), vectors[:40])
    reader = LanceTable.open(uri)
    assert reader is not None
    query = unit_vectors(1, 2)[0]
    exact = reader.search_vectors(query, 7)
    with monkeypatch.context() as patch:
        patch.setattr(lance_table, "VECTOR_INDEX_ROWS", 1)
        from_file = reader.search_vectors(query, 7)
    assert [id for id, _ in exact] == [id for id, _ in from_file]
    np.testing.assert_allclose([score for _, score in exact], [score for _, score in from_file], atol=1e-6)
    assert len(reader.search_vectors(query, 100)) == 40

    table.replace(["3"], rows(40, 20), vectors[40:])
    assert reader.search_vectors(vectors[50], 1)[0][0] != "50\n0"  # still the version that was opened
    reader.refresh()
    assert reader.search_vectors(vectors[50], 1) == [("50\n0", pytest.approx(1.0, abs=1e-6))]
    assert "3\n0" not in {id for id, _ in reader.search_vectors(vectors[3], 100)}


def test_old_versions_are_deleted_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = tmp_path / "passages.lance"
    table = LanceTable.create(str(uri), {}, 16)

    def update(seed: int) -> int:
        table.replace(["0"], rows(0, 200), unit_vectors(200, seed))
        table.build_indexes("English")
        return sum(path.stat().st_size for path in uri.rglob("*") if path.is_file())

    first = [update(seed) for seed in range(4)]
    assert first[3] > 2.5 * first[0]  # of the last day, all are kept
    monkeypatch.setattr(lance_table, "KEPT", timedelta(0))
    assert update(5) < 1.5 * first[0]
    assert len(table) == 200 and table.search_vectors(unit_vectors(200, 5)[7], 1)[0][0] == "7\n0"
    reader = LanceTable.open(str(uri))
    assert reader is not None and len(reader.search_text("a", 5)) == 0  # a stop word


def test_large_files_are_not_written_again_when_passages_are_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_table, "FILE_ROWS", 50)
    uri = tmp_path / "passages.lance"
    table = LanceTable.create(str(uri), {}, 16)
    table.replace(["0"], rows(0, 60), unit_vectors(60, 1))
    table.build_indexes("English")
    large = {path.name for path in (uri / "data").iterdir()}
    for number in range(60, 64):  # small files are joined
        table.replace([str(number)], rows(number, 1), unit_vectors(1, number))
        table.build_indexes("English")
    assert len(table) == 64 and large <= {path.name for path in (uri / "data").iterdir()}
    sizes = sorted(fragment.count_rows() for fragment in table._dataset.get_fragments())
    assert sizes == [4, 60]
