"""Deduplication: exact up to whitespace and case, or near duplicates by MinHash (Broder 1997), as stages of tasks."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from clearhead.corpus.duplicates import (
    HASH,
    HASHES_PER_BUCKET,
    NUM_BUCKETS,
    PLACE,
    SIGNATURE,
    ClusterPairs,
    ComparePairs,
    DropFound,
    FindEqual,
    HashDocuments,
)
from clearhead.corpus.steps import regex_word_tokenizer

Steps = Callable[[], list[Any]]
MAX_TASK_BYTES = 2 * 10**9  # memory of a task that compares
# Memory of such a task for each document or pair that it reads: rows, their tasks, the order, and sorted copies.
HASH_TASK_BYTES = 2 * HASH.itemsize + 4 + 8 + 8 + 1
SIGNATURE_TASK_BYTES = 3 * SIGNATURE.itemsize + 4 + 8 + HASHES_PER_BUCKET
PAIR_TASK_BYTES = 20 * PLACE.itemsize


@dataclass(frozen=True)
class PrepareStage:
    """A pipeline stage: its number of tasks and the steps that every task runs."""

    name: str
    tasks: int
    steps: Steps
    task_bytes: int = 0  # memory that a task needs for what it compares
    disk_bytes: int = 0  # that the stage writes, to be read by the next one


def exact_stages(work: Path, tasks: int, documents: int, before: Steps) -> list[PrepareStage]:
    """Return the stages that hash every document and find equal hashes."""
    hashes, found = str(work / "hashes"), str(work / "equal")
    finders = max(1, ceil(documents * HASH_TASK_BYTES / MAX_TASK_BYTES))
    return [
        PrepareStage(
            "hash", tasks, lambda: [*before(), HashDocuments(hashes)], disk_bytes=documents * HASH.itemsize
        ),
        PrepareStage(
            "equal", finders, lambda: [FindEqual(hashes, found, tasks)], ceil(documents / finders) * HASH_TASK_BYTES
        ),
    ]  # fmt: skip


def exact_filter(work: Path) -> Any:
    """Return the step that keeps the first of equal documents."""
    return DropFound(str(work / "equal"))


def minhash_stages(work: Path, tasks: int, documents: int, language: str, before: Steps) -> list[PrepareStage]:
    """Return the stages that sign documents and compare the signatures bucket by bucket."""
    from datatrove.pipeline.dedup import MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.utils.hashing import HashConfig

    config = MinhashConfig(
        hash_config=HashConfig(precision=64), num_buckets=NUM_BUCKETS, hashes_per_bucket=HASHES_PER_BUCKET
    )
    signatures, pairs = str(work / "signatures"), str(work / "pairs")
    words = regex_word_tokenizer(language)
    parts = max(1, ceil(documents * SIGNATURE_TASK_BYTES / MAX_TASK_BYTES))
    return [
        PrepareStage(
            "sign", tasks, lambda: [*before(), MinhashDedupSignature(signatures, config, language=words)],
            disk_bytes=documents * NUM_BUCKETS * SIGNATURE.itemsize,
        ),
        PrepareStage(
            "compare", NUM_BUCKETS * parts, lambda: [ComparePairs(signatures, pairs, tasks)],
            ceil(documents / parts) * SIGNATURE_TASK_BYTES,
        ),
    ]  # fmt: skip


def cluster_stage(work: Path) -> PrepareStage:
    """Return the stage that clusters the pairs that were found, in one task."""
    pairs, found = work / "pairs", str(work / "near")
    count = sum(path.stat().st_size for path in pairs.iterdir()) // (2 * PLACE.itemsize) if pairs.exists() else 0
    return PrepareStage("cluster", 1, lambda: [ClusterPairs(str(pairs), found)], count * PAIR_TASK_BYTES)


def minhash_filter(work: Path) -> Any:
    """Return the step that keeps the first document of every cluster."""
    return DropFound(str(work / "near"))
