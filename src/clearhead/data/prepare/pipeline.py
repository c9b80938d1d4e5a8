"""The pipeline: from a folder of documents to shards, in stages of tasks that any number of workers shares.

What a task is follows from the files alone, and so do the bytes it writes: one worker or a hundred, on this machine, on
Slurm or on Ray, stopped anywhere and begun anew, they are the same. A stage begins when the one before it is done.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from clearhead.data.prepare import doubles
from clearhead.data.prepare.doubles import Stage
from clearhead.data.prepare.executors import On, dropped_of, run_stage
from clearhead.data.prepare.sources import TASK, Split, files_of, tasks_of
from clearhead.data.prepare.steps import Hush, Keep, Pack, Read, Take, word_rules
from clearhead.data.shards import SIZES
from clearhead.files import new_folder, sha256, write_atomic, write_manifest
from clearhead.text import Tokenizer

QUALITY = ("gopher", "repetition", "fineweb", "c4")
"""Filters of datatrove, by the names of the rules they apply."""
DEDUP = ("none", "exact", "minhash")


@dataclass(frozen=True)
class Prepare:
    """What is done to a corpus."""

    tokenizer: str  # a folder
    block: int = 512  # tokens
    split: Split = "file"
    column: str = "text"  # of JSON lines and Parquet
    language: str = "en"  # whose rules end a sentence
    quality: tuple[str, ...] = ()
    dedup: str = "exact"
    task_bytes: int = TASK

    def __post_init__(self) -> None:
        for name in self.quality:
            if name not in QUALITY:
                raise ValueError(f"there is no quality filter {name!r}: choose {', '.join(QUALITY)}")
        if self.dedup not in DEDUP:
            raise ValueError(f"dedup {self.dedup!r}: choose {', '.join(DEDUP)}")
        if not 8 <= self.block <= 2**20:
            raise ValueError(f"blocks of {self.block} tokens: from 8 to {2**20:,}")


@dataclass(frozen=True)
class Summary:
    """What came of a corpus: every document that was read is kept, or dropped for a reason."""

    files: int
    read: int
    quarantined: int
    dropped: dict[str, int]
    documents: int
    sentences: int
    tokens: int
    blocks: int
    shards: int


def prepare(
    corpus: Path,
    target: Path,
    settings: Prepare,
    *,
    on: On = "local",
    workers: int = 1,
    heard: Callable[[str, int, int], object] = lambda stage, done, tasks: None,
) -> Summary:
    """Make a folder of shards, or go on with one that was begun; `heard` is told of every task that ends."""
    corpus, target = corpus.absolute(), target.absolute()  # a worker may stand elsewhere
    settings = replace(settings, tokenizer=str(Path(settings.tokenizer).absolute()))
    words = Tokenizer.load(settings.tokenizer)
    files = files_of(corpus)
    runs = tasks_of(files, settings.task_bytes)
    work = target.with_name(f"{target.name}.work")
    if target.exists():
        raise ValueError(f"{target} is there already: give another folder, or remove it")
    _claim(work, corpus, settings, runs)
    Hush()  # before datatrove is imported
    for stage in stages(corpus, work, settings, runs):
        run_stage(stage, work / "logs" / stage.name, on=on, workers=workers, heard=heard)
    summary = _summary(work, settings, runs)
    _finish(work, target, settings, words, runs, summary)
    return summary


def stages(corpus: Path, work: Path, settings: Prepare, runs: list[list[Path]]) -> list[Stage]:
    """Read and judge; find what is there twice; pack."""
    tasks = len(runs)
    names = tuple(tuple(str(path) for path in run) for run in runs)
    kept, shards = str(work / "kept"), work / "shards"
    quarantine = work / "quarantine"
    for folder in (shards, quarantine):
        folder.mkdir(parents=True, exist_ok=True)
    found = [
        Stage("read", tasks, lambda: [
            Read(str(corpus), names, str(quarantine), settings.split, settings.column),
            *_filters(settings),
            Keep(kept),
        ])
    ]  # fmt: skip
    without: Callable[[], list[Any]] = list
    if settings.dedup != "none":
        found += doubles.exact(work, tasks, lambda: [Take(kept)])
        without = lambda: [doubles.without_equal(work)]  # noqa: E731
    if settings.dedup == "minhash":
        exact = without
        found += doubles.near(work, tasks, settings.language, lambda: [Take(kept), *exact()])
        without = lambda: [*exact(), doubles.without_near(work)]  # noqa: E731
    last = without
    found.append(
        Stage("pack", tasks, lambda: [
            Take(kept), *last(), Pack(str(shards), settings.tokenizer, settings.block, settings.language)
        ])
    )  # fmt: skip
    return found


def _filters(settings: Prepare) -> list[Any]:
    """Datatrove's filters, with words as we find them."""
    from datatrove.pipeline.filters import (
        C4QualityFilter,
        FineWebQualityFilter,
        GopherQualityFilter,
        GopherRepetitionFilter,
    )

    kinds = {
        "gopher": GopherQualityFilter, "repetition": GopherRepetitionFilter, "fineweb": FineWebQualityFilter,
        "c4": C4QualityFilter,
    }  # fmt: skip
    return [kinds[name](language=word_rules(settings.language)) for name in settings.quality]


