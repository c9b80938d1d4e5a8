"""Doubles: documents that are there twice: equal but for space and case, or nearly equal by MinHash (Broder 1997)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datatrove.data import Document
from datatrove.pipeline.dedup import (
    ExactDedupConfig,
    ExactDedupFilter,
    ExactDedupSignature,
    ExactFindDedups,
    MinhashConfig,
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.utils.hashing import HashConfig

from clearhead.data.prepare.steps import Words

if TYPE_CHECKING:
    from clearhead.data.prepare.pipeline import Stage

Steps = Callable[[], list[Any]]


def plain(document: Document) -> str:
    """What two equal documents have in common."""
    return " ".join(document.text.casefold().split())


def exact(work: Path, tasks: int, finders: int, before: Steps) -> list[Stage]:
    """Sign every document, and find the signatures that are there twice."""
    from clearhead.data.prepare.pipeline import Stage

    signed, twice, config = str(work / "signed"), str(work / "twice"), _exact()
    return [
        Stage("sign", tasks, lambda: [*before(), ExactDedupSignature(signed, config, finder_workers=finders)]),
        Stage("twice", finders, lambda: [ExactFindDedups(signed, twice, config)]),
    ]


def without_equal(work: Path) -> Any:
    """Leave out what is there before."""
    (work / "twice").mkdir(parents=True, exist_ok=True)
    return ExactDedupFilter(str(work / "twice"), _exact())


def near(work: Path, tasks: int, language: str, before: Steps) -> list[Stage]:
    """Sign, compare bucket by bucket, and join what is alike into clusters."""
    from clearhead.data.prepare.pipeline import Stage

    config = _near()
    hashed, pairs, alike = (str(work / name) for name in ("hashed", "pairs", "alike"))
    words: Any = Words(language)
    return [
        Stage("hash", tasks, lambda: [*before(), MinhashDedupSignature(hashed, config, language=words)]),
        Stage("compare", config.num_buckets, lambda: [MinhashDedupBuckets(hashed, pairs, config=config)]),
        Stage("cluster", 1, lambda: [MinhashDedupCluster(pairs, alike, config=config)]),
    ]


def without_near(work: Path) -> Any:
    """Leave out all of a cluster but one."""
    (work / "alike").mkdir(parents=True, exist_ok=True)
    return MinhashDedupFilter(str(work / "alike"))


def _exact() -> ExactDedupConfig:
    return ExactDedupConfig(plain, hash_config=HashConfig(precision=64))


def _near() -> MinhashConfig:
    return MinhashConfig(hash_config=HashConfig(precision=64), num_buckets=14, hashes_per_bucket=8)
