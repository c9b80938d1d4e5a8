"""Headers of safetensors files; which file holds which tensor. What is refused is in hostile.py too."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save
from safetensors.torch import _SIZE, save_file

from clearhead.files import read_header, weight_files
from clearhead.files.tensors import ITEMSIZE

DTYPES = [np.float32, np.float64, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_]


@given(st.dictionaries(
    st.text(min_size=1, max_size=20).filter(lambda n: n != "__metadata__" and n.isprintable()),
    st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=4)),
    max_size=8,
))  # fmt: skip
def test_what_safetensors_writes_is_read(tmp_path_factory, tensors):
    path = tmp_path_factory.getbasetemp() / "x.safetensors"
    arrays = {name: np.ones(shape, dtype) for name, (dtype, shape) in tensors.items()}
    path.write_bytes(save(arrays, metadata={"format": "np"}))
    header = read_header(path)
    assert {n: t.shape for n, t in header.items()} == {n: a.shape for n, a in arrays.items()}
    assert all(t.end - t.begin == arrays[n].nbytes for n, t in header.items())


def test_every_dtype_of_torch_that_safetensors_writes(tmp_path):
    dtypes = [d for d in _SIZE if d is not None and "float4" not in str(d)]
    save_file(
        {
            str(d): torch.zeros(3, 2, dtype=torch.uint8).to(d) if "float8" not in str(d) else torch.zeros(3, 2, dtype=d)
            for d in dtypes
        },
        tmp_path / "x",
    )
    header = read_header(tmp_path / "x")
    assert {n: t.end - t.begin for n, t in header.items()} == {str(d): 6 * _SIZE[d] for d in dtypes}
    assert {t.dtype for t in header.values()} == set(ITEMSIZE)


def test_the_bytes_are_where_it_says(tmp_path):
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    data = save({"a": array, "b": array * 2})
    (tmp_path / "x").write_bytes(data)
    start = 8 + struct.unpack("<Q", data[:8])[0]
    info = read_header(tmp_path / "x")["b"]
    assert (np.frombuffer(data[start + info.begin : start + info.end], np.int32).reshape(info.shape) == array * 2).all()


def test_no_tensors_at_all(tmp_path):
    (tmp_path / "x").write_bytes(struct.pack("<Q", 2) + b"{}")
    assert read_header(tmp_path / "x") == {}


@given(st.data())
def test_what_we_accept_safetensors_accepts(tmp_path_factory, data):
    """Change a good header at random: never are we more lenient than the library."""
    good = save({"a": np.zeros((2, 3), np.float32), "b": np.zeros(4, np.int64), "c": np.zeros(0, np.float16)})
    length = struct.unpack("<Q", good[:8])[0]
    at = data.draw(st.integers(0, 8 + length - 1))
    byte = data.draw(st.integers(0, 255) | st.sampled_from(list(b'0123456789[]{},:" -.e')))
    bad = good[:at] + bytes([byte]) + good[at + 1 :]
    path = tmp_path_factory.getbasetemp() / "changed.safetensors"
    path.write_bytes(bad)
    try:
        header = read_header(path)
    except ValueError as error:
        assert str(path) in str(error)  # noqa: PT017
        return
    assert {n: a.shape for n, a in load(bad).items()} == {n: t.shape for n, t in header.items()}


@pytest.mark.parametrize("length", [3, 1 << 20, 1 << 63, (1 << 64) - 1])
def test_a_header_beyond_the_file(tmp_path, length):
    (tmp_path / "x").write_bytes(struct.pack("<Q", length) + b"{}")
    with pytest.raises(ValueError, match="10 bytes, too few for its header"):
        read_header(tmp_path / "x")


def test_every_truncation_is_refused(tmp_path):
    good = save({"a": np.zeros((2, 3), np.float32), "b": np.zeros(4, np.int64)})
    for length in range(len(good)):
        (tmp_path / "x").write_bytes(good[:length])
        with pytest.raises(ValueError, match="x"):
            read_header(tmp_path / "x")


def test_the_library_alone_would_take_this(tmp_path):
    """Why zero-sized tensors are checked too: the library takes dimensions that no code expects."""
    header = json.dumps({"a": {"dtype": "F32", "shape": [0, 1 << 60, 1 << 60], "data_offsets": [0, 0]}}).encode()
    (tmp_path / "x").write_bytes(struct.pack("<Q", len(header)) + header)
    try:
        with safe_open(tmp_path / "x", framework="np") as file:
            assert list(file.keys()) == ["a"]
    except SafetensorError:
        pytest.skip("the library refuses it by now")
    with pytest.raises(ValueError, match=r"tensor 'a' has the shape .* it has too many elements"):
        read_header(tmp_path / "x")


# Folders


def test_one_file(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(save({"a": np.zeros(1), "b": np.zeros(2)}))
    assert weight_files(tmp_path) == {"a": "model.safetensors", "b": "model.safetensors"}


@pytest.fixture
def shards(tmp_path):
    files = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    for name, file in files.items():
        (tmp_path / file).write_bytes(save({name: np.zeros(3)}))

    def index(weight_map):
        (tmp_path / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {"total_size": 48}, "weight_map": weight_map})
        )

    index(files)
    return tmp_path, files, index


def test_shards(shards):
    folder, files, _ = shards
    assert weight_files(folder) == files


def test_one_file_goes_before_shards(shards):
    folder, _, _ = shards
    (folder / "model.safetensors").write_bytes(save({"c": np.zeros(1)}))
    assert weight_files(folder) == {"c": "model.safetensors"}


def test_an_index_that_does_not_agree(shards):
    folder, files, index = shards
    index(files | {"c": files["a"]})
    with pytest.raises(ValueError, match=r"00001-of-00002.safetensors lacks 'c'"):
        weight_files(folder)
    index({"a": files["a"], "c": files["b"]})
    with pytest.raises(ValueError, match="lacks 'c'"):
        weight_files(folder)
    index({"a": files["a"]})
    assert weight_files(folder) == {"a": files["a"]}  # a file that the index does not name is not read
    (folder / files["a"]).write_bytes(save({n: np.zeros(3) for n in "adefgh"}))
    with pytest.raises(ValueError, match="holds 'd', 'e', 'f' and 2 more, which"):
        weight_files(folder)


@pytest.mark.parametrize("name", ["below/a.safetensors", "a.weights"])
def test_shards_must_have_plain_names(shards, name):
    """Even where the file is there and in order."""
    folder, files, index = shards
    (folder / "below").mkdir()
    (folder / files["a"]).rename(folder / name)
    index(files | {"a": name})
    with pytest.raises(ValueError, match=r"it must be a plain name ending in .safetensors"):
        weight_files(folder)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin"])
def test_pickles_are_refused_with_the_mend(tmp_path, name):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ValueError, match=f"as a pickle .*`clearhead convert {tmp_path} --out NEW`"):
        weight_files(tmp_path)


def test_other_weights_are_refused_with_a_mend(tmp_path):
    with pytest.raises(ValueError, match=r"no weights: looked for model.safetensors and model.safetensors.index.json"):
        weight_files(tmp_path)
    (tmp_path / "tf_model.h5").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"only for other frameworks \('tf_model.h5'\)"):
        weight_files(tmp_path)
    for name in ("x.pt", "x.pth", "x.ckpt", "x.pkl", "x.bin"):
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(ValueError, match=rf"only pickles \('{name}'\)"):
            weight_files(tmp_path)
        (tmp_path / name).unlink()


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="no weights"):
        weight_files(tmp_path / "nowhere")
