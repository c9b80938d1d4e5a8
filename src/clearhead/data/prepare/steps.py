"""Steps: what happens to documents, as datatrove runs it: read, judged, kept, found to be doubles, packed into shards.

Each step of a task is a function of the files of that task alone, and writes its file whole or not at all.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from datatrove.data import Document
from datatrove.pipeline.base import PipelineStep
from datatrove.utils.word_tokenizers import WordTokenizer
from loguru import logger

from clearhead.data.prepare.sources import Split, Unread, documents
from clearhead.data.shards import packed, write_shard
from clearhead.files import write_atomic
from clearhead.text import Tokenizer

logger.disable("datatrove")

CHUNK = 256  # documents that are turned into tokens at once


class Hush(PipelineStep):
    """The first step of every stage: wherever it is unpacked, datatrove stops to tell of each document and task."""

    name = "hush"
    type = "clearhead"

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Any:
        """Nothing happens to documents."""
        return data


class Words(WordTokenizer):
    """Words and sentences without a model of a language: runs of letters and digits, and sentencex's rules."""

    _word = re.compile(r"\w+|[^\w\s]")

    def __init__(self, language: str = "en") -> None:
        super().__init__()
        self.lang = language

    def word_tokenize(self, text: str) -> list[str]:
        """Words and marks."""
        return self._word.findall(text)

    def sent_tokenize(self, text: str) -> list[str]:
        """Sentences without the space around them."""
        return [text[a:b].strip() for a, b in self.span_tokenize(text) if text[a:b].strip()]

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        """Where sentences stand; together they are all of the text."""
        from sentencex import segment

        spans, at = [], 0
        for sentence in segment(self.lang, text):
            begin = text.find(sentence, at)
            begin = at if begin < 0 else begin
            spans.append((begin, begin + len(sentence)))
            at = begin + len(sentence)
        return spans


class Read(PipelineStep):
    """The documents of a task's files; what cannot be read goes to quarantine, with file, place and reason."""

    name = "read"
    type = "clearhead"

    def __init__(self, corpus: str, runs: list[list[str]], quarantine: str, split: Split, column: str) -> None:
        super().__init__()
        self.corpus, self.runs, self.quarantine, self.split, self.column = corpus, runs, quarantine, split, column

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """One document after another; the quarantine is written when all are through."""
        reasons: list[str] = []
        count = 0
        for file in self.runs[rank]:
            for one in documents(Path(file), Path(self.corpus), split=self.split, column=self.column):
                if isinstance(one, Unread):
                    self.stat_update("quarantined")
                    reasons.append(json.dumps({"place": one.place, "reason": one.reason}, ensure_ascii=False))
                    continue
                self.stat_update("read")
                yield Document(one.text, one.place, metadata={"number": count})
                count += 1
        write_atomic(Path(self.quarantine) / f"{rank:05d}.jsonl", "".join(f"{line}\n" for line in reasons))


class Keep(PipelineStep):
    """Write documents down between two stages: a packed file a task, also where there is nothing to write."""

    name = "keep"
    type = "clearhead"

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> None:
        """Write all, then give the file its name."""
        path = _kept(self.folder, rank)
        part = path.with_suffix(".part")
        with part.open("wb") as raw, gzip.GzipFile("", "wb", 1, raw, mtime=0) as file:
            for one in data:
                self.stat_update("kept")
                file.write(json.dumps([one.id, one.text], ensure_ascii=False).encode() + b"\n")
        os.replace(part, path)


class Take(PipelineStep):
    """Read again what `Keep` wrote."""

    name = "take"
    type = "clearhead"

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """The documents of this task, in their order."""
        with gzip.open(_kept(self.folder, rank), "rt", encoding="utf-8", newline="\n") as file:
            for line in file:
                place, text = json.loads(line)
                yield Document(text, place)


class Pack(PipelineStep):
    """Sentences, tokens, blocks, a shard: the last step."""

    name = "pack"
    type = "clearhead"

    def __init__(self, folder: str, tokenizer: str, block: int, language: str) -> None:
        super().__init__()
        self.folder, self.tokenizer, self.block, self.language = folder, tokenizer, block, language

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> None:
        """Write the shard and, beside it, the places of its documents in order."""
        places: list[str] = []
        counts: Counter[str] = Counter()
        target = Path(self.folder) / shard_name(rank, world_size)
        part = target.with_suffix(".part")
        blocks, tokens = write_shard(part, packed(self._sentences(data, places, counts), self.block))
        write_atomic(target.with_suffix(".places.gz"), _gzip("".join(f"{place}\n" for place in places).encode()))
        os.replace(part, target)
        facts = {"documents": len(places), "blocks": blocks, "tokens": tokens, "sentences": counts["sentences"]}
        write_atomic(target.with_suffix(".json"), json.dumps(facts))

    @cached_property
    def _words(self) -> Tokenizer:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the tasks are what runs in parallel
        return Tokenizer.load(self.tokenizer)

    def _sentences(self, data: Any, places: list[str], counts: Counter[str]) -> Iterator[list[list[int]]]:
        """The sentences of each document in tokens, many documents at a time."""
        splitter, chunk = Words(self.language), list[Document]()

        def turned() -> Iterator[list[list[int]]]:
            sentences = [splitter.sent_tokenize(one.text) for one in chunk]
            flat = [sentence for many in sentences for sentence in many]
            found = self._words(flat, special=False, offsets=False) if flat else None
            each = iter([] if found is None else [part.tolist() for part in found.ids.split(list(found.layout.sizes))])
            for one, many in zip(chunk, sentences, strict=True):
                places.append(one.id)
                counts["sentences"] += len(many)
                yield [next(each) for _ in many]

        for one in data:
            chunk.append(one)
            if len(chunk) == CHUNK:
                yield from turned()
                chunk = []
        yield from turned()


def shard_name(rank: int, tasks: int) -> str:
    """The name of a task's shard."""
    return f"shard-{rank:05d}-of-{tasks:05d}.array_record"


def _kept(folder: str, rank: int) -> Path:
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder) / f"{rank:05d}.jsonl.gz"


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, 6, mtime=0)
