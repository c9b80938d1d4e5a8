"""Pipeline steps from documents to shards; datatrove calls each step with the documents and the task rank.

The output of a step depends only on the files of its task, and is written atomically.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from clearhead.corpus.documents import Split, UnreadableDocument, documents
from clearhead.data.shards import INDEX, SIZES, packed, write_shard
from clearhead.files import sha256, sync_tree, write_atomic, write_manifest
from clearhead.files.s3_folder import upload_folder
from clearhead.files.s3_path import S3Path
from clearhead.text import Tokenizer, split_sentences, tokenize_sentences

TOKENIZE_DOCUMENTS = 256  # documents tokenized at once
SHARDS_PER_PART = 1000  # of a subfolder with a manifest of its own
PLACES = ".places.gz"  # suffix of the file with the place of each document of a shard

_WORD = re.compile(r"\w+|[^\w\s]")


class SilenceDatatrove:
    """First step of every stage: creating or unpickling it turns off datatrove's log messages, also in workers."""

    def __init__(self) -> None:
        from loguru import logger

        logger.disable("datatrove")

    def __reduce__(self) -> tuple[type[SilenceDatatrove], tuple[()]]:
        return SilenceDatatrove, ()

    def __call__(self, data: Any, rank: int, world_size: int) -> Any:
        return data


@dataclass(frozen=True)
class ReadDocuments:
    """Read the documents of a task; unreadable ones are written to quarantine with place and reason."""

    corpus: str
    runs: tuple[tuple[str, ...], ...]  # the files of each task
    folder: str  # quarantine folder
    sources: str  # folder of the hashes of the files
    split: Split
    column: str

    def __call__(self, data: Any, rank: int, world_size: int) -> Iterator[Any]:
        """Yield the documents, then write the quarantine file and the SHA-256 of each file."""
        from datatrove.data import Document

        unreadable: list[str] = []
        count = 0
        for file in self.runs[rank]:
            for document in documents(Path(file), Path(self.corpus), split=self.split, column=self.column):
                if isinstance(document, UnreadableDocument):
                    row = {"place": document.place, "reason": document.reason}
                    unreadable.append(json.dumps(row, ensure_ascii=False))
                else:
                    count += 1
                    yield Document(document.text, document.place)
        write_atomic(Path(self.folder) / f"{rank:05d}.jsonl", "".join(f"{line}\n" for line in unreadable))
        write_atomic(Path(self.folder) / f"{rank:05d}.count", str(count))
        paths = (path for path in map(Path, self.runs[rank]) if path.is_file())
        hashes = "".join(f"{sha256(path)}  {path.name}\n" for path in paths)
        write_atomic(Path(self.sources) / f"{rank:05d}.sha256", hashes)


@dataclass(frozen=True)
class WriteDocuments:
    """Write the documents that passed the filters to one compressed file per task, even if there are none."""

    folder: str

    def __call__(self, data: Iterable[Any], rank: int, world_size: int) -> None:
        path = _filtered_path(self.folder, rank)
        part = path.with_suffix(".part")
        count = 0
        with part.open("wb") as raw, gzip.GzipFile("", "wb", 1, raw, mtime=0) as file:
            for document in data:
                count += 1
                file.write(json.dumps([document.id, document.text], ensure_ascii=False).encode() + b"\n")
        write_atomic(path.with_suffix(".count"), str(count))
        os.replace(part, path)


@dataclass(frozen=True)
class ReadFiltered:
    """Read the documents that `WriteDocuments` wrote."""

    folder: str

    def __call__(self, data: Any, rank: int, world_size: int) -> Iterator[Any]:
        from datatrove.data import Document

        with gzip.open(_filtered_path(self.folder, rank), "rt", encoding="utf-8", newline="\n") as file:
            for line in file:
                place, text = json.loads(line)
                yield Document(text, place)


