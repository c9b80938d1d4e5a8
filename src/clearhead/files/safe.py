"""Safe reading of untrusted folders: no name leads outside the folder, and no file is read without a size limit.

The checks do not protect against changes to the folder while it is read.
"""

import hashlib
import json
import math
import re
import stat
from itertools import accumulate
from pathlib import Path
from typing import Any, NoReturn, overload

from clearhead.files.s3_path import MissingObject, S3Path
from clearhead.files.s3_streams import hash_object

MAX_JSON_BYTES = 4 << 20
MAX_DEPTH = 64

# matches complete strings, brackets included
_NO_BRACKETS = re.compile(rb'(?:"(?:[^"\\]++|\\.)*+"?|[^"\[\]{}]++)++', re.DOTALL)
_BLOB_NAME = re.compile(r"[0-9a-f]{64}")


class MissingFile(ValueError):
    """There is no such file in the folder."""


@overload
def safe_join(folder: str | Path, name: str) -> Path: ...
@overload
def safe_join(folder: S3Path, name: str) -> S3Path: ...
def safe_join(folder: str | Path | S3Path, name: str) -> Path | S3Path:
    """Returns the path of the regular file `name` in `folder`; raises ValueError for unsafe names.

    Refused are absolute names, `..`, NUL, backslashes, links that lead out of the folder, and anything but regular
    files (pipes, devices, folders); a file that does not exist raises `MissingFile`. The only links allowed out of the
    folder are those of the Hugging Face cache: from `models--x--y/snapshots/REVISION` to a file in
    `models--x--y/blobs`, or in the cache's shared blob store (`blobs/ab/ab...` next to the repositories).

    In an object store there are no links, and whether the object exists is not checked.
    """
    folder = folder if isinstance(folder, S3Path) else Path(folder)
    refused = f"{name!r:.200} in {folder} is refused: "
    parts = name.split("/")
    if "\0" in name or "\\" in name or any(part in ("", ".", "..") for part in parts):
        raise ValueError(refused + "a name must be relative and plain, without '..', '\\', NUL or empty parts")
    if isinstance(folder, S3Path):
        return folder / name
    path = folder.joinpath(*parts)
    try:
        root = folder.resolve(strict=True)
        real = path.resolve(strict=True)
    except FileNotFoundError:
        raise MissingFile(f"{name!r:.200} is missing from {folder}") from None
    except (OSError, RuntimeError, UnicodeError) as error:  # too long, a link loop, not encodable
        raise ValueError(f"{refused}{error!s:.200}") from None
    if not real.is_relative_to(root) and not _is_cache_blob(root, real):
        raise ValueError(refused + "it is a link that leads out of the folder; put the file itself there")
    if not stat.S_ISREG(real.stat().st_mode):
        raise ValueError(refused + "it is not a regular file")
    return path


def _is_cache_blob(root: Path, real: Path) -> bool:
    """Returns whether `real` is a blob of the Hugging Face cache for the snapshot `root`."""
    repository = root.parent.parent
    if root.parent.name != "snapshots" or not repository.name.startswith("models--"):
        return False
    shared = repository.parent / "blobs" / real.name[:2]
    return real.parent == repository / "blobs" or (
        real.parent == shared and _BLOB_NAME.fullmatch(real.name) is not None
    )


def read_json(folder: str | Path | S3Path, name: str, *, max_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """Reads the JSON object in a file of `folder`; every problem is a ValueError that names the file.

    Refused besides invalid JSON: more than `max_bytes`, nesting deeper than `MAX_DEPTH`, duplicate keys, a byte order
    mark, integers beyond Python's 4300 digits, and NaN, Infinity or numbers that overflow to it. JSON has no
    infinities; transformers 4 wrote them bare, transformers 5 writes `{"__float__": "Infinity"}`.
    """
    data = read_bytes(folder, name, max_bytes=max_bytes)
    return parse_json(data, f"{folder}/{name}", max_values=max(max_bytes, MAX_JSON_BYTES) // 4)


def read_bytes(folder: str | Path | S3Path, name: str, *, max_bytes: int = MAX_JSON_BYTES) -> bytes:
    """Reads a file of `folder`; raises ValueError if it is larger than `max_bytes`."""
    path = safe_join(folder, name)
    size = file_size(path)
    if size > max_bytes:
        raise ValueError(f"{path} has {size:,} bytes: more than the {max_bytes:,} allowed")
    return path.read_bytes()


def file_size(path: Path | S3Path) -> int:
    """Returns the size of a file in bytes."""
    if isinstance(path, Path):
        return path.stat().st_size
    try:
        return path.stored().size
    except MissingObject:
        raise MissingFile(f"{path.name!r:.200} is missing from {path.parent}") from None


def read_config(folder: str | Path) -> dict[str, Any]:
    """Reads `config.json` of a model folder; refuses one that asks to run its own code (`auto_map`)."""
    config = read_json(folder, "config.json")
    if "auto_map" in config:
        raise ValueError(
            f"{Path(folder) / 'config.json'} has an auto_map: the model needs Python code from its folder, "
            "which clearhead never runs; use a model of a built-in family"
        )
    return config


def parse_json(data: bytes, source: str, *, max_values: int = MAX_JSON_BYTES // 4) -> dict[str, Any]:
    """Parses a JSON object as strictly as `read_json`; errors name `source`."""
    try:
        _check_cost(data, max_values)
        value = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
        )
    except UnicodeDecodeError as error:
        raise ValueError(f"{source} is not UTF-8: {error.reason} at byte {error.start}") from None
    except ValueError as error:
        raise ValueError(f"{source} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{source} holds {type(value).__name__}, not an object: it must be {{...}}")
    return value


def _check_cost(data: bytes, max_values: int) -> None:
    """Refuses data that would exhaust the memory or the stack of the parser."""
    if sum(data.count(mark) for mark in (b",", b":", b"[", b"{")) > max_values:
        raise ValueError(f"it holds more than {max_values:,} values")
    brackets = _NO_BRACKETS.sub(b"", data)
    if max(accumulate(1 if b in b"[{" else -1 for b in brackets), default=0) > MAX_DEPTH:
        raise ValueError(f"it nests deeper than {MAX_DEPTH} levels")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {key!r:.100} is given twice")
        result[key] = value
    return result


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text:.40} is too large for a float")
    return value


def sha256(path: str | Path | S3Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal; of a folder, that of the names and hashes of its files."""
    if isinstance(path, S3Path):
        return hash_object(path)
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        listing = "".join(f"{file.relative_to(path).as_posix()}\0{sha256(file)}\n" for file in files)
        return hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest()
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