def _claim(work: Path, corpus: Path, settings: Prepare, runs: list[list[Path]]) -> None:
    """The work folder belongs to this corpus, as it is now, and to these settings."""
    listed = [[(str(path), path.lstat().st_size) for path in run] for run in runs]
    told = json.dumps({"corpus": str(corpus.resolve()), "settings": asdict(settings), "files": listed}, indent=1)
    path = work / "recipe.json"
    if path.exists() and path.read_text(encoding="utf-8") != told:
        raise ValueError(f"{work} was begun with another corpus or other settings: remove it to begin anew")
    work.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        write_atomic(path, told)


def _summary(work: Path, settings: Prepare, runs: list[list[Path]]) -> Summary:
    dropped: Counter[str] = Counter()
    for path in sorted((work / "logs" / "read" / "stats").glob("*.json")):
        dropped.update(dropped_of(json.loads(path.read_text(encoding="utf-8"))))
    read, kept = (_counted(work / name) for name in ("quarantine", "kept"))
    quarantined = sum(path.read_bytes().count(b"\n") for path in (work / "quarantine").glob("*.jsonl"))
    shards = [json.loads(p.read_text(encoding="utf-8")) for p in sorted((work / "shards").glob("*.json"))]
    sums = {name: sum(one[name] for one in shards) for name in ("documents", "blocks", "tokens", "sentences")}
    doubles = kept - sums["documents"]
    if doubles:
        dropped[f"the same as another ({settings.dedup})"] = doubles
    if read != sums["documents"] + dropped.total():
        raise ValueError(f"{read:,} documents were read, but {sums['documents'] + dropped.total():,} are accounted for")
    return Summary(sum(map(len, runs)), read, quarantined, dict(sorted(dropped.items())), shards=len(runs), **sums)


def _counted(folder: Path) -> int:
    """The documents that all tasks of a step counted."""
    return sum(int(path.read_text()) for path in folder.glob("*.count"))


def _finish(
    work: Path, target: Path, settings: Prepare, words: Tokenizer, runs: list[list[Path]], summary: Summary
) -> None:
    """The folder as it will be read: shards, places, quarantine, and a manifest that says how it was made."""
    with new_folder(target) as new:
        blocks: list[tuple[str, int]] = []
        for path in sorted((work / "shards").glob("*.array_record")):
            facts = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
            blocks.append((path.name, facts["blocks"]))
            for name in (path.name, path.with_suffix(SIZES).name, path.with_suffix(".places.gz").name):
                shutil.copyfile(work / "shards" / name, new / name)
        unread = "".join(p.read_text(encoding="utf-8") for p in sorted((work / "quarantine").glob("*.jsonl")))
        (new / "quarantine.jsonl").write_text(unread, encoding="utf-8")
        hashes = (f"{sha256(path)}  {path.name}\n" for run in runs for path in run if path.is_file())
        (new / "sources.sha256").write_text("".join(hashes), encoding="utf-8")
        words.save(new / "tokenizer")
        steps = {name: value for name, value in asdict(settings).items() if name != "tokenizer"}
        write_manifest(new, {
            "blocks": blocks, "block": settings.block, "tokenizer": words.fingerprint(), "steps": steps,
            "summary": asdict(summary), "vocab_size": words.vocab_size,
        })  # fmt: skip
    shutil.rmtree(work)
