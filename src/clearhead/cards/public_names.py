"""Names that may be published: of models on the hub, and of files, without the paths of this machine."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import Any, cast

_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_PATH = re.compile(
    r"(?<![\w:/.~])(?:~[\w.-]*)?/(?:[^\s/'\"|,;]+/)+[^\s/'\"|,;]*|\b[A-Za-z]:\\[^\s'\"|,;]+|\\\\[^\s'\"|,;]+"
)
_DATASET_FILE = re.compile(r"[a-z][a-z0-9_]+:[^/\\].*", re.DOTALL)


def is_hub_name(source: str) -> bool:
    """Returns whether this could be the name of a model on the hub."""
    return _NAME.fullmatch(source) is not None and not source.startswith(".") and not Path(source).exists()


def without_paths(value: Any) -> Any:
    """Return JSON values in which every absolute path is shortened to its last name."""
    if isinstance(value, str):
        return _PATH.sub(lambda match: PureWindowsPath(match[0]).name, value)
    if isinstance(value, Mapping):
        return {name: without_paths(item) for name, item in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [without_paths(item) for item in cast(Sequence[Any], value)]
    return value


def file_label(reference: str) -> str:
    """Return how a card names a data file: a file of a named data set in full, any other by its last name."""
    if _DATASET_FILE.fullmatch(reference):
        return reference
    return PureWindowsPath(reference).name or "."
