"""Catalog of named data sets: source, license, and the size and SHA-256 of every file, read from `datasets.toml`."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RemoteFile:
    """A file of a data set as its source publishes it; `url` is None where no download address is known."""

    name: str
    sha256: str
    size: int
    url: str | None = None


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A data set: purpose, number of examples, source, license, files and usage notes."""

    name: str
    title: str
    examples: int
    source: str
    license: str
    files: tuple[RemoteFile, ...]
    about: str
    hub_id: str | None = None  # the corpus on the Hugging Face hub, whose format and rows may differ from these files

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def _dataset(name: str, entry: dict[str, Any]) -> Dataset:
    base_url: str | None = entry.pop("base_url", None)
    files = tuple(_file(file, base_url) for file in entry.pop("files"))
    return Dataset(name=name, files=files, **entry)


def _file(entry: dict[str, Any], base_url: str | None) -> RemoteFile:
    base_url = entry.pop("base_url", base_url)
    return RemoteFile(**entry, url=None if base_url is None else base_url + entry["name"])


def _load() -> dict[str, Dataset]:
    text = Path(__file__).with_name("datasets.toml").read_text(encoding="utf-8")
    return {name: _dataset(name, entry) for name, entry in tomllib.loads(text).items()}


DATASETS: dict[str, Dataset] = _load()
"""The data sets that recipes can name, by name."""
