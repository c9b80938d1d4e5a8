"""Duplicates: held against plain Python and against datatrove, with few open files and the memory that is planned."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.corpus import dedup, duplicates
from clearhead.corpus.duplicates import (
    HASH,
    HASHES_PER_BUCKET,
    MAX_MINHASH,
    NUM_BUCKETS,
    PLACE,
    SIGNATURE,
    ClusterPairs,
    ComparePairs,
    DropFound,
    FindEqual,
    HashDocuments,
    hash_path,
    signature_path,
)
from clearhead.efficient.cost import CLEAR_REFS, process_peak

pytest.importorskip("datatrove")


def texts(*words):
    return [SimpleNamespace(text=word) for word in words]


def kept(folder, found, tasks):
    """The words of each task that are left, joined."""
    return ["".join(d.text for d in DropFound(str(found))(texts(*words), rank, 1)) for rank, words in enumerate(tasks)]


def write_signatures(folder: Path, tasks: list[np.ndarray]) -> None:
    """The same signatures in all buckets, as datatrove sorts them."""
    for bucket in range(NUM_BUCKETS):
        for rank, hashes in enumerate(tasks):
            rows = np.zeros(len(hashes), SIGNATURE)
            order = np.lexsort([hashes[:, i] for i in reversed(range(HASHES_PER_BUCKET))])
            rows["hashes"], rows["document"] = hashes[order], order
            path = signature_path(folder, bucket, rank)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(rows.tobytes())


@given(st.lists(st.text("abcde", max_size=12), min_size=1, max_size=6), st.integers(1, 5))
def test_the_first_of_equal_documents_is_kept(tmp_path_factory, tasks, finders):
    folder = tmp_path_factory.mktemp("equal")
    for rank, words in enumerate(tasks):
        HashDocuments(str(folder / "hashes"))(texts(*words), rank, len(tasks))
    for rank in range(finders):
        FindEqual(str(folder / "hashes"), str(folder / "found"), len(tasks))(None, rank, finders)
    seen: set[str] = set()
    first = ["".join(c for c in words if not (c in seen or seen.add(c))) for words in tasks]
    assert kept(folder, folder / "found", tasks) == first


def test_texts_that_differ_in_case_and_whitespace_are_equal(tmp_path):
    HashDocuments(str(tmp_path / "hashes"))(texts("A  straße\n", "a STRASSE", "a strasse b"), 0, 1)
    FindEqual(str(tmp_path / "hashes"), str(tmp_path / "found"), 1)(None, 0, 1)
    assert [d.text for d in DropFound(str(tmp_path / "found"))(texts("0", "1", "2"), 0, 1)] == ["0", "2"]


@pytest.mark.parametrize("bound", [0, 2**63, 2**64 - 1])
def test_every_hash_is_in_one_part(tmp_path, bound):
    """The smallest and largest hashes, and those on both sides of a bound."""
    values = np.array([v for v in (bound - 1, bound, bound + 1) if 0 <= v < 2**64], np.uint64)
    for task in range(2):
        rows = np.zeros(len(values), HASH)
        rows["hash"], rows["document"] = values, np.arange(len(values))
        hash_path(tmp_path, task).write_bytes(rows.tobytes())
    for rank in range(4):
        FindEqual(str(tmp_path), str(tmp_path / "found"), 2)(None, rank, 4)
    places = np.concatenate([np.fromfile(path, PLACE) for path in sorted((tmp_path / "found").iterdir())])
    assert sorted(places.tolist()) == [(1, i) for i in range(len(values))]


@pytest.mark.parametrize("parts", [1, 3])
def test_clusters_are_those_of_datatrove(tmp_path, parts):
    """The same documents belong together; the first of a cluster is kept."""
    from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.utils.hashing import HashConfig

    draw = np.random.default_rng(0)
    pool = draw.integers(0, MAX_MINHASH, (300, HASHES_PER_BUCKET), dtype=np.uint64)
    pool[100:200, :4] = pool[:100, :4]  # equal in a part of the hashes, so not equal
    tasks = [pool[draw.integers(0, 300, size)] for size in (200, 0, 150, 90)]
    write_signatures(tmp_path / "signatures", tasks)
    for rank in range(NUM_BUCKETS * parts):
        ComparePairs(str(tmp_path / "signatures"), str(tmp_path / "pairs"), len(tasks))(None, rank, NUM_BUCKETS * parts)
    ClusterPairs(str(tmp_path / "pairs"), str(tmp_path / "found"))(None, 0, 1)
    ours = set(np.fromfile(tmp_path / "found" / "00000", PLACE).tolist())

    config = MinhashConfig(hash_config=HashConfig(precision=64), num_buckets=14, hashes_per_bucket=8)
    buckets = MinhashDedupBuckets(str(tmp_path / "signatures"), str(tmp_path / "theirs"), config=config)
    for rank in range(NUM_BUCKETS):
        buckets.run(None, rank, NUM_BUCKETS)
    MinhashDedupCluster(
        str(tmp_path / "theirs"), str(tmp_path / "removed"), config=config, save_cluster_id=True
    ).run(None, 0, 1)  # fmt: skip
    clusters = defaultdict(list)
    for path in (tmp_path / "removed").glob("*.clusters"):
        for document, cluster in np.fromfile(path, "<u4").reshape(-1, 2).tolist():
            clusters[cluster].append((int(path.stem), document))
    assert len(clusters) > 100
    assert ours == {place for cluster in clusters.values() for place in sorted(cluster)[1:]}


def test_a_chain_of_pairs_is_one_cluster(tmp_path):
    chain = [(0, 3), (2, 1), (1, 5), (0, 4)]
    pairs = np.array([pair for both in pairwise(chain) for pair in both], PLACE)
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs" / "0").write_bytes(pairs.tobytes())
    ClusterPairs(str(tmp_path / "pairs"), str(tmp_path / "found"))(None, 0, 1)
    assert np.fromfile(tmp_path / "found" / "00000", PLACE).tolist() == [(0, 4), (1, 5), (2, 1)]


def test_too_many_pairs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(duplicates, "MAX_PAIRS", 2)
    (tmp_path / "0").write_bytes(np.zeros((3, 2), PLACE).tobytes())
    with pytest.raises(ValueError, match="3 pairs of near duplicates are too many for one cluster task, which takes 2"):
        ClusterPairs(str(tmp_path), str(tmp_path / "found"))(None, 0, 1)


def compare_with_few_files(folder: Path, tasks: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    for rank in range(4):
        FindEqual(str(folder / "hashes"), str(folder / "found"), tasks)(None, rank, 4)
    ComparePairs(str(folder / "signatures"), str(folder / "pairs"), tasks)(None, 0, NUM_BUCKETS)


def test_many_tasks_need_few_open_files(tmp_path):
    """Files are open one after another: a corpus of 60,000 tasks needs no more than one of 300."""
    tasks = 300
    for rank in range(tasks):
        HashDocuments(str(tmp_path / "hashes"))(texts("same", str(rank)), rank, tasks)
    draw = np.random.default_rng(0)
    hashes = draw.integers(0, MAX_MINHASH, (tasks, 1, HASHES_PER_BUCKET), dtype=np.uint64)
    write_signatures(tmp_path / "signatures", list(hashes))
    process = multiprocessing.get_context("spawn").Process(target=compare_with_few_files, args=(tmp_path, tasks))
    process.start()
    process.join()
    assert process.exitcode == 0
    found = [np.fromfile(path, PLACE) for path in (tmp_path / "found").iterdir()]
    assert sum(map(len, found)) == tasks - 1


def measure(pipe, folder: Path, name: str, tasks: int) -> None:
    steps = {
        "equal": FindEqual(str(folder / "hashes"), str(folder / "found"), tasks),
        "compare": ComparePairs(str(folder / "signatures"), str(folder / "pairs"), tasks),
        "cluster": ClusterPairs(str(folder / "pairs"), str(folder / "found")),
    }
    __import__("scipy.sparse.csgraph")
    with process_peak() as megabytes:
        steps[name](None, 0, NUM_BUCKETS if name == "compare" else 1)
        pipe.send(megabytes() * 2**20)


@pytest.mark.skipif(not os.access(CLEAR_REFS, os.W_OK), reason="Linux keeps the peak of a process")
@pytest.mark.parametrize(
    ("name", "rows", "planned"),
    [
        ("equal", 2_000_000, dedup.HASH_TASK_BYTES),
        ("compare", 500_000, dedup.SIGNATURE_TASK_BYTES),
        ("cluster", 1_000_000, dedup.PAIR_TASK_BYTES),
    ],
)
def test_a_task_needs_the_memory_that_is_planned(tmp_path, name, rows, planned):
    draw, tasks = np.random.default_rng(0), 4
    for folder in ("hashes", "signatures/bucket_000", "pairs"):
        (tmp_path / folder).mkdir(parents=True)
    for task in range(tasks):
        if name == "equal":
            one = np.zeros(rows // tasks, HASH)
            one["hash"] = np.sort(draw.integers(0, 2**64, len(one), dtype=np.uint64))
            hash_path(tmp_path / "hashes", task).write_bytes(one.tobytes())
        elif name == "compare":
            one = np.zeros(rows // tasks, SIGNATURE)
            one["hashes"] = draw.integers(0, MAX_MINHASH, (len(one), HASHES_PER_BUCKET), dtype=np.uint64)
            one["hashes"][:, 0].sort()
            signature_path(tmp_path / "signatures", 0, task).write_bytes(one.tobytes())
        else:
            one = np.zeros((rows // tasks, 2), PLACE)
            one["document"] = draw.integers(0, 2 * rows, one.shape)
            (tmp_path / "pairs" / str(task)).write_bytes(one.tobytes())
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=measure, args=(there, tmp_path, name, tasks))
    process.start()
    there.close()
    measured = here.recv()
    process.join()
    assert 0.6 * planned * rows < measured < 1.05 * planned * rows, measured / rows


def test_the_stages_of_60_000_tasks():
    """15 T tokens in 15 billion documents: more tasks, not more memory."""
    tasks, documents = 60_000, 15 * 10**9
    exact = dedup.exact_stages(Path("work"), tasks, documents, list)
    near = dedup.minhash_stages(Path("work"), tasks, documents, "en", list)
    stages = {stage.name: stage for stage in [*exact, *near]}
    assert stages["hash"].disk_bytes == 180 * 10**9 and stages["sign"].disk_bytes == 14_280 * 10**9
    assert stages["hash"].tasks == stages["sign"].tasks == tasks
    for name in ("equal", "compare"):
        assert 0.9 * dedup.MAX_TASK_BYTES < stages[name].task_bytes <= dedup.MAX_TASK_BYTES * 1.01
    assert stages["equal"].tasks == 338 and stages["compare"].tasks % NUM_BUCKETS == 0
    small = dedup.minhash_stages(Path("work"), 3, 1000, "en", list)
    assert [stage.tasks for stage in small] == [3, NUM_BUCKETS]


def test_random_parts_are_about_equal(tmp_path):
    draw = np.random.default_rng(0)
    tasks = [draw.integers(0, 10 ** random.Random(i).randint(3, 18), (400, 8), dtype=np.uint64) for i in range(20)]
    write_signatures(tmp_path, tasks)
    paths = [signature_path(tmp_path, 0, task) for task in range(20)]
    edges = duplicates._equal_parts(paths, 5)
    firsts = np.concatenate(tasks)[:, 0]
    sizes = [int(((firsts >= low) & (firsts < high)).sum()) for low, high in pairwise(edges)]
    assert sum(sizes) == 8000 and max(sizes) < 1.3 * 1600
