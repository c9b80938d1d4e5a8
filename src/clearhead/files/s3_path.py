"""`s3://bucket/prefix`: objects of a store with the S3 protocol as files of folders, through boto3.

Credentials and endpoint are those of the AWS tools: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or a profile,
AWS_REGION, AWS_ENDPOINT_URL. A store has no folders and no rename: a folder is a prefix, and what is written becomes
valid by a conditional put of one object, which fails if another process was faster.
"""

import os
import re
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

SCHEME = "s3://"
CONNECT_TIMEOUT_S = 10
READ_TIMEOUT_S = 60
FIRST_ATTEMPTS = 2  # of a request that finds out whether the store can be reached
ATTEMPTS = 10  # of all others, with growing pauses: about a minute
CONNECTIONS = 32
MAX_DELETED = 1000  # in one request
CONFLICT_RETRIES = 5

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")


class MissingObject(ValueError):
    """There is no such object in the store."""


class CommitConflict(ValueError):
    """Another process wrote the object first; nothing was changed."""


@dataclass(frozen=True)
class StoredObject:
    """Size of an object and its entity tag, which is another one for other content."""

    size: int
    etag: str


@dataclass(frozen=True, order=True)
class S3Path:
    """An object of a store, or a prefix of objects."""

    bucket: str
    key: str = ""

    @classmethod
    def parse(cls, address: str) -> Self:
        """Return the path of an address `s3://bucket/prefix`."""
        bucket, _, key = address.removeprefix(SCHEME).partition("/")
        parts = key.rstrip("/").split("/") if key.rstrip("/") else []
        if not address.startswith(SCHEME) or not _BUCKET.fullmatch(bucket):
            raise ValueError(f"{address!r} is not the address of an object store: write s3://BUCKET/PREFIX")
        if any(part in ("", ".", "..") for part in parts):
            raise ValueError(f"{address!r} has empty parts or '..' in its prefix: write s3://BUCKET/PREFIX")
        return cls(bucket, "/".join(parts))

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.key}"

    def __truediv__(self, name: str) -> Self:
        return type(self)(self.bucket, f"{self.key}/{name}" if self.key else name)

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2] or self.bucket

    @property
    def parent(self) -> Self:
        return type(self)(self.bucket, self.key.rpartition("/")[0])

    def with_name(self, name: str) -> Self:
        return self.parent / name

    def check_access(self) -> None:
        """Raise an error that says what to do if the store cannot be reached or its bucket cannot be read."""
        with store_errors(self):
            connect(FIRST_ATTEMPTS).list_objects_v2(Bucket=self.bucket, Prefix=self.key, MaxKeys=1)

    def files(self) -> dict[str, StoredObject]:
        """Return all objects below this prefix by their names relative to it."""
        prefix = f"{self.key}/" if self.key else ""
        pages = connect().get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        with store_errors(self):
            return {
                item["Key"].removeprefix(prefix): StoredObject(int(item["Size"]), item["ETag"])
                for page in pages
                for item in page.get("Contents", ())
                if item["Key"] != prefix
            }

    def stored(self) -> StoredObject:
        """Return the size and entity tag of this object; raises `MissingObject`."""
        with store_errors(self):
            answer = connect().head_object(Bucket=self.bucket, Key=self.key)
        return StoredObject(int(answer["ContentLength"]), answer["ETag"])

    def exists(self) -> bool:
        """Return whether there is such an object."""
        try:
            self.stored()
        except MissingObject:
            return False
        return True

    def read_bytes(self, first: int | None = None, end: int | None = None, etag: str | None = None) -> bytes:
        """Return the content, or its bytes from `first` to before `end`; with `etag`, of this content alone."""
        extra = {} if etag is None else {"IfMatch": etag}
        if first is not None and end is not None:
            if first >= end:
                return b""
            extra["Range"] = f"bytes={first}-{end - 1}"
        with store_errors(self):
            for attempt in range(ATTEMPTS):
                try:
                    return connect().get_object(Bucket=self.bucket, Key=self.key, **extra)["Body"].read()
                except _broken_bodies():  # the SDK repeats requests, not the reading of their bodies
                    if attempt == ATTEMPTS - 1:
                        raise
                    time.sleep(min(2**attempt * 0.1, 10))
        raise AssertionError

    def write_bytes(self, data: bytes) -> None:
        with store_errors(self):
            connect().put_object(Bucket=self.bucket, Key=self.key, Body=data)

    def commit_bytes(self, data: bytes, replaced: str | None = None) -> str:
        """Write the object if it does not exist, or still has the entity tag `replaced`; return its new entity tag.

        Otherwise raises `CommitConflict`. Of several processes that try, one succeeds. The data must not be the same
        for two of them.
        """
        condition = {"IfNoneMatch": "*"} if replaced is None else {"IfMatch": replaced}
        for attempt in range(CONFLICT_RETRIES):
            try:
                with store_errors(self):
                    answer = connect().put_object(Bucket=self.bucket, Key=self.key, Body=data, **condition)
                return answer["ETag"]
            except _Overlap:  # another request to the same object is in progress, and may yet fail
                time.sleep(0.1 * 2**attempt)
            except (_Refused, MissingObject):
                break
        try:
            stored = self.stored()  # the answer of a put that succeeded may have been lost, and the put repeated
            if stored.size == len(data) and self.read_bytes(etag=stored.etag) == data:
                return stored.etag
        except MissingObject:
            pass
        raise CommitConflict(f"{self} was written by another process in the meantime; nothing was changed")

    def copy_to(self, target: "S3Path") -> None:
        with store_errors(self):
            source = {"Bucket": self.bucket, "Key": self.key}
            connect().copy_object(Bucket=target.bucket, Key=target.key, CopySource=source)

    def unlink(self) -> None:
        """Delete this object, if it exists."""
        with store_errors(self):
            connect().delete_object(Bucket=self.bucket, Key=self.key)

    def remove(self, names: Iterable[str]) -> None:
        """Delete objects by their names relative to this prefix."""
        keys = [{"Key": (self / name).key} for name in names]
        for i in range(0, len(keys), MAX_DELETED):
            with store_errors(self):
                answer = connect().delete_objects(
                    Bucket=self.bucket, Delete={"Objects": keys[i : i + MAX_DELETED], "Quiet": True}
                )
            for error in answer.get("Errors", ()):
                raise ValueError(f"{SCHEME}{self.bucket}/{error['Key']} cannot be deleted: {error.get('Message')}")

    def unfinished_uploads(self) -> Iterator[tuple[str, str]]:
        """Yield the name, relative to this prefix, and the id of each upload in parts that was not completed."""
        pages = connect().get_paginator("list_multipart_uploads")
        prefix = f"{self.key}/"
        with store_errors(self):
            for page in pages.paginate(Bucket=self.bucket, Prefix=prefix):
                for upload in page.get("Uploads", ()):
                    yield upload["Key"].removeprefix(prefix), upload["UploadId"]

    def abort_upload(self, name: str, upload: str) -> None:
        with store_errors(self):
            connect().abort_multipart_upload(Bucket=self.bucket, Key=(self / name).key, UploadId=upload)


