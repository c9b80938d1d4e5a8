"""Names that stay inside, JSON within limits."""

from __future__ import annotations

import hashlib
import json
import os
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.files import MissingFile, parse_json, read_config, read_json, safe_join, sha256


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "model"
    (folder / "below").mkdir(parents=True)
    (folder / "config.json").write_text('{"a": 1}')
    (folder / "below" / "file").write_text("x")
    (tmp_path / "secret").write_text("secret")
    return folder


# inside


def test_files_of_the_folder(folder):
    assert safe_join(folder, "config.json") == folder / "config.json"
    assert safe_join(folder, "below/file") == folder / "below" / "file"


BAD = [
    "", ".", "..", "/", "/etc/passwd", "../secret", "below/../config.json", "below/../../secret", "./config.json",
    "below//file", "below/", "config.json\0", "below\\file", "C:\\x", "\\\\host\\x", "~/../secret", "below",
    "a" * 300, "a/" * 3000 + "a", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_names_that_are_refused(folder, name):
    with pytest.raises(ValueError, match=r"refused|missing"):
        safe_join(folder, name)


def test_a_backslash_is_refused_even_where_it_is_a_letter(folder):
    (folder / "below\\file").write_text("x")
    with pytest.raises(ValueError, match="is refused"):
        safe_join(folder, "below\\file")


@given(st.text(alphabet=["a", "b", ".", "/", "\\", "\0", "~", "é", "\ud800"], max_size=8))
def test_no_name_leads_outside(tmp_path_factory, name):
    folder = tmp_path_factory.getbasetemp() / "names"
    (folder / "b").mkdir(parents=True, exist_ok=True)
    (folder / "a").write_text("a")
    (folder.parent / "a").write_text("outside")
    try:
        path = safe_join(folder, name)
    except ValueError:
        return
    assert path.resolve().is_relative_to(folder.resolve())
    assert path.is_file()


def test_missing_is_a_kind_of_its_own(folder):
    with pytest.raises(MissingFile, match=r"'vocab.txt' is missing from"):
        safe_join(folder, "vocab.txt")
    with pytest.raises(MissingFile):
        safe_join(folder / "no such folder", "vocab.txt")


def test_links(folder):
    (folder / "to inside").symlink_to("below/file")
    (folder / "to outside").symlink_to("../secret")
    (folder / "to root").symlink_to("/")
    (folder / "to nothing").symlink_to("no such file")
    (folder / "to itself").symlink_to("to itself")
    (folder / "twice").symlink_to("to outside")
    assert safe_join(folder, "to inside").read_text() == "x"
    for name in ("to outside", "twice", "to root/etc/passwd"):
        with pytest.raises(ValueError, match="leads out of the folder"):
            safe_join(folder, name)
    with pytest.raises(MissingFile):
        safe_join(folder, "to nothing")
    with pytest.raises(ValueError, match="loop"):
        safe_join(folder, "to itself")


def test_the_folder_itself_may_be_a_link(folder):
    link = folder.with_name("link")
    link.symlink_to(folder)
    assert safe_join(link, "config.json").read_text() == '{"a": 1}'


def test_only_regular_files(folder):
    os.mkfifo(folder / "pipe")
    (folder / "device").symlink_to("/dev/null")
    for name in ("pipe", "below"):
        with pytest.raises(ValueError, match="not a regular file"):
            safe_join(folder, name)
    with pytest.raises(ValueError, match="leads out"):
        safe_join(folder, "device")


# The Hugging Face cache


@pytest.fixture
def snapshot(tmp_path):
    """A cache as huggingface_hub 2 lays it out: a plain blob, and one that lives in the cache's shared store."""
    cache = tmp_path / "hub"
    repository = cache / "models--x--y"
    snapshot = repository / "snapshots" / "0123abcd"
    shared = cache / "blobs" / "ab" / ("ab" * 32)
    for path in (repository / "blobs", snapshot / "below", shared.parent):
        path.mkdir(parents=True)
    shared.write_text("weights")
    (repository / "blobs" / "cafe").write_text('{"a": 1}')
    (repository / "blobs" / "beef").symlink_to(os.path.relpath(shared, repository / "blobs"))
    (snapshot / "config.json").symlink_to("../../blobs/cafe")
    (snapshot / "below" / "config.json").symlink_to("../../../blobs/cafe")
    (snapshot / "model.safetensors").symlink_to("../../blobs/beef")
    return snapshot


def test_snapshots_of_the_cache(snapshot):
    assert read_json(snapshot, "config.json") == {"a": 1}
    assert read_json(snapshot, "below/config.json") == {"a": 1}
    assert safe_join(snapshot, "model.safetensors").read_text() == "weights"


def test_a_cache_that_huggingface_hub_made(tmp_path):
    shared = pytest.importorskip("huggingface_hub.utils._shared_blobs")
    blob = tmp_path / "models--x--y" / "blobs" / "etag"
    snapshot = tmp_path / "models--x--y" / "snapshots" / "rev"
    blob.parent.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    blob.write_text("weights")
    published = shared.publish_blob_to_shared_store(
        blob_path=str(blob), xet_hash="ab" * 32, cache_dir=tmp_path, expected_size=7, replace_existing=False
    )
    assert published and blob.is_symlink()
    (snapshot / "model.safetensors").symlink_to("../../blobs/etag")
    assert safe_join(snapshot, "model.safetensors").read_text() == "weights"


@pytest.mark.parametrize(
    "target",
    [
        "../../../models--other/blobs/cafe",  # another repository's
        "../../blobs/below/deep",  # not directly among the blobs
        "../../refs/main",  # not a blob
        "../../../blobs/ab/abc",  # in the shared store, but not named by a hash
        "../../../blobs/" + "ab" * 32,  # not where the store keeps it
        "../../../../secret",
        "/etc/passwd",
        "../../blobs/out",  # a blob that is a link to elsewhere
        "../../blobs",
    ],
)
def test_other_links_of_a_snapshot_are_refused(snapshot, target):
    repository = snapshot.parent.parent
    cache = repository.parent
    for path in (
        cache / "models--other/blobs/cafe", repository / "blobs/below/deep", repository / "refs/main",
        cache / "blobs/ab/abc", cache / "blobs" / ("ab" * 32), cache.parent / "secret",
    ):  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret")
    (repository / "blobs" / "out").symlink_to("/etc/passwd")
    (snapshot / "file").symlink_to(target)
    with pytest.raises(ValueError, match=r"leads out|not a regular"):
        safe_join(snapshot, "file")


def test_blobs_are_for_snapshots_only(tmp_path):
    folder = tmp_path / "x" / "snapshots" / "rev"
    folder.mkdir(parents=True)
    (tmp_path / "x" / "blobs").mkdir()
    (tmp_path / "x" / "blobs" / "a").write_text("a")
    (folder / "a").symlink_to("../../blobs/a")
    with pytest.raises(ValueError, match="leads out"):
        safe_join(folder, "a")


# JSON


def test_json(folder):
    assert read_json(folder, "config.json") == {"a": 1}
    text = {"text": "[[[[" * 100, "quote": '"[[{', "backslash": "\\", "é": [1, -2.5e-3, True, None, {"x": []}]}
    assert parse_json(json.dumps(text).encode(), "here") == text
    assert parse_json(json.dumps(text, ensure_ascii=False).encode(), "here") == text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
@settings(max_examples=40)
def test_whatever_json_writes_is_read(value):
    data = json.dumps({"value": value}).encode()
    assert parse_json(data, "here") == {"value": value}


@given(st.binary(max_size=60) | st.text(alphabet='[]{}",:\\0ae-.', max_size=60).map(str.encode))
def test_anything_else_is_a_value_error(data):
    try:
        assert isinstance(parse_json(data, "the file"), dict)
    except ValueError as error:
        assert str(error).startswith("the file")  # noqa: PT017


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value"),
        ("[1]", "holds list, not an object"),
        ("null", "holds NoneType"),
        ('{"a": 1, "a": 1}', "'a' is given twice"),
        ('{"x": [{"a": 1, "a": 1}]}', "'a' is given twice"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": -Infinity}', "-Infinity is not a number"),
        ('{"a": 1e400}', "1e400 is too large"),
        ('{"a": ' + "1" * 4301 + "}", "4300 digits"),
        ('{"a": ' + "[" * 64 + "]" * 64 + "}", "nests deeper than 64"),
        ('{"a": ' + "[" * 100_000, "nests deeper than 64"),
        ("\ufeff{}", "BOM"),
        ('{"a": 1} x', "Extra data"),
    ],
)
def test_refused_json(folder, text, why):
    (folder / "config.json").write_text(text)
    with pytest.raises(ValueError, match=why) as refused:
        read_json(folder, "config.json")
    assert str(folder / "config.json") in str(refused.value)


