"""An index of documents: built and updated by content hash, searched by words, by vectors, or by both."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import numpy as np

from clearhead.pipeline import Pipeline, load
from clearhead.search.document_readers import Document
from clearhead.search.index_calibration import IndexCalibration
from clearhead.search.passage_table import PassageTable, create_table, open_table
from clearhead.search.passages import LANGUAGES, Passage, PassageConfig, split_passages

COMMIT_PASSAGES = 2048  # passages of a commit: what a killed run loses at most
RRF = 60  # of reciprocal rank fusion, which adds 1 / (RRF + rank) of each ranking

Id = TypeVar("Id", str, tuple[str, int])


@dataclass(frozen=True, kw_only=True)
class IndexConfig:
    """What an index is made with; it cannot change later."""

    model: str | None = None  # the embedding model; None: words only
    reader: str | None = None  # the model that answers questions, unless another is given
    passages: PassageConfig = field(default_factory=PassageConfig)


@dataclass(frozen=True)
class SearchResult:
    """A passage that fits a query."""

    text: str
    source: str
    start: int
    end: int
    heading: str
    page: int | None
    score: float
    text_rank: int | None = None  # by words, from 1; None: not among the best
    vector_rank: int | None = None

    @property
    def place(self) -> str:
        """Document, character and page, to show."""
        return show_place(self.source, self.start, self.page)


@dataclass
class UpdateReport:
    """What an update did, in documents."""

    added: int = 0
    changed: int = 0
    deleted: int = 0
    unchanged: int = 0
    passages: int = 0


class Index:
    """An index in a folder, on object storage (`s3://`) or in PostgreSQL (`postgresql://HOST/DATABASE#NAME`)."""

    def __init__(self, table: PassageTable, pipeline: Pipeline | None, config: IndexConfig) -> None:
        self._table, self._pipeline, self.config = table, pipeline, config
        self._read_calibration()

    @staticmethod
    def open(uri: str, *, model: str | None = None) -> "Index":
        """Open an index; `model` replaces the address of its embedding model, which must be the same one."""
        table = open_table(uri)
        if table is None:
            raise ValueError(f"there is no index {uri!r}: make one with `clearhead index DOCS --out {uri}`")
        info = table.info
        config = IndexConfig(
            model=model or info["model"], reader=info.get("reader"), passages=PassageConfig(**info["passages"])
        )
        pipeline = None if info["model"] is None else load(str(config.model))
        if pipeline is not None and fingerprint(pipeline) != info["fingerprint"]:
            raise ValueError(
                f"{config.model} is not the model of this index: its weights or its tokenizer differ. "
                "Use the model that the index was made with, or make a new index"
            )
        return Index(table, pipeline, config)

    @staticmethod
    def create(uri: str, config: IndexConfig) -> "Index":
        """Create an empty index."""
        if config.passages.language not in LANGUAGES:
            raise ValueError(f"there is no stemmer for {config.passages.language!r}: choose {', '.join(LANGUAGES)}")
        if is_index(uri):
            raise ValueError(f"{uri} exists: open it, or choose another address")
        pipeline = None if config.model is None else load(config.model)
        info = {**asdict(config), "fingerprint": None}
        width = None
        if pipeline is not None:
            info["fingerprint"], width = fingerprint(pipeline), pipeline.loaded.config.output_width
        table = create_table(uri, info, width, LANGUAGES[config.passages.language])
        return Index(table, pipeline, config)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def version(self) -> int:
        """The version of the table; each change makes a new one."""
        return self._table.version

    @property
    def has_vectors(self) -> bool:
        """Whether passages have vectors, besides words."""
        return self._pipeline is not None

    def refresh(self) -> None:
        """Search the last version from now on: another process may have updated the index."""
        self._table.refresh()
        self._read_calibration()

    def keep_calibration(self, calibration: IndexCalibration) -> None:
        """Keep what was fitted with the index, and use it from now on."""
        self._table.set_info({**self._table.info, "calibration": calibration.to_dict()})
        self._read_calibration()

    def _read_calibration(self) -> None:
        kept = self._table.info.get("calibration")
        self.calibration = None if kept is None else IndexCalibration.from_dict(kept)
        self.vector_weight = 0.5 if self.calibration is None else self.calibration.vector_weight

    def passages(self, source: str) -> list[Passage]:
        """Return the passages of a document, in order; none where the index does not have it."""
        return [
            Passage(source, row["start"], row["end"], row["text"], row["heading"], row["page"])
            for row in self._table.passages(source)
        ]

    def all_passages(self) -> Iterator[Passage]:
        """Yield all passages of the index."""
        for row in self._table.scan():
            yield Passage(row["source"], row["start"], row["end"], row["text"], row["heading"], row["page"])

    def update(
        self,
        documents: Iterable[Document],
        *,
        delete_missing: bool = True,
        log: Callable[[UpdateReport], None] = lambda report: None,
    ) -> UpdateReport:
        """Bring the index to these documents: new and changed ones are added, and missing ones deleted.

        Every commit holds whole documents, and a run that was killed continues where it stopped. The search answers
        from the last commit meanwhile.
        """
        known, seen, report = self._table.documents(), dict[str, str](), UpdateReport()
        for batch in self.changed(documents, known, seen, report):
            rows, vectors = self.encode(batch)
            self._table.replace([document.source for document, _ in batch], rows, vectors)
            report.passages += len(rows)
            log(report)
        missing = [source for source in known if source not in seen] if delete_missing else []
        if missing:
            self._table.replace(missing, [], None if self._pipeline is None else np.zeros((0, self._width)))
            report.deleted = len(missing)
        if report.added or report.changed or report.deleted:
            self.build_indexes()
        log(report)
        return report

    @property
    def _width(self) -> int:
        assert self._pipeline is not None
        return self._pipeline.loaded.config.output_width

    def changed(
        self, documents: Iterable[Document], known: Mapping[str, str], seen: dict[str, str], report: UpdateReport
    ) -> Iterator[list[tuple[Document, list[Passage]]]]:
        """Yield new and changed documents with their passages, as many as belong in a commit.

        `known` has the hashes of the indexed documents; `seen` gets those of all documents, and `report` counts them.
        """
        waiting, count = list[tuple[Document, list[Passage]]](), 0
        for document in documents:
            if document.source in seen:
                raise ValueError(f"two documents are {document.source!r}: give each its own id")
            seen[document.source] = document.sha256
            if known.get(document.source) == document.sha256:
                report.unchanged += 1
                continue
            report.changed += document.source in known
            report.added += document.source not in known
            passages = list(split_passages(document, self.config.passages))
            waiting.append((document, passages))
            count += len(passages)
            if count >= COMMIT_PASSAGES:
                yield waiting
                waiting, count = [], 0
        if waiting:
            yield waiting

    def encode(
        self, documents: Iterable[tuple[Document, Sequence[Passage]]]
    ) -> tuple[list[dict[str, Any]], np.ndarray | None]:
        """Return the passages of documents as rows of the table, with their vectors if the index has such."""
        rows = [_row(document, passage) for document, found in documents for passage in found]
        return rows, None if self._pipeline is None else self._encode([row["words"] for row in rows], "document")

    def build_indexes(self) -> None:
        """Make the search fast after an update."""
        self._table.build_indexes(LANGUAGES[self.config.passages.language])

    def _encode(self, texts: list[str], prompt: str) -> np.ndarray:
        assert self._pipeline is not None
        parts = self._pipeline.encode_batches(texts, normalize=True, prompt=prompt)
        found = [part.vectors.numpy() for part in parts]
        return np.concatenate(found) if found else np.zeros((0, self._width), "f4")

    def search(self, query: str, k: int = 10, *, mode: str = "auto", depth: int = 100) -> list[SearchResult]:
        """Return the k passages that fit a query best: by "words", by "vectors", or by both ("hybrid")."""
        if mode == "auto":
            mode = "words" if self._pipeline is None else "hybrid"
        if mode not in ("words", "vectors", "hybrid"):
            raise ValueError(f"there is no mode {mode!r}: choose words, vectors or hybrid")
        if mode != "words" and self._pipeline is None:
            raise ValueError("this index has no vectors: search it with the mode words")
        vector = self._encode([query], "query")[0] if mode != "words" and query.strip() else None
        with self._table.snapshot():
            return self._search(query, vector, k, mode, max(k, depth))

    def word_scores(self, word: str, depth: int) -> dict[tuple[str, int], float]:
        """Return the BM25 scores of the best passages for a word, by document and offset."""
        return {_place(id): score for id, score in self._table.search_text(word, depth)}

    def similar_tokens(self, query: str, text: str, count: int) -> list[tuple[str, str, float]]:
        """Return the pairs of tokens that add most to the cosine of a query and a text; none without vectors."""
        if self._pipeline is None or self._pipeline.sentence.pool != "mean":
            return []
        tokenizer, explanation = self._pipeline.tokenizer, self._pipeline.explain(query, text)
        words = set(tokenizer.tokens(tokenizer([query, text], special=False).ids))
        pairs = explanation.top(len(explanation.first) * len(explanation.second))
        return [pair for pair in pairs if pair[0] in words and pair[1] in words][:count]  # no special tokens

    def _search(self, query: str, vector: np.ndarray | None, k: int, mode: str, depth: int) -> list[SearchResult]:
        by_text = self._table.search_text(query, depth) if mode != "vectors" else []
        by_vector = [] if vector is None else self._table.search_vectors(vector, depth)
        places = [{id: rank for rank, (id, _) in enumerate(found, 1)} for found in (by_text, by_vector)]
        if mode == "hybrid":
            best = fuse(places[0], places[1], self.vector_weight)[:k]
        else:
            best = sorted(by_text or by_vector, key=lambda found: (-found[1], found[0]))[:k]
        rows = self._table.rows([id for id, _ in best])
        return [
            SearchResult(
                rows[id]["text"], rows[id]["source"], rows[id]["start"], rows[id]["end"], rows[id]["heading"],
                rows[id]["page"], float(score), places[0].get(id), places[1].get(id),
            )
            for id, score in best
        ]  # fmt: skip


def fuse(by_text: Mapping[Id, int], by_vector: Mapping[Id, int], vector_weight: float) -> list[tuple[Id, float]]:
    """Return the ids of two rankings with their scores, best first, from the rank of each id in each ranking.

    Reciprocal rank fusion (Cormack et al. 2009), here with weights: 0.5 treats both rankings alike.
    """
    weighted = (by_text, 2 * (1 - vector_weight)), (by_vector, 2 * vector_weight)
    scores: dict[Id, float] = {}
    for ranking, weight in weighted:
        for id, rank in ranking.items() if weight else ():
            scores[id] = scores.get(id, 0.0) + weight / (RRF + rank)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def show_place(source: str, start: int, page: int | None) -> str:
    """Return document, character and page, to show."""
    return f"{source}:{start}" + (f", page {page}" if page is not None else "")


def fingerprint(pipeline: Pipeline) -> str:
    """Return a hash of what makes vectors comparable: weights, tokenizer, pooling, prompts and length."""
    digest = hashlib.sha256(json.dumps(pipeline.tokenizer.fingerprint(), sort_keys=True).encode())
    for name, parameter in sorted(pipeline.model.named_parameters()):
        digest.update(name.encode())
        digest.update(parameter.detach().float().cpu().numpy().tobytes())
    sentence = pipeline.sentence
    digest.update(repr((sentence.pool, sorted(sentence.prompts.items()), pipeline.max_len)).encode())
    return digest.hexdigest()


def _place(id: str) -> tuple[str, int]:
    """Return document and offset of a passage from its id."""
    source, _, start = id.rpartition("\n")
    return source, int(start)


def _row(document: Document, passage: Passage) -> dict[str, Any]:
    lead = " ".join(part for part in dict.fromkeys((document.title, passage.heading)) if part)
    words = passage.text if not lead or passage.text.startswith(lead) else f"{lead}\n{passage.text}"
    return {
        "id": f"{passage.source}\n{passage.start}", "source": passage.source, "sha256": document.sha256,
        "start": passage.start, "end": passage.end, "page": passage.page, "heading": passage.heading,
        "text": passage.text, "words": words,
    }  # fmt: skip


def is_index(uri: str) -> bool:
    """Return whether there is an index at this address."""
    return open_table(uri) is not None
