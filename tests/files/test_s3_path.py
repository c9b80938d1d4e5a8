"""Objects as files: names, conditional puts, streams, and errors that say what to do."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.request import Request, urlopen

import pytest

from clearhead.files import s3_path, s3_streams
from clearhead.files.s3_path import CommitConflict, MissingObject, S3Path, folder_at
from clearhead.files.s3_streams import S3Reader, S3Writer, hash_object


def test_addresses():
    path = S3Path.parse("s3://my-bucket/a/b/")
    assert (path.bucket, path.key, path.name, str(path.parent)) == ("my-bucket", "a/b", "b", "s3://my-bucket/a")
    assert str(path / "c") == "s3://my-bucket/a/b/c" and str(S3Path.parse("s3://my-bucket")) == "s3://my-bucket/"
    assert path.with_name("c").key == "a/c" and folder_at("s3://my-bucket/a/b") == path
    for wrong in ("s3://", "s3://a", "s3:///x", "s3:/bucket/x", "s3://bucket//x", "s3://bucket/a/../b", "/tmp"):
        with pytest.raises(ValueError, match="s3://BUCKET/PREFIX"):
            S3Path.parse(wrong)


def test_objects_of_a_prefix(bucket):
    folder = bucket / "run"
    for name in ("a", "b/c"):
        (folder / name).write_bytes(name.encode())
    (bucket / "run-2").write_bytes(b"elsewhere")
    assert {name: file.size for name, file in folder.files().items()} == {"a": 1, "b/c": 3}
    assert (folder / "b/c").read_bytes() == b"b/c" and (folder / "b/c").read_bytes(1, 3) == b"/c"
    folder.remove(["a"])
    assert list(folder.files()) == ["b/c"]
    with pytest.raises(MissingObject, match="missing from the store"):
        (folder / "a").read_bytes()
    with pytest.raises(MissingObject):
        (folder / "a").stored()


def test_a_conditional_put_succeeds_once(bucket):
    path = bucket / "commit"
    etag = path.commit_bytes(b"1")
    for replaced in (None, '"other"'):
        with pytest.raises(CommitConflict, match="nothing was changed"):
            path.commit_bytes(b"2", replaced)
    assert path.read_bytes() == b"1"
    assert path.commit_bytes(b"1") == etag, "a put that is repeated because its answer was lost is no conflict"
    path.commit_bytes(b"3", etag)
    assert path.read_bytes() == b"3"
    with pytest.raises(CommitConflict):
        (bucket / "gone").commit_bytes(b"4", etag)


def test_of_many_that_race_one_wins(bucket):
    start = threading.Barrier(8)

    def put(i: int) -> bool:
        start.wait()
        try:
            (bucket / "commit").commit_bytes(b"%d" % i)
        except CommitConflict:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(put, range(8)))
    assert sum(won) == 1 and (bucket / "commit").read_bytes() == b"%d" % won.index(True)


@pytest.mark.parametrize("size", [0, 1000, 70_000, 300_000])
def test_streams(bucket, monkeypatch, size):
    monkeypatch.setattr(s3_streams, "PART_BYTES", 1 << 16)
    monkeypatch.setattr(s3_streams, "CHUNK_BYTES", 1 << 14)
    data, path = os.urandom(size), bucket / "large"
    with S3Writer(path) as writer:
        for i in range(0, size, 7001):
            writer.write(data[i : i + 7001])
    assert (writer.size, writer.sha256) == (size, hashlib.sha256(data).hexdigest())
    assert path.read_bytes() == data and hash_object(path) == writer.sha256
    with S3Reader(path) as reader:
        assert reader.read() == data
        for place in (0, size // 2, max(0, size - 10)):
            reader.seek(place)
            assert reader.read(10) == data[place : place + 10]


def test_an_upload_that_is_given_up_leaves_nothing(bucket, monkeypatch):
    monkeypatch.setattr(s3_streams, "PART_BYTES", 1 << 16)
    writer = S3Writer(bucket / "a" / "large")
    writer.write(bytes(200_000))
    assert [name for name, _ in (bucket / "a").unfinished_uploads()] == ["large"]
    writer.abort()
    assert list((bucket / "a").unfinished_uploads()) == [] and (bucket / "a").files() == {}


def test_another_object_under_the_same_name_is_not_read(bucket):
    path = bucket / "x"
    path.write_bytes(b"first")
    with S3Reader(path) as reader:
        path.write_bytes(b"other")
        with pytest.raises(ValueError, match="was changed by another process"):
            reader.read()


@pytest.fixture
def reconnect() -> Iterator[Callable[[], None]]:
    """Makes the next request with the environment of now."""
    yield s3_path._client.cache_clear
    s3_path._client.cache_clear()


# What is wrong with the store, the credentials, the network


def test_no_such_bucket(bucket):
    with pytest.raises(ValueError, match=r"no such bucket at http://.*: create it"):
        S3Path.parse("s3://other-bucket/run").check_access()


def test_no_server(bucket, monkeypatch, reconnect):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    reconnect()
    with pytest.raises(ValueError, match=r"127\.0\.0\.1:9 cannot be reached .*: check AWS_ENDPOINT_URL"):
        bucket.check_access()


def test_no_credentials(bucket, monkeypatch, tmp_path, reconnect):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    reconnect()
    with pytest.raises(ValueError, match="there are no credentials: set AWS_ACCESS_KEY_ID"):
        bucket.check_access()


def test_wrong_credentials(bucket, s3_endpoint):
    def check_requests(after: str) -> None:
        address, kind = f"{s3_endpoint}/moto-api/reset-auth", {"Content-Type": "text/plain"}
        urlopen(Request(address, after.encode(), kind, method="POST")).close()

    check_requests("0")
    try:
        with pytest.raises(ValueError, match="does not know the access key: check AWS_ACCESS_KEY_ID"):
            bucket.check_access()
    finally:
        check_requests("inf")
    bucket.check_access()


def test_without_boto3(bucket, monkeypatch, reconnect):
    monkeypatch.setitem(__import__("sys").modules, "boto3.session", None)
    reconnect()
    with pytest.raises(ValueError, match=r"pip install 'clearhead\[s3\]'"):
        bucket.check_access()
