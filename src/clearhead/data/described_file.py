"""The rows of a data file whose format is not described: a table with or without a header, CoNLL, SQuAD, or text."""

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from clearhead.data.catalog import DATASETS, Dataset, RemoteFile
from clearhead.data.conll import CONLLU_COLUMNS, conll_names
from clearhead.data.data_card import FileFacts, file_facts
from clearhead.data.datasets import data_home, files_here, locate
from clearhead.data.lines import ends_with
from clearhead.data.readers import ARCHIVES, CONLL, TABLES, columns_of, read_rows
from clearhead.data.rows import Rows
from clearhead.data.spans import is_span_file
from clearhead.files import sha256

NUM_INSPECTED_ROWS = 1000
_COLUMN_NAME = re.compile(r"[^\W\d][\w ()/#-]{0,39}")


def described_rows(path: Path, *, header: bool | None = None) -> Rows | None:
    """Return the rows of a file under the names of its columns; None where its format is not known.

    `header` says whether a TSV or CSV file has column names in its first line; None: they are recognized.
    """
    if path.suffix.lower() in ARCHIVES:
        return None
    if ends_with(path, *CONLL):
        return read_rows(path, _conll_columns(path))
    if ends_with(path, ".json", ".jsonl") and is_span_file(path):
        return read_rows(path, {"words": "spans", "tags": "spans"})
    if ends_with(path, ".json"):
        return read_rows(path, None)
    if not ends_with(path, *TABLES):
        return read_rows({"text": path})
    if ends_with(path, ".tsv", ".csv") and not (has_header(path) if header is None else header):
        return read_rows(path, {name: name for name in columns_of(path, header=False)})
    return read_rows(path)


def described_source(
    source: str, labels: Sequence[str] = (), header: bool | None = None
) -> tuple[str, Dataset | None, list[FileFacts], Path]:
    """Return the name of a file, of a data set or of a file of one, its entry in the catalog, its facts, and a folder.

    The folder is where its card is written: beside the file, or the current one for a data set of the catalog.
    """
    name, colon, _ = source.partition(":")
    if source in DATASETS and not Path(source).exists():
        return (
            source,
            DATASETS[source],
            [_remote_facts(source, file, labels, header) for file in DATASETS[source].files],
            Path(),
        )
    path = locate(source, ".")
    if not path.is_file():
        kind = "is a folder: give one of its files" if path.is_dir() else "is no file and no data set: check the name"
        raise ValueError(f"{source} {kind}; `clearhead data` lists the data sets")
    facts = _facts(path.name, path, labels, header)
    if colon and name in DATASETS:
        return source, DATASETS[name], [facts], Path()
    return path.name, None, [facts], path.parent


def _remote_facts(name: str, file: RemoteFile, labels: Sequence[str], header: bool | None) -> FileFacts:
    """Return the facts of a file of a data set; its rows are read where it is stored."""
    path = data_home() / name / file.name
    if files_here(DATASETS[name]).get(file.name) and path.is_file():
        return _facts(file.name, path, labels, header)
    return FileFacts(name=file.name, size=file.size, sha256=file.sha256)


def _facts(name: str, path: Path, labels: Sequence[str], header: bool | None) -> FileFacts:
    size, digest = path.stat().st_size, sha256(path)
    try:
        rows = described_rows(path, header=header)
        if rows is None:
            return FileFacts(name=name, size=size, sha256=digest)
        return file_facts(name, size, digest, rows, labels)
    except ValueError:  # a format that is not ours: the file is named with its hash only
        return FileFacts(name=name, size=size, sha256=digest)


def has_header(path: Path) -> bool:
    """Return whether the first line of a table names its columns.

    It does not where a name is no name (a sentence, a number), is there twice, or is also a value of its column: the
    texts of a first row must not be taken for names.
    """
    names = columns_of(path)
    if len(set(names)) < len(names) or not all(_COLUMN_NAME.fullmatch(name.strip()) for name in names):
        return False
    rows = islice(read_rows(path), NUM_INSPECTED_ROWS)
    return not any(row.values[name] == name for row in rows for name in names)


def _conll_columns(path: Path) -> dict[str, str]:
    names = conll_names(path)
    word = CONLLU_COLUMNS[1] if tuple(names) == CONLLU_COLUMNS else names[0]
    tag = "upos" if word == CONLLU_COLUMNS[1] else names[-1]
    return {"words": word} | ({"tags": tag} if len(names) > 1 else {})
