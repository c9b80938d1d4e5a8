"""Images as rows: a folder or tar file with a folder for each label, or a table with the paths of images."""

import hashlib
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from clearhead.data.rows import Row, SkippedRow
from clearhead.vision.image_files import MAX_BYTES, SUFFIXES

FOLDER = "folder"  # the label of an image is the name of its folder


@dataclass(frozen=True)
class ImageFile:
    """The content of an image file, not yet decoded."""

    name: str
    content: bytes

    @cached_property
    def _sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def __str__(self) -> str:
        return self._sha256  # equal images stay together where rows are split


def is_image_source(source: Path) -> bool:
    """Return whether this is a folder or a tar file."""
    return source.is_dir() or any(suffix in (".tar", ".tgz") for suffix in source.suffixes)


def image_rows(source: Path, columns: Mapping[str, str]) -> Iterator[Row | SkippedRow]:
    """Yield the images below `columns["image"]` of a folder or tar file; labels are the names of their folders."""
    prefix = PurePosixPath(columns["image"])
    if prefix.is_absolute() or ".." in prefix.parts:
        raise ValueError(f"image is {columns['image']!r}: give a folder inside {source}, or . for all of it")
    labeled = {name for name, value in columns.items() if value == FOLDER}
    if unknown := set(columns) - labeled - {"image"}:
        name = sorted(unknown)[0]
        raise ValueError(f"{name} is {columns[name]!r}: of images in folders it can only be {FOLDER!r}")
    files = _tar(source, prefix) if source.is_file() else _folder(source, prefix)
    for number, found in enumerate(files, 1):
        if isinstance(found, str):
            yield SkippedRow(str(source), number, found)
        else:
            label = PurePosixPath(found.name).parent.name
            yield Row({"image": found, **dict.fromkeys(labeled, label)}, str(source), number)


def single_image(path: Path) -> Iterator[Row | SkippedRow]:
    """Yield one image as a row."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}: check the path")
    found = _read(path, path.name)
    yield SkippedRow(str(path), 1, found) if isinstance(found, str) else Row({"image": found}, str(path), 1)


def with_image_name(row: Row | SkippedRow) -> Row | SkippedRow:
    """Add the name of the image as the id of its row."""
    if isinstance(row, SkippedRow):
        return row
    return Row({**row.values, "id": row.values["image"].name}, row.file, row.line)


def with_images(rows: Iterator[Row | SkippedRow], base: Path) -> Iterator[Row | SkippedRow]:
    """Replace the path in the column `image` of a table's rows, relative to `base`, by the image."""
    for row in rows:
        if isinstance(row, SkippedRow):
            yield row
            continue
        name = str(row.values["image"])
        try:
            found = _read(base / name, name) if (base / name).is_file() else f"there is no file {base / name}"
        except (OSError, ValueError) as error:
            found = f"{name}: {error}"
        if isinstance(found, str):
            yield SkippedRow(row.file, row.line, found, {n: v for n, v in row.values.items() if n != "image"})
        else:
            yield Row({**row.values, "image": found}, row.file, row.line)


def _read(path: Path, name: str) -> ImageFile | str:
    size = path.stat().st_size
    if size > MAX_BYTES:
        return f"{name}: {size:,} bytes are more than {MAX_BYTES:,}"
    return ImageFile(name, path.read_bytes())


def _folder(source: Path, prefix: PurePosixPath) -> Iterator[ImageFile | str]:
    top = source / prefix
    if not top.is_dir():
        raise ValueError(f"there is no folder {top}")
    for path in sorted(top.rglob("*")):
        if path.suffix.lower() in SUFFIXES and path.is_file() and not path.is_symlink():
            yield _read(path, path.relative_to(source).as_posix())


def _tar(source: Path, prefix: PurePosixPath) -> Iterator[ImageFile | str]:
    with tarfile.open(source) as archive:
        for member in archive:
            name = PurePosixPath(member.name)
            if not member.isfile() or name.suffix.lower() not in SUFFIXES or not _below(name, prefix):
                continue
            if member.size > MAX_BYTES:
                yield f"{name}: {member.size:,} bytes are more than {MAX_BYTES:,}"
                continue
            file = archive.extractfile(member)
            assert file is not None
            yield ImageFile(str(name), file.read())


def _below(name: PurePosixPath, prefix: PurePosixPath) -> bool:
    return prefix == PurePosixPath(".") or prefix in name.parents
