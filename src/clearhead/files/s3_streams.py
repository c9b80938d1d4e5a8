"""Streams to and from objects of a store: uploads in parts that are hashed on the way, and reads of ranges ahead."""

from __future__ import annotations

import hashlib
import io
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from clearhead.files.s3_path import S3Path, StoredObject, connect, store_errors

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

PART_BYTES = 16 << 20
PARTS_PER_SIZE = 1000  # parts of one size; the next have twice as many bytes, as a store takes 10,000 parts
PARALLEL_PARTS = 4
CHUNK_BYTES = 8 << 20
CACHED_CHUNKS = 8
CHUNKS_AHEAD = 4


class S3Writer(io.RawIOBase):
    """Writes an object in parts, several at a time. It exists when `close` returns, and not after `abort`."""

    def __init__(self, path: S3Path) -> None:
        super().__init__()
        self.path, self.size = path, 0
        self._hash = hashlib.sha256()
        self._buffer = bytearray()
        self._upload: str | None = None
        self._parts: list[Future[str]] = []
        self._pool = ThreadPoolExecutor(PARALLEL_PARTS, thread_name_prefix="upload")

    @property
    def sha256(self) -> str:
        """The hash of what was written so far."""
        return self._hash.hexdigest()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data).cast("B")
        self._hash.update(view)
        self.size += len(view)
        self._buffer += view
        while len(self._buffer) >= (size := PART_BYTES << len(self._parts) // PARTS_PER_SIZE):
            self._send(bytes(memoryview(self._buffer)[:size]))
            del self._buffer[:size]
        return len(view)

    def close(self) -> None:
        """Complete the object."""
        if self.closed:
            return
        try:
            if self._upload is None:
                self.path.write_bytes(bytes(self._buffer))
            else:
                if self._buffer:
                    self._send(bytes(self._buffer))
                parts = [{"ETag": part.result(), "PartNumber": n} for n, part in enumerate(self._parts, 1)]
                with store_errors(self.path):
                    connect().complete_multipart_upload(
                        Bucket=self.path.bucket, Key=self.path.key, UploadId=self._upload,
                        MultipartUpload={"Parts": parts},
                    )  # fmt: skip
        except BaseException:
            self.abort()
            raise
        self._end()

    def abort(self) -> None:
        """Give the upload up; parts that the store has already are deleted there."""
        if self.closed:
            return
        for part in self._parts:
            part.cancel()
        self._end()
        if self._upload is not None:
            with suppress(ValueError):  # else the next checkpoint cleans up
                self.path.parent.abort_upload(self.path.name, self._upload)

    def _end(self) -> None:
        self._pool.shutdown(wait=True)
        self._buffer = bytearray()
        super().close()

    def _send(self, data: bytes) -> None:
        if self._upload is None:
            with store_errors(self.path):
                answer = connect().create_multipart_upload(Bucket=self.path.bucket, Key=self.path.key)
            self._upload = str(answer["UploadId"])
        if len(self._parts) >= PARALLEL_PARTS:
            self._parts[-PARALLEL_PARTS].result()  # limits the memory, and reports a failure early
        self._parts.append(self._pool.submit(self._put, self._upload, len(self._parts) + 1, data))

    def _put(self, upload: str, number: int, data: bytes) -> str:
        with store_errors(self.path):
            answer: Any = connect().upload_part(
                Bucket=self.path.bucket, Key=self.path.key, UploadId=upload, PartNumber=number, Body=data
            )
        return str(answer["ETag"])


class S3Reader(io.RawIOBase):
    """Reads an object in chunks, of which some are kept and the next are requested ahead."""

    def __init__(self, path: S3Path, stored: StoredObject | None = None) -> None:
        super().__init__()
        self.path, self._at = path, 0
        self._stored = path.stored() if stored is None else stored
        self._chunks: OrderedDict[int, Future[bytes]] = OrderedDict()
        self._last = -1
        self._pool = ThreadPoolExecutor(CHUNKS_AHEAD, thread_name_prefix="read-ahead")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._stored.size}[whence]
        return self._at

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the buffer, unless the object ends before; torch does not ask twice."""
        view, done = memoryview(buffer).cast("B"), 0
        while done < len(view) and self._at < self._stored.size:
            number, first = divmod(self._at, CHUNK_BYTES)
            data = memoryview(self._chunk(number))[first : first + len(view) - done]
            view[done : done + len(data)] = data
            done += len(data)
            self._at += len(data)
        return done

    def close(self) -> None:
        if not self.closed:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._chunks.clear()
        super().close()

    def _chunk(self, number: int) -> bytes:
        chunk = self._request(number)
        if number == self._last + 1:  # read in sequence
            for ahead in range(number + 1, number + CHUNKS_AHEAD):
                if ahead * CHUNK_BYTES < self._stored.size:
                    self._request(ahead)
        self._last = number
        return chunk.result()

    def _request(self, number: int) -> Future[bytes]:
        if number not in self._chunks:
            first, etag = number * CHUNK_BYTES, self._stored.etag
            end = min(first + CHUNK_BYTES, self._stored.size)
            self._chunks[number] = self._pool.submit(self.path.read_bytes, first, end, etag)
            if len(self._chunks) > CACHED_CHUNKS:
                self._chunks.popitem(last=False)
        self._chunks.move_to_end(number)
        return self._chunks[number]


def hash_object(path: S3Path, stored: StoredObject | None = None) -> str:
    """Return the SHA-256 of an object."""
    with S3Reader(path, stored) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