@dataclass(frozen=True)
class PackTokens:
    """Split into sentences, tokenize, pack into blocks, write a shard into its part of the folder."""

    folder: str
    counts: str  # folder of the numbers of documents, blocks, tokens and sentences of each shard
    tokenizer: str
    block: int
    language: str

    def __call__(self, data: Iterable[Any], rank: int, world_size: int) -> None:
        """Write the shard, and files with the places of its documents and the sizes of its blocks."""
        places: list[str] = []
        target = Path(self.folder) / part_name(rank) / shard_name(rank, world_size)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(".part")
        sizes, index = write_shard(part, packed(self._sentences(data, places), self.block))
        names = "".join(f"{place}\n" for place in places).encode()
        write_atomic(target.with_suffix(PLACES), gzip.compress(names, 6, mtime=0))
        write_atomic(target.with_suffix(SIZES), sizes.tobytes())
        write_atomic(target.with_suffix(INDEX), index.tobytes())
        os.replace(part, target)
        tokens, sentences, _ = sizes.sum(axis=0, dtype=int).tolist()
        counts = {"documents": len(places), "blocks": len(sizes), "tokens": tokens, "sentences": sentences}
        write_atomic(_counts_path(self.counts, rank), json.dumps(counts))

    def _sentences(self, data: Iterable[Any], places: list[str]) -> Iterator[list[list[int]]]:
        stream, tokenizer = iter(data), _tokenizer(self.tokenizer)
        while chunk := list(islice(stream, TOKENIZE_DOCUMENTS)):
            places += [document.id for document in chunk]
            yield from tokenize_sentences([document.text for document in chunk], tokenizer, self.language)


@dataclass(frozen=True)
class SealPart:
    """Last step: hash the files of a part, delete what a killed task left there, write its manifest, upload it."""

    folder: str
    counts: str
    num_shards: int
    upload: str | None = None  # address of the corpus in an object store

    def __call__(self, data: Any, rank: int, world_size: int) -> None:
        first = rank * SHARDS_PER_PART
        part = Path(self.folder) / part_name(first)
        blocks: list[tuple[str, int]] = []
        expected: set[str] = set()
        for shard in range(first, min(first + SHARDS_PER_PART, self.num_shards)):
            path = Path(shard_name(shard, self.num_shards))
            expected |= {path.name, *(path.with_suffix(suffix).name for suffix in (SIZES, INDEX, PLACES))}
            blocks.append((path.name, read_counts(self.counts, shard)["blocks"]))
        for path in part.iterdir():
            if path.name not in expected:
                path.unlink()
        write_manifest(part, {"blocks": blocks})
        sync_tree(part)
        if self.upload is not None:
            upload_folder(part, S3Path.parse(self.upload) / part.name, overwrite=True)


def split_words(text: str) -> list[str]:
    """Split text into words and punctuation marks, without a language model."""
    return _WORD.findall(text)


def regex_word_tokenizer(language: str) -> Any:
    """Return a datatrove tokenizer with `split_words` and `split_sentences`; datatrove's own needs a model."""
    from datatrove.utils.word_tokenizers import WordTokenizer

    class RegexWordTokenizer(WordTokenizer):
        def word_tokenize(self, text: str) -> list[str]:
            return split_words(text)

        def sent_tokenize(self, text: str) -> list[str]:
            return split_sentences(text, language)

        def span_tokenize(self, text: str) -> list[tuple[int, int]]:
            raise NotImplementedError("no filter in use needs the spans of sentences")

    return RegexWordTokenizer()


def shard_name(rank: int, tasks: int) -> str:
    return f"shard-{rank:05d}-of-{tasks:05d}.array_record"


def part_name(rank: int) -> str:
    """Return the subfolder that the shard of a task is written to."""
    return f"part-{rank // SHARDS_PER_PART:05d}"


def read_counts(folder: str | Path, rank: int) -> dict[str, int]:
    return json.loads(_counts_path(folder, rank).read_text(encoding="utf-8"))


def _counts_path(folder: str | Path, rank: int) -> Path:
    return Path(folder) / f"{rank:05d}.json"


@cache
def _tokenizer(folder: str) -> Tokenizer:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the tasks run in parallel instead
    return Tokenizer.load(folder)


def _filtered_path(folder: str, rank: int) -> Path:
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder) / f"{rank:05d}.jsonl.gz"