def is_s3(source: object) -> bool:
    """Return whether this is the address of an object store."""
    return isinstance(source, S3Path) or (isinstance(source, str) and source.startswith(SCHEME))


def folder_at(address: str | Path | S3Path) -> Path | S3Path:
    """Return the folder of an address: in an object store if it begins with `s3://`, else on disk."""
    if isinstance(address, str):
        return S3Path.parse(address) if is_s3(address) else Path(address)
    return address


def connect(attempts: int = ATTEMPTS) -> Any:
    """Return the client of this process."""
    return _client(attempts, os.getpid())


@cache
def _client(attempts: int, process: int) -> Any:
    try:
        from boto3.session import Session
        from botocore.config import Config
    except ImportError:
        raise ValueError("object stores (s3://) require boto3: pip install 'clearhead[s3]'") from None
    config = Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        max_pool_connections=CONNECTIONS,
        retries={"mode": "standard", "total_max_attempts": attempts},
    )
    with store_errors(SCHEME):
        # A session of its own: the default one may be created by two threads at once.
        return Session().client("s3", config=config)


class _Refused(ValueError):
    """The condition of a put does not hold."""


class _Overlap(ValueError):
    """A conditional put came together with another request to the same object."""


def _broken_bodies() -> tuple[type[Exception], ...]:
    from botocore.exceptions import IncompleteReadError, ReadTimeoutError, ResponseStreamingError

    return IncompleteReadError, ReadTimeoutError, ResponseStreamingError


