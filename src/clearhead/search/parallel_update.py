"""Updates of an index by many workers: tasks write fragments that no search reads, and one commit adds them all."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clearhead.corpus.dedup import PrepareStage
from clearhead.corpus.executors import Executor, run_stage
from clearhead.data.datasets import data_home
from clearhead.files import write_atomic
from clearhead.search.document_readers import ReadReport, document_files, read_files
from clearhead.search.index import Index, UpdateReport
from clearhead.search.lance_table import LanceTable
from clearhead.search.passage_table import open_table

TASK_BYTES = 16 << 20  # of files in a task: what a killed worker loses at most


def update_in_parallel(
    uri: str,
    root: Path,
    skipped: ReadReport,
    *,
    on: Executor = "local",
    workers: int = 1,
    on_progress: Callable[[str, int, int], object] = lambda stage, done, tasks: None,
) -> UpdateReport:
    """Bring an index to the documents of a folder, as `Index.update` does, with tasks that run anywhere.

    A run that was killed continues with the tasks that are left, as long as neither the files nor the index changed.
    """
    table = _lance_table(uri)
    base, files = document_files(root)
    tasks = split_tasks(files)
    folder = _work_folder(uri, table.version, base, files)
    folder.mkdir(parents=True, exist_ok=True)
    step = IndexFiles(uri, str(base), tuple(tasks), str(folder), max(1, _cores() // workers))
    if tasks:
        stage = PrepareStage("index", len(tasks), lambda: [step])
        run_stage(stage, folder / "logs", on=on, workers=workers, on_progress=on_progress)
    results = [json.loads((folder / f"{rank:05d}.json").read_text("utf-8")) for rank in range(len(tasks))]
    report = _commit(uri, table, results, skipped)
    shutil.rmtree(folder, ignore_errors=True)
    return report


@dataclass(frozen=True)
class IndexFiles:
    """A step of datatrove: index the new and changed documents of a task's files into fragments."""

    uri: str
    base: str
    tasks: tuple[tuple[str, ...], ...]  # the files of each
    folder: str
    threads: int

    def __call__(self, data: Any, rank: int, world_size: int) -> tuple[()]:
        import torch

        torch.set_num_threads(self.threads)
        index, table = Index.open(self.uri), _lance_table(self.uri)
        skipped, report, seen, fragments = ReadReport(), UpdateReport(), dict[str, str](), list[str]()
        documents = read_files(Path(self.base), [Path(name) for name in self.tasks[rank]], skipped)
        for batch in index.changed(documents, table.documents(), seen, report):
            rows, vectors = index.encode(batch)
            fragments += table.write_fragments(rows, vectors)
            report.passages += len(rows)
        result = {"seen": seen, "fragments": fragments, "report": asdict(report), "skipped": skipped.skipped}
        write_atomic(Path(self.folder) / f"{rank:05d}.json", json.dumps(result).encode("utf-8", "surrogatepass"))
        return ()


def split_tasks(files: Sequence[Path]) -> list[tuple[str, ...]]:
    """Return the files of each task: neighbours, up to a size."""
    tasks: list[list[str]] = []
    size = TASK_BYTES
    for path in files:
        if size + path.stat().st_size > TASK_BYTES:
            tasks.append([])
            size = 0
        tasks[-1].append(str(path))
        size += path.stat().st_size
    return [tuple(task) for task in tasks]


def _commit(uri: str, table: LanceTable, results: Sequence[dict[str, Any]], skipped: ReadReport) -> UpdateReport:
    """Show the fragments of all tasks, without the documents that they replace and those that are gone."""
    known = table.documents()
    seen: dict[str, str] = {}
    total = UpdateReport()
    for result in results:
        if twice := seen.keys() & result["seen"].keys():
            raise ValueError(f"two documents are {min(twice)!r}: give each its own id")
        seen |= result["seen"]
        skipped.skipped += [(name, reason) for name, reason in result["skipped"]]
        for name, count in result["report"].items():
            setattr(total, name, getattr(total, name) + count)
    gone = [source for source in known if source not in seen]
    total.deleted = len(gone)
    replaced = [source for source, sha256 in known.items() if seen.get(source, sha256) != sha256]
    fragments = [fragment for result in results for fragment in result["fragments"]]
    if fragments or gone or replaced:
        table.commit_fragments([*replaced, *gone], fragments)
        Index.open(uri).build_indexes()
    return total


def _lance_table(uri: str) -> LanceTable:
    table = open_table(uri)
    if not isinstance(table, LanceTable):
        raise ValueError(f"{uri}: several workers need an index in a folder or on object storage; use one worker")
    return table


def _work_folder(uri: str, version: int, base: Path, files: Sequence[Path]) -> Path:
    """Return where the results of the tasks wait, by the index, its version and the files."""
    state = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    key = hashlib.sha256(json.dumps([uri, version, str(base), state]).encode()).hexdigest()[:16]
    home = data_home() / "index" if "://" in uri else Path(uri) / "work"
    return home / key


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
