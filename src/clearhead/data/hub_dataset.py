"""Data sets of the Hugging Face hub, or folders laid out like them, as records: through the `datasets` library."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from clearhead.data.image_rows import ImageFile
from clearhead.data.records import record_texts
from clearhead.data.rows import RowError
from clearhead.data.squad import answer_spans

STREAM_BYTES = 1 << 30  # larger data sets are read over the network as they are needed, and not stored
SPANS = {"text", "answer_start"}  # the lists of an answer in data sets in the format of SQuAD


@dataclass(frozen=True, kw_only=True)
class HubDataset:
    """One split of a data set on the hub, at one revision. A folder laid out like a data set is named by its path."""

    name: str  # OWNER/NAME, or a path that begins with a dot, a slash or a tilde
    config: str | None = None
    split: str = "train"
    revision: str | None = None  # the commit; a folder has none

    def __str__(self) -> str:
        return "hub:" + "/".join(part for part in (self.name, self.config, self.split) if part is not None)

    def column_names(self) -> list[str]:
        """Return the names of the columns, and of those inside a column as `translation.de`."""
        names: list[str] = []
        for name, feature in self._features.items():
            inner = getattr(feature, "languages", None) or (feature if isinstance(feature, dict) else ())
            names += [name, *(f"{name}.{one}" for one in cast(Any, inner))]
        return names

    def records(self, wanted: Mapping[str, str]) -> Iterator[tuple[int, dict[str, Any] | RowError]]:
        """Yield the number of each row, from 1, and its wanted values; labels are their names."""
        features = self._features
        columns = {theirs: theirs if theirs in features else theirs.partition(".")[0] for theirs in wanted.values()}
        decoders = {column: _decoder(features[column]) for column in columns.values()}
        for number, row in enumerate(self._opened.select_columns(list(decoders)), 1):
            record = {
                theirs: decoders[column](row[column] if theirs == column else row[column][theirs[len(column) + 1 :]])
                for theirs, column in columns.items()
            }
            yield number, _values(record, wanted, number)

    @cached_property
    def _features(self) -> Mapping[str, Any]:
        """The types of the columns; None where a file does not declare them."""
        return self._opened.features or dict.fromkeys(next(iter(self._opened), {}))

    @cached_property
    def _opened(self) -> Any:
        """The data set of the library, as a table or a stream."""
        try:
            from datasets import Image, load_dataset, load_dataset_builder
            from datasets.exceptions import DatasetNotFoundError
        except ImportError:
            raise ValueError(f"{self} needs the datasets library: pip install 'clearhead[data]'") from None
        name = self._check_name()
        try:
            size = load_dataset_builder(name, self.config, revision=self.revision).info.download_size or 0
            stream = self.revision is None or size > STREAM_BYTES  # a folder is read in place
            opened: Any = load_dataset(name, self.config, split=self.split, revision=self.revision, streaming=stream)
        except (DatasetNotFoundError, OSError, ValueError) as error:
            raise ValueError(f"{self} cannot be read: {' '.join(str(error).split())}") from error
        for column, feature in (opened.features or {}).items():
            if isinstance(feature, Image):
                opened = opened.cast_column(column, Image(decode=False))
        return opened

    def _check_name(self) -> str:
        """Return the name as the library takes it: of a folder, its absolute path."""
        if not self.name.startswith((".", "/", "~")):
            if self.revision is None:
                raise ValueError(f"{self} has no revision, and a data set can change: give the commit to read")
            return self.name
        folder = Path(self.name).expanduser().absolute()
        if not folder.is_dir():
            raise ValueError(f"{self}: there is no folder {folder}: check the path")
        if self.revision is not None:
            raise ValueError(f"{self} is a folder, which has no revision: remove revision")
        return str(folder)


def _decoder(feature: Any) -> Callable[[Any], Any]:
    """Return a function that replaces the numbers of labels by their names, also in lists."""
    inner = getattr(feature, "feature", None)
    name = getattr(feature if inner is None else inner, "int2str", None)
    if name is None:
        return lambda value: value

    def decode(number: Any) -> Any:
        return None if number is None or number < 0 else name(number)  # -1: the labels of a test set are not published

    return decode if inner is None else lambda numbers: [decode(number) for number in numbers]


def _values(record: Mapping[str, Any], wanted: Mapping[str, str], number: int) -> dict[str, Any] | RowError:
    """Return the values as readers of files give them: texts, lists of texts, an image, the spans of answers."""
    special: dict[str, Any] = {}
    for ours, theirs in wanted.items():
        value = record[theirs]
        if isinstance(value, dict) and cast(dict[str, Any], value).keys() == {"bytes", "path"}:
            special[ours] = _image(cast(dict[str, Any], value), number)
        elif ours == "answers" and isinstance(value, dict) and cast(dict[str, Any], value).keys() >= SPANS:
            spans = answer_spans(str(record[wanted.get("context", theirs)]), _by_answer(cast(dict[str, Any], value)))
            if isinstance(spans, str):
                return RowError(spans)
            special[ours] = spans
    texts = record_texts(record, {ours: theirs for ours, theirs in wanted.items() if ours not in special})
    return texts if isinstance(texts, RowError) else {ours: (texts | special)[ours] for ours in wanted}


def _by_answer(lists: Mapping[str, Any]) -> list[dict[str, Any]]:
    pairs = zip(lists["text"], lists["answer_start"], strict=True)
    return [{"text": text, "answer_start": start} for text, start in pairs]


def _image(value: Mapping[str, Any], number: int) -> ImageFile:
    path, content = Path(value["path"] or f"row {number}"), value["bytes"]
    return ImageFile(path.name, path.read_bytes() if content is None else content)
