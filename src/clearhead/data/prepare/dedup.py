"""Deduplication: exact up to whitespace and case, or near duplicates by MinHash (Broder 1997)."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.data.prepare.steps import regex_word_tokenizer

Steps = Callable[[], list[Any]]
NUM_FINDERS = 4  # tasks that look for duplicates, each in its part of the hash range


@dataclass(frozen=True)
class PrepareStage:
    """A pipeline stage: its number of tasks and the steps that every task runs."""

    name: str
    tasks: int
    steps: Steps


def normalized_text(document: Any) -> str:
    """Return the text that is compared: case-folded, with single spaces."""
    return " ".join(document.text.casefold().split())


def exact_stages(work: Path, tasks: int, before: Steps) -> list[PrepareStage]:
    """Return the stages that hash every document and find duplicated hashes."""
    from datatrove.pipeline.dedup import ExactDedupSignature, ExactFindDedups

    signatures, duplicates, config = str(work / "signatures"), str(work / "duplicates"), _exact_config()
    return [
        PrepareStage(
            "signatures",
            tasks,
            lambda: [*before(), ExactDedupSignature(signatures, config, finder_workers=NUM_FINDERS)],
        ),
        PrepareStage("duplicates", NUM_FINDERS, lambda: [ExactFindDedups(signatures, duplicates, config)]),
    ]


def exact_filter(work: Path) -> Any:
    from datatrove.pipeline.dedup import ExactDedupFilter

    (work / "duplicates").mkdir(parents=True, exist_ok=True)
    return ExactDedupFilter(str(work / "duplicates"), _exact_config())


def minhash_stages(work: Path, tasks: int, language: str, before: Steps) -> list[PrepareStage]:
    """Return the stages that hash documents, compare them bucket by bucket, and cluster near duplicates."""
    from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupSignature

    config = _minhash_config()
    hashed, pairs, clusters = (str(work / name) for name in ("minhash", "pairs", "clusters"))
    tokenizer = regex_word_tokenizer(language)
    return [
        PrepareStage("hash", tasks, lambda: [*before(), MinhashDedupSignature(hashed, config, language=tokenizer)]),
        PrepareStage("compare", config.num_buckets, lambda: [MinhashDedupBuckets(hashed, pairs, config=config)]),
        PrepareStage("cluster", 1, lambda: [MinhashDedupCluster(pairs, clusters, config=config)]),
    ]


def minhash_filter(work: Path) -> Any:
    """Return the step that keeps one document of every cluster."""
    from datatrove.pipeline.dedup import MinhashDedupFilter

    (work / "clusters").mkdir(parents=True, exist_ok=True)
    return MinhashDedupFilter(str(work / "clusters"))


def _exact_config() -> Any:
    from datatrove.pipeline.dedup import ExactDedupConfig
    from datatrove.utils.hashing import HashConfig

    return ExactDedupConfig(normalized_text, hash_config=HashConfig(precision=64))


def _minhash_config() -> Any:
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.utils.hashing import HashConfig

    return MinhashConfig(hash_config=HashConfig(precision=64), num_buckets=14, hashes_per_bucket=8)