def test_deep_json_is_refused_whatever_the_recursion_limit(folder):
    """The parser would overrun the stack of the process if the limit of the interpreter were its only one."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000_000)
    try:
        with pytest.raises(ValueError, match="nests deeper"):
            parse_json(b'{"a":' + b"[" * 1_000_000, "here")
    finally:
        sys.setrecursionlimit(before)


def test_64_levels_are_allowed():
    assert parse_json(('{"a": ' + "[" * 63 + "]" * 63 + "}").encode(), "here")


def test_not_utf8(folder):
    (folder / "config.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ValueError, match="not UTF-8: invalid start byte at byte 7"):
        read_json(folder, "config.json")


def test_the_size_is_looked_at_first(folder, monkeypatch):
    (folder / "config.json").write_text(json.dumps({"a": "x" * 100}))
    assert read_json(folder, "config.json", max_bytes=200)
    monkeypatch.setattr("pathlib.Path.read_bytes", lambda self: pytest.fail("it was read"))
    with pytest.raises(ValueError, match="109 bytes: more than the 100"):
        read_json(folder, "config.json", max_bytes=100)


def test_a_tokenizer_of_200_000_tokens_fits_where_it_is_allowed(folder):
    vocab = {"model": {"vocab": [[f"token {i}", -1.5] for i in range(200_000)]}}
    (folder / "tokenizer.json").write_text(json.dumps(vocab))
    assert read_json(folder, "tokenizer.json", max_bytes=64 << 20) == vocab
    with pytest.raises(ValueError, match="more than the"):
        read_json(folder, "tokenizer.json")


def test_auto_map(folder):
    assert read_config(folder) == {"a": 1}
    (folder / "config.json").write_text('{"auto_map": {"AutoModel": "x.Y"}}')
    with pytest.raises(ValueError, match=r"auto_map.*never"):
        read_config(folder)


def test_sha256(tmp_path):
    data = os.urandom(1_000_003)
    (tmp_path / "file").write_bytes(data)
    assert sha256(tmp_path / "file") == hashlib.sha256(data).hexdigest()
