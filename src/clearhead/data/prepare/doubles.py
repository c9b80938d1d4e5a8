"""Doubles: documents that are there twice: equal but for space and case, or nearly equal by MinHash (Broder 1997)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.data.prepare.steps import word_rules

Steps = Callable[[], list[Any]]
FINDERS = 4  # tasks that look for equal documents, each in its part of all hashes


@dataclass(frozen=True)
class Stage:
    """Steps that each task goes through, and how many tasks there are."""

    name: str
    tasks: int
    steps: Steps


def plain(document: Any) -> str:
    """What two equal documents have in common."""
    return " ".join(document.text.casefold().split())


def exact(work: Path, tasks: int, before: Steps) -> list[Stage]:
    """Sign every document, and find the signatures that are there twice."""
    from datatrove.pipeline.dedup import ExactDedupSignature, ExactFindDedups

    signed, twice, config = str(work / "signed"), str(work / "twice"), _exact()
    return [
        Stage("sign", tasks, lambda: [*before(), ExactDedupSignature(signed, config, finder_workers=FINDERS)]),
        Stage("twice", FINDERS, lambda: [ExactFindDedups(signed, twice, config)]),
    ]


def without_equal(work: Path) -> Any:
    """Leave out what is there before."""
    from datatrove.pipeline.dedup import ExactDedupFilter

    (work / "twice").mkdir(parents=True, exist_ok=True)
    return ExactDedupFilter(str(work / "twice"), _exact())


def near(work: Path, tasks: int, language: str, before: Steps) -> list[Stage]:
    """Sign, compare bucket by bucket, and join what is alike into clusters."""
    from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupSignature

    config = _near()
    hashed, pairs, alike = (str(work / name) for name in ("hashed", "pairs", "alike"))
    words = word_rules(language)
    return [
        Stage("hash", tasks, lambda: [*before(), MinhashDedupSignature(hashed, config, language=words)]),
        Stage("compare", config.num_buckets, lambda: [MinhashDedupBuckets(hashed, pairs, config=config)]),
        Stage("cluster", 1, lambda: [MinhashDedupCluster(pairs, alike, config=config)]),
    ]


def without_near(work: Path) -> Any:
    """Leave out all of a cluster but one."""
    from datatrove.pipeline.dedup import MinhashDedupFilter

    (work / "alike").mkdir(parents=True, exist_ok=True)
    return MinhashDedupFilter(str(work / "alike"))


def _exact() -> Any:
    from datatrove.pipeline.dedup import ExactDedupConfig
    from datatrove.utils.hashing import HashConfig

    return ExactDedupConfig(plain, hash_config=HashConfig(precision=64))


def _near() -> Any:
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.utils.hashing import HashConfig

    return MinhashConfig(hash_config=HashConfig(precision=64), num_buckets=14, hashes_per_bucket=8)