@contextmanager
def store_errors(path: object) -> Generator[None]:
    """Turn the errors of boto3 into errors that name the object and say what to do."""
    try:
        yield
    except ImportError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("boto3", "botocore", "urllib3"):
            raise
        raise _explain(path, error) from error


_ADVICE = {
    "NoSuchBucket": "there is no such bucket at {endpoint}: create it, or correct the address",
    "InvalidAccessKeyId": "the store does not know the access key: check AWS_ACCESS_KEY_ID or AWS_PROFILE",
    "SignatureDoesNotMatch": "the secret key is wrong: check AWS_SECRET_ACCESS_KEY or AWS_PROFILE",
    "ExpiredToken": "the session token has expired: renew the credentials and run the command again",
    "InvalidToken": "the session token is wrong: check AWS_SESSION_TOKEN",
    "AccessDenied": "access is denied: the credentials need the rights to list, read, write and delete there",
    "PermanentRedirect": "the bucket is in another region: set AWS_REGION",
    "AuthorizationHeaderMalformed": "the bucket is in another region: set AWS_REGION",
    "NotImplemented": "the store does not implement this request (conditional puts are required)",
}
_BY_STATUS = {"403": "AccessDenied", "301": "PermanentRedirect", "501": "NotImplemented"}


def _explain(path: object, error: Exception) -> ValueError:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or "AWS"
    answer: dict[str, Any] = getattr(error, "response", None) or {}
    code = str(answer.get("Error", {}).get("Code", ""))
    status = str(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))
    if code == "PreconditionFailed" or status == "412":
        return _Refused(f"{path} was changed by another process")
    if code == "ConditionalRequestConflict" or status == "409":
        return _Overlap(f"{path} is being changed by another process")
    if code in ("NoSuchKey", "404"):
        return MissingObject(f"{path} is missing from the store")
    code = code if code in _ADVICE else _BY_STATUS.get(code, code)
    if code in _ADVICE:
        return ValueError(f"{path}: {_ADVICE[code].format(endpoint=endpoint)}")
    match type(error).__name__:
        case "NoCredentialsError" | "PartialCredentialsError":
            reason = "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run `aws configure`"
        case "ProfileNotFound" | "ConfigParseError" | "TokenRetrievalError" | "UnauthorizedSSOTokenError":
            reason = f"{error}: check AWS_PROFILE and ~/.aws/config"
        case "EndpointConnectionError" | "ConnectTimeoutError" | "ConnectionClosedError" | "ProxyConnectionError":
            reason = f"the store at {endpoint} cannot be reached ({error}): check AWS_ENDPOINT_URL and the network"
        case "InvalidRegionError" | "NoRegionError":
            reason = f"{error}: set AWS_REGION"
        case "SSLError":
            reason = f"{error}: check AWS_ENDPOINT_URL (http or https) and AWS_CA_BUNDLE"
        case _:
            reason = f"{error}"
    return ValueError(f"{path}: {reason}")
