"""Corpus preparation: from a folder of documents to shards, in stages of tasks that run in parallel.

Tasks and their output depend on the files alone: the bytes are the same for any number of workers, locally, on Slurm or
on Ray, and after any interruption. A stage starts when the previous one is complete.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from clearhead.corpus import dedup
from clearhead.corpus.dedup import PrepareStage
from clearhead.corpus.documents import TASK_BYTES, Split, files_of, tasks_of
from clearhead.corpus.executors import Executor, dropped_of, run_stage
from clearhead.corpus.slurm import SlurmConfig
from clearhead.corpus.steps import (
    SHARDS_PER_PART,
    PackTokens,
    ReadDocuments,
    ReadFiltered,
    SealPart,
    SilenceDatatrove,
    WriteDocuments,
    read_counts,
    regex_word_tokenizer,
)
from clearhead.files import MANIFEST, publish_folder, sync_tree, write_atomic, write_manifest
from clearhead.files.manifest import Folder
from clearhead.files.s3_folder import cache_home, upload_file
from clearhead.files.s3_path import S3Path
from clearhead.text import Tokenizer

QUALITY = ("gopher", "repetition", "fineweb", "c4")
"""Quality filters of datatrove, named by the rules they apply."""
DEDUP = ("none", "exact", "minhash")
"""Kinds of deduplication: off, equal up to case and whitespace, near duplicates."""
MAX_SHARDS = 10_000_000  # whose parts fit in one manifest
MAX_TASKS = 60_000  # of a corpus whose files are small enough: its tasks are larger than `task_bytes`
DOCUMENT_BYTES = 4_000  # of a document where nothing is known: a page of 1,000 tokens


@dataclass(frozen=True)
class PrepareConfig:
    """Settings of corpus preparation."""

    tokenizer: str  # folder of the tokenizer
    block: int = 512  # maximum tokens of a block
    split: Split = "file"
    column: str = "text"  # text column of JSON lines and Parquet
    language: str = "en"  # language of the sentence splitter
    quality: tuple[str, ...] = ()
    dedup: str = "exact"
    task_bytes: int = TASK_BYTES

    def __post_init__(self) -> None:
        for name in self.quality:
            if name not in QUALITY:
                raise ValueError(f"there is no quality filter {name!r}: choose {', '.join(QUALITY)}")
        if self.dedup not in DEDUP:
            raise ValueError(f"dedup {self.dedup!r}: choose {', '.join(DEDUP)}")
        if not 8 <= self.block <= 2**20:
            raise ValueError(f"blocks of {self.block} tokens: choose 8 to {2**20:,}")


@dataclass(frozen=True)
class PrepareSummary:
    """Counts of a prepared corpus: every document that was read is kept or dropped for a reason."""

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
    target: Folder,
    settings: PrepareConfig,
    *,
    on: Executor = "local",
    workers: int = 1,
    slurm: SlurmConfig | None = None,
    on_progress: Callable[[str, int, int], object] = lambda stage, done, tasks: None,
    on_stage: Callable[[PrepareStage], object] = lambda stage: None,
) -> PrepareSummary:
    """Create a folder of shards, or resume an interrupted run; `on_progress` receives (stage, tasks done, tasks).

    `on_stage` receives each stage before it starts: the stages that deduplicate are sized by the documents to compare.

    A target in an object store is prepared in a folder of the cache, and uploaded in parts by the tasks of the last
    stage; its manifest is put last.
    """
    corpus = corpus.absolute()  # a worker may have another working directory
    if isinstance(target, S3Path):
        target.check_access()
        exists = (target / MANIFEST).exists()
        work = cache_home() / "corpora" / target.bucket / f"{target.key}.work"
    else:
        target = target.absolute()
        exists = target.exists()
        work = target.with_name(f"{target.name}.work")
    settings = replace(settings, tokenizer=str(Path(settings.tokenizer).absolute()))
    tokenizer = Tokenizer.load(settings.tokenizer)
    runs = _tasks(corpus, settings)
    if exists:
        raise ValueError(f"{target} already exists: choose another folder or delete it")
    _claim(work, corpus, settings, runs)
    for name in ("shards", "quarantine", "sources", "counts"):
        (work / name).mkdir(exist_ok=True)
    SilenceDatatrove()  # before datatrove is imported
    for stage in stages(corpus, work, settings, runs, str(target) if isinstance(target, S3Path) else None):
        check_disk(stage, work)
        on_stage(stage)
        run_stage(stage, work / "logs" / stage.name, on=on, workers=workers, on_progress=on_progress, slurm=slurm)
    summary = _summary(work, settings, runs)
    _finish(work, target, settings, tokenizer, summary)
    return summary


def plan_stages(corpus: Path, settings: PrepareConfig, documents: int | None = None) -> list[PrepareStage]:
    """Return the stages of a corpus without reading it, for so many documents; default: by the size of its files."""
    runs = _tasks(corpus, settings)
    size = sum(path.lstat().st_size for run in runs for path in run)
    return list(stages(corpus, Path(), settings, runs, documents=documents or size // DOCUMENT_BYTES))


def _tasks(corpus: Path, settings: PrepareConfig) -> list[list[Path]]:
    """Return the files of each task."""
    files = files_of(corpus)
    runs = tasks_of(files, max(settings.task_bytes, sum(path.lstat().st_size for path in files) // MAX_TASKS))
    check_size(len(runs))
    return runs


def check_size(shards: int) -> None:
    """Refuse a corpus whose manifests would be too large, before anything is read."""
    if shards > MAX_SHARDS:
        raise ValueError(
            f"the corpus would have {shards:,} shards, and a folder holds at most {MAX_SHARDS:,}: prepare it in "
            "several folders, and train on a list of them"
        )


def check_disk(stage: PrepareStage, work: Path) -> None:
    """Refuse a stage that would write more than fits on the disk."""
    free = shutil.disk_usage(work).free
    if stage.disk_bytes > free and not (work / "logs" / stage.name).exists():
        raise ValueError(
            f"stage {stage.name!r} writes {stage.disk_bytes / 1e9:,.1f} GB, and {work} has {free / 1e9:,.1f} GB left: "
            "make room, and give the same command again"
        )


def stages(
    corpus: Path,
    work: Path,
    settings: PrepareConfig,
    runs: list[list[Path]],
    upload: str | None = None,
    documents: int | None = None,
) -> Iterator[PrepareStage]:
    """Yield the stages: read and filter, find duplicates, pack into shards, hash and upload them.

    Without a number of documents, a stage must be complete before the next one is asked for: its tasks are sized by
    what was written.
    """
    tasks = len(runs)
    names = tuple(tuple(str(path) for path in run) for run in runs)
    filtered, shards, quarantine, sources, counts = (
        str(work / name) for name in ("filtered", "shards", "quarantine", "sources", "counts")
    )
    yield PrepareStage("read", tasks, lambda: [
        ReadDocuments(str(corpus), names, quarantine, sources, settings.split, settings.column),
        *_filters(settings),
        WriteDocuments(filtered),
    ])  # fmt: skip
    count = _count(work / "filtered") if documents is None else documents
    dedup_steps: Callable[[], list[Any]] = list
    if settings.dedup != "none":
        yield from dedup.exact_stages(work, tasks, count, lambda: [ReadFiltered(filtered)])
        dedup_steps = lambda: [dedup.exact_filter(work)]  # noqa: E731
    if settings.dedup == "minhash":
        exact = dedup_steps
        steps = lambda: [ReadFiltered(filtered), *exact()]  # noqa: E731
        yield from dedup.minhash_stages(work, tasks, count, settings.language, steps)
        yield dedup.cluster_stage(work)
        dedup_steps = lambda: [*exact(), dedup.minhash_filter(work)]  # noqa: E731
    final_steps = dedup_steps
    yield PrepareStage("pack", tasks, lambda: [
        ReadFiltered(filtered), *final_steps(),
        PackTokens(shards, counts, settings.tokenizer, settings.block, settings.language),
    ])  # fmt: skip
    seal = SealPart(shards, counts, tasks, upload)
    yield PrepareStage("seal", ceil(tasks / SHARDS_PER_PART), lambda: [seal])


def _filters(settings: PrepareConfig) -> list[Any]:
    """Return datatrove's quality filters with our word tokenizer."""
    from datatrove.pipeline.filters import (
        C4QualityFilter,
        FineWebQualityFilter,
        GopherQualityFilter,
        GopherRepetitionFilter,
    )

    filters = {
        "gopher": GopherQualityFilter, "repetition": GopherRepetitionFilter, "fineweb": FineWebQualityFilter,
        "c4": C4QualityFilter,
    }  # fmt: skip
    return [filters[name](language=regex_word_tokenizer(settings.language)) for name in settings.quality]


