"""The chunks of an ArrayRecord file, one of which holds a block: where they are, and their content without the file.

ArrayRecord stores its records in the file format of Riegeli
(https://github.com/google/riegeli/blob/master/doc/riegeli_records_file_format.md) and reads whole local files. With the
place of each chunk, a block is one range of an object in a store.
"""

import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

BLOCK_BYTES = 1 << 16  # a header interrupts the chunks wherever the file has so many bytes
BLOCK_HEADER_BYTES = 24
CHUNK_HEADER = struct.Struct("<QQQQQ")  # hash, data size, hash of the data, records and type, decoded size
RECORDS = ord("r")  # type of a chunk with records
ZSTD = ord("z")

ChunkTable = npt.NDArray[np.uint64]
"""(n, 3): first byte of each record's chunk, the byte after it, and the CRC-32 of the record."""


def chunk_table(path: Path, checksums: Sequence[int]) -> ChunkTable:
    """Return the places of the first chunks of a file, one for each of these checksums."""
    rows: list[tuple[int, int, int]] = []
    with path.open("rb") as file:

        def read(first: int, end: int) -> bytes:
            file.seek(first)
            return file.read(end - first)

        at = 0
        for checksum in checksums:
            kind, _, end = _header(read, at)
            while kind != RECORDS:  # the signature of the file
                at = end
                kind, _, end = _header(read, at)
            rows.append((at, end, checksum))
            at = end
    return np.array(rows, dtype="<u8").reshape(-1, 3)


def record_of(data: bytes, place: Sequence[int]) -> bytes:
    """Return the record of a chunk from its bytes in the file and its row of the table; ValueError if damaged."""
    first, end, checksum = place
    try:
        if len(data) != end - first:
            raise ValueError
        kind, content, _ = _header(lambda a, b: data[a - first : b - first], first)
        record = _only_record(content()) if kind == RECORDS else b""
        if zlib.crc32(record) != checksum:
            raise ValueError
    except (ValueError, IndexError, struct.error):
        raise ValueError("its bytes were changed: the checksum differs") from None
    return record


def _header(read: Callable[[int, int], bytes], at: int) -> tuple[int, Callable[[], bytes], int]:
    """Return the type of the chunk at a place, what reads its data, and where the next chunk begins."""
    header, begin = _spanned(read, at, CHUNK_HEADER.size)
    _, size, _, counts, _ = CHUNK_HEADER.unpack(header)
    return counts & 0xFF, lambda: _spanned(read, begin, size)[0], _end(begin, size)


def _spanned(read: Callable[[int, int], bytes], at: int, size: int) -> tuple[bytes, int]:
    """Return bytes of chunks from a place on, without the headers between them, and where they end."""
    end = _end(at, size)
    data, parts = read(at, end), list[bytes]()
    here = at
    while here < end:
        here += BLOCK_HEADER_BYTES if here % BLOCK_BYTES == 0 else 0
        stop = min(end, (here // BLOCK_BYTES + 1) * BLOCK_BYTES)
        parts.append(data[here - at : stop - at])
        here = stop
    return b"".join(parts), end


def _end(at: int, size: int) -> int:
    """Return where `size` bytes of chunks end that begin at a place."""
    while size:
        at += BLOCK_HEADER_BYTES if at % BLOCK_BYTES == 0 else 0
        step = min(size, BLOCK_BYTES - at % BLOCK_BYTES)
        at, size = at + step, size - step
    return at


def _only_record(content: bytes) -> bytes:
    """Return the record of a chunk that has one: sizes, then values, each compressed with zstd."""
    if content[0] != ZSTD:
        raise ValueError
    sizes_bytes, at = _varint(content, 1)
    return _unzipped(content[at + sizes_bytes :])


def _unzipped(data: bytes) -> bytes:
    try:
        from zstandard import ZstdDecompressor, ZstdError
    except ImportError:
        raise ImportError("shards in an object store require zstandard: pip install 'clearhead[s3]'") from None
    size, at = _varint(data, 0)
    try:
        return ZstdDecompressor().decompress(data[at:], max_output_size=size)
    except ZstdError:
        raise ValueError from None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at
