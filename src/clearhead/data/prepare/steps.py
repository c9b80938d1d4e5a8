"""Steps: what happens to documents on their way into shards. datatrove calls each with the documents and the task.

What a step of a task does follows from the files of that task alone, and what it writes is there whole or not at all.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from clearhead.data.prepare.sources import Split, Unread, documents
from clearhead.data.shards import SIZES, packed, write_shard
from clearhead.files import write_atomic
from clearhead.text import Tokenizer, sentences_of, tokens_of

CHUNK = 256  # documents that are turned into tokens at once

_WORD = re.compile(r"\w+|[^\w\s]")


class Hush:
    """The first step of every stage: datatrove is not to tell of each document and task.

    Its messages end where this is made, and so in each process that it is sent to; its bars when the task begins.
    """

    def __init__(self) -> None:
        from loguru import logger

        logger.disable("datatrove")

    def __reduce__(self) -> tuple[type[Hush], tuple[()]]:
        return Hush, ()

    def __call__(self, data: Any, rank: int, world_size: int) -> Any:
        for name in ("exact_dedup", "minhash"):  # their bars would stand amid those of the stages
            if step := sys.modules.get(f"datatrove.pipeline.dedup.{name}"):
                vars(step)["tqdm"] = _no_bar
        return data


def _no_bar(of: Iterable[Any], **_: Any) -> Iterable[Any]:
    return of


@dataclass(frozen=True)
class Read:
    """The documents of a task's files; what cannot be read goes to quarantine, with its place and the reason."""

    corpus: str
    runs: tuple[tuple[str, ...], ...]  # the files of each task
    folder: str  # of the quarantine
    split: Split
    column: str

    def __call__(self, data: Any, rank: int, world_size: int) -> Iterator[Any]:
        """One document after another; the quarantine is written when all are through."""
        from datatrove.data import Document

        unread: list[str] = []
        count = 0
        for file in self.runs[rank]:
            for one in documents(Path(file), Path(self.corpus), split=self.split, column=self.column):
                if isinstance(one, Unread):
                    unread.append(json.dumps({"place": one.place, "reason": one.reason}, ensure_ascii=False))
                else:
                    count += 1
                    yield Document(one.text, one.place)
        write_atomic(Path(self.folder) / f"{rank:05d}.jsonl", "".join(f"{line}\n" for line in unread))
        write_atomic(Path(self.folder) / f"{rank:05d}.count", str(count))


@dataclass(frozen=True)
class Keep:
    """Write documents down between two stages: a packed file a task, also where there is nothing to write."""

    folder: str

    def __call__(self, data: Iterable[Any], rank: int, world_size: int) -> None:
        """Write all, then give the file its name."""
        path = _kept(self.folder, rank)
        part = path.with_suffix(".part")
        count = 0
        with part.open("wb") as raw, gzip.GzipFile("", "wb", 1, raw, mtime=0) as file:
            for one in data:
                count += 1
                file.write(json.dumps([one.id, one.text], ensure_ascii=False).encode() + b"\n")
        write_atomic(path.with_suffix(".count"), str(count))
        os.replace(part, path)


@dataclass(frozen=True)
class Take:
    """Read again what `Keep` wrote."""

    folder: str

    def __call__(self, data: Any, rank: int, world_size: int) -> Iterator[Any]:
        """The documents of this task, in their order."""
        from datatrove.data import Document

        with gzip.open(_kept(self.folder, rank), "rt", encoding="utf-8", newline="\n") as file:
            for line in file:
                place, text = json.loads(line)
                yield Document(text, place)


@dataclass(frozen=True)
class Pack:
    """Sentences, tokens, blocks, a shard: the last step."""

    folder: str
    tokenizer: str
    block: int
    language: str

    def __call__(self, data: Iterable[Any], rank: int, world_size: int) -> None:
        """Write the shard and, beside it, the places of its documents in order."""
        places: list[str] = []
        target = Path(self.folder) / shard_name(rank, world_size)
        part = target.with_suffix(".part")
        sizes = write_shard(part, packed(self._sentences(data, places), self.block))
        names = "".join(f"{place}\n" for place in places).encode()
        write_atomic(target.with_suffix(".places.gz"), gzip.compress(names, 6, mtime=0))
        write_atomic(target.with_suffix(SIZES), sizes.tobytes())
        os.replace(part, target)
        tokens, sentences, _ = sizes.sum(axis=0, dtype=int).tolist()
        facts = {"documents": len(places), "blocks": len(sizes), "tokens": tokens, "sentences": sentences}
        write_atomic(target.with_suffix(".json"), json.dumps(facts))

    def _sentences(self, data: Iterable[Any], places: list[str]) -> Iterator[list[list[int]]]:
        """The sentences of each document in tokens, many documents at a time."""
        stream, words = iter(data), _words(self.tokenizer)
        while chunk := list(islice(stream, CHUNK)):
            places += [one.id for one in chunk]
            yield from tokens_of([one.text for one in chunk], words, self.language)


def words_of(text: str) -> list[str]:
    """Runs of letters and digits, and marks: words without a model of a language."""
    return _WORD.findall(text)


def word_rules(language: str) -> Any:
    """`words_of` and `sentences_of` as datatrove's filters take them, which ask for a model otherwise."""
    from datatrove.utils.word_tokenizers import WordTokenizer

    class Rules(WordTokenizer):
        def word_tokenize(self, text: str) -> list[str]:
            return words_of(text)

        def sent_tokenize(self, text: str) -> list[str]:
            return sentences_of(text, language)

        def span_tokenize(self, text: str) -> list[tuple[int, int]]:
            raise NotImplementedError("no filter in use asks where sentences stand")

    return Rules()


def shard_name(rank: int, tasks: int) -> str:
    """The name of a task's shard."""
    return f"shard-{rank:05d}-of-{tasks:05d}.array_record"


@cache
def _words(folder: str) -> Tokenizer:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the tasks are what runs in parallel
    return Tokenizer.load(folder)


def _kept(folder: str, rank: int) -> Path:
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder) / f"{rank:05d}.jsonl.gz"