def _claim(work: Path, corpus: Path, settings: PrepareConfig, runs: list[list[Path]]) -> None:
    """Bind the work folder to this corpus and these settings; refuse one of another corpus or settings."""
    listed = [[(str(path), path.lstat().st_size) for path in run] for run in runs]
    content = json.dumps({"corpus": str(corpus.resolve()), "settings": asdict(settings), "files": listed}, indent=1)
    path = work / "recipe.json"
    if path.exists() and path.read_text(encoding="utf-8") != content:
        raise ValueError(f"{work} was created from a different corpus or settings: delete it to start again")
    work.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        write_atomic(path, content)


def _summary(work: Path, settings: PrepareConfig, runs: list[list[Path]]) -> PrepareSummary:
    dropped: Counter[str] = Counter()
    for path in sorted((work / "logs" / "read" / "stats").glob("*.json")):
        dropped.update(dropped_of(json.loads(path.read_text(encoding="utf-8"))))
    read, kept = (_count(work / name) for name in ("quarantine", "filtered"))
    quarantined = sum(path.read_bytes().count(b"\n") for path in (work / "quarantine").glob("*.jsonl"))
    shards = [read_counts(work / "counts", rank) for rank in range(len(runs))]
    sums = {name: sum(shard[name] for shard in shards) for name in ("documents", "blocks", "tokens", "sentences")}
    duplicates = kept - sums["documents"]
    if duplicates:
        dropped[f"duplicate ({settings.dedup})"] = duplicates
    if read != sums["documents"] + dropped.total():
        raise ValueError(f"{read:,} documents were read, but {sums['documents'] + dropped.total():,} are accounted for")
    return PrepareSummary(
        sum(map(len, runs)), read, quarantined, dict(sorted(dropped.items())), shards=len(runs), **sums
    )


def _count(folder: Path) -> int:
    return sum(int(path.read_text()) for path in folder.glob("*.count"))


def _finish(
    work: Path,
    target: Folder,
    settings: PrepareConfig,
    tokenizer: Tokenizer,
    summary: PrepareSummary,
) -> None:
    """Add tokenizer, quarantine, hashes of the sources and a manifest to the sealed parts; move all to `target`.

    Sealed parts are in an object store already.
    """
    new = work / "shards"
    for path in new.iterdir():
        if not path.name.startswith("part-"):  # of a run that was stopped here
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, folder, suffix in (("quarantine.jsonl", "quarantine", "jsonl"), ("sources.sha256", "sources", "sha256")):
        with (new / name).open("w", encoding="utf-8") as file:
            file.writelines(path.read_text(encoding="utf-8") for path in sorted((work / folder).glob(f"*.{suffix}")))
    tokenizer.save(new / "tokenizer")
    steps = {name: value for name, value in asdict(settings).items() if name != "tokenizer"}
    write_manifest(new, {
        "block": settings.block, "tokenizer": tokenizer.fingerprint(), "steps": steps, "summary": asdict(summary),
        "vocab_size": tokenizer.vocab_size,
    })  # fmt: skip
    if isinstance(target, S3Path):
        for path in sorted(new.rglob("*")):
            name = path.relative_to(new).as_posix()
            if path.is_file() and name != MANIFEST and not name.startswith("part-"):
                upload_file(path, target / name)
        (target / MANIFEST).commit_bytes((new / MANIFEST).read_bytes())
    else:
        for path in (new / "tokenizer", new):
            sync_tree(path, recursive=False)
        publish_folder(new, target)
    shutil.rmtree(work)
