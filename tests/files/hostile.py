"""Model folders made to harm: `HOSTILE[name](folder)` builds one, from a small BERT that is in order.

`FILES` names those that `clearhead.files` alone must refuse; the others are well-formed files that say absurd things,
for the loader to refuse.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from clearhead.files import MARKER, write_manifest

Change = Callable[[Path], object]
Lazy = bytes | Callable[[], bytes]  # large ones are made when they are wanted

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
CONFIG = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "vocab_size": len(WORDS),
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 32,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}
TOKENIZER = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [
        {"id": i, "content": w, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        for i, w in enumerate(WORDS[:5])
    ],
    "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
        "pair": [
            {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
            {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}},
        ],
        "special_tokens": {w: {"id": w, "ids": [i], "tokens": [w]} for i, w in enumerate(WORDS) if w in ("[CLS]", "[SEP]")},
    },
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {
        "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
        "vocab": {w: i for i, w in enumerate(WORDS)},
    },
}  # fmt: skip
TOKENIZER_CONFIG = {
    "tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 32, "pad_token": "[PAD]",
    "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]",
}  # fmt: skip


@cache
def weights() -> dict[str, np.ndarray]:
    """The tensors of a BertModel of this size, under their Hugging Face names."""
    width, inner, layer = 16, 32, "encoder.layer.0."
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), width),
        "embeddings.position_embeddings.weight": (32, width),
        "embeddings.token_type_embeddings.weight": (2, width),
        layer + "intermediate.dense.weight": (inner, width),
        layer + "intermediate.dense.bias": (inner,),
        layer + "output.dense.weight": (width, inner),
        layer + "output.dense.bias": (width,),
    }
    for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
        shapes |= {f"{layer}{name}.weight": (width, width), f"{layer}{name}.bias": (width,)}
    for name in ("embeddings", layer + "attention.output", layer + "output"):
        shapes |= {f"{name}.LayerNorm.weight": (width,), f"{name}.LayerNorm.bias": (width,)}
    shapes |= {"pooler.dense.weight": (width, width), "pooler.dense.bias": (width,)}
    draw = np.random.default_rng(0)
    return {
        name: np.ones(shape, np.float32) if name.endswith("LayerNorm.weight") else draw.normal(0, 0.02, shape).astype(np.float32)
        for name, shape in shapes.items()
    }  # fmt: skip


@cache
def _weights_file() -> bytes:
    return save(weights(), metadata={"format": "pt"})


def valid(folder: Path, *, manifest: bool = False) -> Path:
    """A small BERT that is in order, with or without a manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder, "config.json", CONFIG | MARKER if manifest else CONFIG)
    _write(folder, "tokenizer.json", TOKENIZER)
    _write(folder, "tokenizer_config.json", TOKENIZER_CONFIG)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (folder / "model.safetensors").write_bytes(_weights_file())
    if manifest:
        write_manifest(folder, {"task": "encode"})
    return folder


class Harm:
    """What a pickle runs when it is opened; a test looks whether it did."""

    def __reduce__(self):
        return os.system, ("touch harm-was-done",)


# The parts that builders are made of: each gives a function that changes a valid folder.


def _write(folder: Path, name: str, value: Any) -> None:
    (folder / name).write_text(json.dumps(value, indent=1))


def _bytes(name: str, data: Lazy) -> Change:
    return lambda folder: (folder / name).write_bytes(data if isinstance(data, bytes) else data())


def _config(**changes: Any) -> Change:
    return lambda folder: _write(folder, "config.json", CONFIG | changes)


def _link(name: str, to: str) -> Change:
    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(to)

    return change


def _fifo(name: str) -> Change:
    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return change


def _folder(name: str) -> Change:
    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).mkdir()

    return change


def _remove(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def _sparse(name: str, size: int, start: bytes = b"") -> Change:
    def change(folder: Path) -> None:
        with (folder / name).open("wb") as file:
            file.write(start)
            file.truncate(size)

    return change


def _only(name: str, data: Lazy) -> Change:
    """No safetensors, but this."""
    return _all(_remove("model.safetensors"), _bytes(name, data))


def _all(*changes: Change) -> Change:
    def change(folder: Path) -> None:
        for one in changes:
            one(folder)

    return change


def _raw(header: Lazy, data: bytes = b"", length: int | None = None) -> Change:
    """`model.safetensors` with this header, which may lie about its length."""

    def build() -> bytes:
        text = header if isinstance(header, bytes) else header()
        return struct.pack("<Q", len(text) if length is None else length) + text + data

    return _bytes("model.safetensors", build)


def _tensors(data: bytes = b"", **entries: tuple[Any, Any, Any]) -> Change:
    """`model.safetensors` with these (dtype, shape, data_offsets)."""
    named = {n: {"dtype": d, "shape": s, "data_offsets": o} for n, (d, s, o) in entries.items()}
    return _raw(json.dumps(named).encode(), data)


def _tensor_text(shape: str = "[2]", offsets: str = "[0, 8]", dtype: str = '"F32"', extra: str = "") -> bytes:
    return f'{{"dtype": {dtype}, "shape": {shape}, "data_offsets": {offsets}{extra}}}'.encode()


def _index(weight_map: Any) -> Change:
    """The weights in a shard `a.safetensors`, and an index that says something of them."""

    def change(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "a.safetensors")
        value = weight_map() if callable(weight_map) else weight_map
        index = {"metadata": {}, "weight_map": value}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    return change


def _mapped(**wrong: str) -> dict[str, str]:
    return dict.fromkeys(weights(), "a.safetensors") | {k.replace("__", "."): v for k, v in wrong.items()}


def _manifest(edit: Callable[[dict[str, Any]], object]) -> Change:
    """A manifest with something wrong in it and a right hash of itself: a forgery."""

    def change(folder: Path) -> None:
        valid(folder, manifest=True)
        path = folder / "clearhead.json"
        value = json.loads(path.read_text())
        del value["sha256"]
        edit(value)

        def text() -> str:
            return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n"

        value["sha256"] = hashlib.sha256(text().encode()).hexdigest()
        path.write_text(text())

    return change


def _own(*changes: Change) -> Change:
    """A folder with a manifest, then changed."""
    return _all(lambda folder: valid(folder, manifest=True), *changes)


def _deep_folders(folder: Path) -> None:
    below = folder
    for _ in range(500):
        below = below / "a"
        below.mkdir()


def _flip(name: str, at: int) -> Change:
    def change(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[at] ^= 1
        (folder / name).write_bytes(data)

    return change


def _zip_bomb() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(64 << 20))
        archive.writestr("archive/version", "3\n")
    return out.getvalue()


def _harm() -> bytes:
    return pickle.dumps({"weight": Harm()}, protocol=2)


def _many_tensors() -> bytes:
    entries = ",".join(f'"{i}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' for i in range(30_001))
    return f"{{{entries}}}".encode()


_pairs = b'{"a":' + b"[" * 200 + b"]" * 200 + b"}"
_two = bytes(16)

_HEADERS: dict[str, Change] = {
    "weights: a pickle under the name of safetensors": _bytes("model.safetensors", _harm),
    "weights: a zip under the name of safetensors": _bytes("model.safetensors", _zip_bomb),
    "weights: an empty file": _bytes("model.safetensors", b""),
    "weights: seven bytes": _bytes("model.safetensors", b"\x02\0\0\0\0\0\0"),
    "weights: a header length of 2**63": _raw(b"{}", length=1 << 63),
    "weights: a header length of 2**64 - 1": _raw(b"{}", length=(1 << 64) - 1),
    "weights: a header beyond the file": _raw(b"{}", length=3),
    "weights: a header of 1 GB, in a file with a hole": _sparse("model.safetensors", (1 << 30) + 8, struct.pack("<Q", 1 << 30)),
    "weights: a header of nothing": _raw(b""),
    "weights: a header that is no JSON": _raw(b"{'a': 1}"),
    "weights: a header that is a list": _raw(b"[]"),
    "weights: a header that is not UTF-8": _raw(b'{"\xff\xfe": 1}'),
    "weights: a header that is cut off": _raw(b'{"a": {"dtype": "F32", "sha'),
    "weights: a header that nests deep": _raw(_pairs),
    "weights: a header of 8 MB of brackets": _raw(lambda: b'{"a":[' + b"[]," * 2_796_000 + b"0]}"),
    "weights: a header of 8 MB of short texts": _raw(lambda: b'{"a":[' + b'"ab",' * 1_677_000 + b"0]}"),
    "weights: a header of 8 MB of short keys": _raw(lambda: b"{" + b",".join(b'"%x":"%x"' % (i, i) for i in range(550_000)) + b"}"),
    "weights: more tensors than any model": _raw(_many_tensors),
    "weights: a name given twice": _raw(b'{"a": ' + _tensor_text() + b', "a": ' + _tensor_text() + b"}", bytes(8)),
    "weights: a key given twice in a tensor": _raw(b'{"a": ' + _tensor_text(extra=', "shape": [4]') + b"}", bytes(8)),
    "weights: an unknown key in a tensor": _raw(b'{"a": ' + _tensor_text(extra=', "hook": 1') + b"}", bytes(8)),
    "weights: an empty name": _raw(b'{"": ' + _tensor_text() + b"}", bytes(8)),
    "weights: a name of a million letters": _raw(lambda: b'{"' + b"a" * 1_000_000 + b'": ' + _tensor_text() + b"}", bytes(8)),
    "weights: metadata that is no text": _raw(b'{"__metadata__": {"a": [1]}, "a": ' + _tensor_text() + b"}", bytes(8)),
    "weights: an integer of 5000 digits": _raw(b'{"a": ' + _tensor_text("[" + "9" * 5000 + "]") + b"}", bytes(8)),
    "weights: NaN in a shape": _raw(b'{"a": ' + _tensor_text("[NaN]") + b"}", bytes(8)),
    "weights: a tensor that is a number": _raw(b'{"a": 1}', bytes(8)),
    "weights: a dimension of 2**60": _tensors(_two, a=("F32", [1 << 60], [0, 16])),
    "weights: dimensions whose product wraps to 0": _tensors(a=("F32", [1 << 32, 1 << 32], [0, 0])),
    "weights: dimensions whose product wraps to 16": _tensors(_two, a=("F32", [(1 << 62) + 1, 4], [0, 16])),
    "weights: 0 beside 2**60": _tensors(a=("F32", [0, 1 << 60, 1 << 60], [0, 0])),
    "weights: a hundred thousand dimensions": _tensors(bytes(4), a=("F32", [1] * 100_000, [0, 4])),
    "weights: two negative dimensions": _tensors(_two, a=("F32", [-2, -2], [0, 16])),
    "weights: a dimension that is a float": _tensors(_two, a=("F32", [4.0], [0, 16])),
    "weights: a dimension that is true": _tensors(bytes(4), a=("F32", [True], [0, 4])),
    "weights: a dimension that is text": _tensors(_two, a=("F32", ["4"], [0, 16])),
    "weights: a shape that is null": _tensors(_two, a=("F32", None, [0, 16])),
    "weights: an unknown dtype": _tensors(_two, a=("F31", [4], [0, 16])),
    "weights: a dtype that is a list": _tensors(_two, a=(["F32"], [4], [0, 16])),
    "weights: three offsets": _tensors(_two, a=("F32", [4], [0, 8, 16])),
    "weights: an end before the beginning": _tensors(_two, a=("F32", [4], [16, 0])),
    "weights: a negative beginning": _tensors(_two, a=("F32", [4], [-16, 0])),
    "weights: offsets of 2**64": _tensors(_two, a=("F32", [4], [1 << 64, (1 << 64) + 16])),
    "weights: a shape that needs more bytes than given": _tensors(_two, a=("F64", [4], [0, 16])),
    "weights: a shape that needs fewer bytes than given": _tensors(_two, a=("F16", [4], [0, 16])),
    "weights: an end beyond the file": _tensors(_two, a=("F32", [1024], [0, 4096])),
    "weights: bytes that belong to no tensor": _tensors(bytes(32), a=("F32", [4], [0, 16])),
    "weights: two tensors on the same bytes": _tensors(_two, a=("F32", [4], [0, 16]), b=("F32", [4], [0, 16])),
    "weights: two tensors that overlap": _tensors(bytes(24), a=("F32", [4], [0, 16]), b=("F32", [4], [8, 24])),
    "weights: a hole between two tensors": _tensors(bytes(40), a=("F32", [4], [0, 16]), b=("F32", [4], [24, 40])),
    "weights: a hole before the first": _tensors(bytes(24), a=("F32", [4], [8, 24])),
}  # fmt: skip

_OTHER_WEIGHTS: dict[str, Change] = {
    "weights: only a pickle": _only("pytorch_model.bin", _harm),
    "weights: only a zip bomb": _only("pytorch_model.bin", _zip_bomb),
    "weights: only a .pt": _only("model.pt", _harm),
    "weights: only a .ckpt": _only("last.ckpt", _harm),
    "weights: only a .pkl": _only("weights.pkl", _harm),
    "weights: only TensorFlow's": _only("tf_model.h5", b"\x89HDF\r\n\x1a\n"),
    "weights: only Flax's": _only("flax_model.msgpack", b"\x80"),
    "weights: none": _remove("model.safetensors"),
    "weights: a pipe": _fifo("model.safetensors"),
    "weights: a folder": _folder("model.safetensors"),
    "index: a name with ..": _index(_mapped(pooler__dense__bias="../a.safetensors")),
    "index: .. to /etc/passwd": _index(_mapped(pooler__dense__bias="../../../../../../etc/passwd")),
    "index: an absolute name": _index(_mapped(pooler__dense__bias="/etc/passwd.safetensors")),
    "index: a name with a backslash": _index(_mapped(pooler__dense__bias="..\\a.safetensors")),
    "index: a name with NUL": _index(_mapped(pooler__dense__bias="a\0.safetensors")),
    "index: a name of 5000 letters": _index(_mapped(pooler__dense__bias="a" * 5000 + ".safetensors")),
    "index: a name that cannot be encoded": _index(_mapped(pooler__dense__bias="\ud800.safetensors")),
    "index: a pickle": _all(_index(_mapped(pooler__dense__bias="b.bin")), _bytes("b.bin", _harm)),
    "index: a shard that is missing": _index(_mapped(pooler__dense__bias="b.safetensors")),
    "index: a shard that leads outside": _all(_index(_mapped(pooler__dense__bias="b.safetensors")), _link("b.safetensors", "/etc/passwd")),
    "index: a shard that is a pipe": _all(_index(_mapped(pooler__dense__bias="b.safetensors")), _fifo("b.safetensors")),
    "index: a shard that is a folder": _all(_index(_mapped(pooler__dense__bias="b.safetensors")), _folder("b.safetensors")),
    "index: a shard that links to itself": _all(_index(_mapped(pooler__dense__bias="b.safetensors")), _link("b.safetensors", "b.safetensors")),
    "index: a tensor that its shard lacks": _index(_mapped(no__such="a.safetensors")),
    "index: a tensor it does not list": _index({k: v for k, v in _mapped().items() if k != "pooler.dense.bias"}),
    "index: a list": _index(list(_mapped())),
    "index: empty": _index({}),
    "index: shards that are lists": _index({k: [v] for k, v in _mapped().items()}),
    "index: a million entries": _index(lambda: {f"{i}": "a.safetensors" for i in range(1_000_000)}),
    "index: a shard for every tensor, none there": _index(lambda: {f"{i}": f"{i}.safetensors" for i in range(50_000)}),
}  # fmt: skip

_READ = ["config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "model.safetensors", "clearhead.json"]

_OUTSIDE: dict[str, Change] = {
    **{f"{name}: a link to /etc/passwd": _link(name, "/etc/passwd") for name in _READ},
    "config.json: a link to ..": _link("config.json", "../outside.json"),
    "config.json: a link to a device": _link("config.json", "/dev/zero"),
    "config.json: a link to itself": _link("config.json", "config.json"),
    "config.json: a link to a folder": _link("config.json", "/etc"),
    "index: a link to /etc/passwd": _all(_remove("model.safetensors"), _link("model.safetensors.index.json", "/etc/passwd")),
}  # fmt: skip

_JSON: dict[str, Change] = {
    "config.json: missing": _remove("config.json"),
    "config.json: a pipe": _fifo("config.json"),
    "config.json: a folder": _folder("config.json"),
    "config.json: empty": _bytes("config.json", b""),
    "config.json: a list": _bytes("config.json", b"[1, 2]"),
    "config.json: cut off": _bytes("config.json", json.dumps(CONFIG).encode()[:-20]),
    "config.json: nests deep": _bytes("config.json", _pairs),
    "config.json: 100,000 levels": _bytes("config.json", lambda: b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "config.json: 10 MB of brackets": _bytes("config.json", lambda: b"[" * 10_000_000),
    "config.json: 4 MB of empty lists": _bytes("config.json", lambda: b'{"a":[' + b"[]," * 1_390_000 + b"0]}"),
    "config.json: 4 MB of short texts, unclosed": _bytes("config.json", lambda: b'{"a":[' + b'"ab",' * 830_000 + b"]}"),
    "config.json: a text of 1 GB": _sparse("config.json", 1 << 30, b'{"a":"'),
    "config.json: an unclosed text of 4 MB": _bytes("config.json", lambda: b'{"a":"' + b'\\"' * 2_000_000),
    "config.json: an integer of 5000 digits": _bytes("config.json", b'{"hidden_size": ' + b"9" * 5000 + b"}"),
    "config.json: an integer of a million digits": _bytes("config.json", lambda: b'{"hidden_size": ' + b"9" * 1_000_000 + b"}"),
    "config.json: not UTF-8": _bytes("config.json", b'{"model_type": "b\xe9rt"}'),
    "config.json: UTF-16": _bytes("config.json", json.dumps(CONFIG).encode("utf-16")),
    "config.json: a byte order mark": _bytes("config.json", json.dumps(CONFIG).encode("utf-8-sig")),
    "config.json: NaN": _config(layer_norm_eps=float("nan")),
    "config.json: Infinity": _config(layer_norm_eps=float("inf")),
    "config.json: 1e999": _bytes("config.json", json.dumps(CONFIG).replace("1e-12", "1e999").encode()),
    "config.json: a key given twice": _bytes("config.json", json.dumps(CONFIG).replace("{", '{"hidden_size": 8,', 1).encode()),
    "config.json: a hundred thousand keys given twice": _bytes("config.json", lambda: b"{" + b",".join(b'"%d":0' % (i % 100_000) for i in range(200_000)) + b"}"),
    "config.json: auto_map": _all(
        _config(auto_map={"AutoModel": "harm.HarmModel"}), _bytes("harm.py", b"import os\nos.system('touch harm-was-done')\n")
    ),
    "tokenizer.json: broken": _bytes("tokenizer.json", b'{"version": "1.0", "model": {'),
    "tokenizer.json: a pipe": _fifo("tokenizer.json"),
    "tokenizer.json: a folder": _folder("tokenizer.json"),
    "tokenizer.json: 1 GB": _sparse("tokenizer.json", 1 << 30, b"{"),
    "tokenizer.json: 100,000 levels": _bytes("tokenizer.json", lambda: b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "tokenizer_config.json: broken": _bytes("tokenizer_config.json", b"{"),
}  # fmt: skip

_MANIFESTS: dict[str, Change] = {
    "clearhead.json: promised, not there": _own(_remove("clearhead.json")),
    "clearhead.json: lists ../../etc/passwd": _manifest(lambda m: m["files"].update({"../../../../etc/passwd": {"size": 1, "sha256": "0" * 64}})),
    "clearhead.json: lists /etc/passwd": _manifest(lambda m: m["files"].update({"/etc/passwd": {"size": os.stat("/etc/passwd").st_size, "sha256": "0" * 64}})),
    "clearhead.json: lists a name with NUL": _manifest(lambda m: m["files"].update({"a\0b": {"size": 1, "sha256": "0" * 64}})),
    "clearhead.json: lists what is not there": _manifest(lambda m: m["files"].update({"a.json": {"size": 1, "sha256": "0" * 64}})),
    "clearhead.json: lists 12,000 files": _manifest(lambda m: m["files"].update({f"{i}": {"size": 1, "sha256": "0" * 64} for i in range(12_000)})),
    "clearhead.json: leaves out a file": _manifest(lambda m: m["files"].pop("tokenizer.json")),
    "clearhead.json: a size that is text": _manifest(lambda m: m["files"]["config.json"].update(size="1")),
    "clearhead.json: files that are a list": _manifest(lambda m: m.update(files=[])),
    "clearhead.json: an unknown key": _manifest(lambda m: m.update(run="harm")),
    "clearhead.json: a folder": _own(_folder("clearhead.json")),
    "clearhead.json: a pipe": _own(_fifo("clearhead.json")),
    "clearhead.json: empty": _own(_bytes("clearhead.json", b"")),
    "clearhead.json: nests deep": _own(_bytes("clearhead.json", _pairs)),
    "clearhead.json: 1 GB": _own(_sparse("clearhead.json", 1 << 30, b"{")),
    "clearhead.json: one bit is another": _own(_flip("clearhead.json", 100)),
    "with a manifest: one bit of the weights": _own(_flip("model.safetensors", 5000)),
    "with a manifest: the marker is gone and so is a file": _own(_bytes("config.json", json.dumps(CONFIG).encode()), _remove("vocab.txt")),
    "with a manifest: a file nobody listed": _own(_bytes("special_tokens_map.json", b"{}")),
    "with a manifest: a pipe nobody listed": _own(_fifo("merges.txt")),
    "with a manifest: a listed file is a link outside": _own(_link("vocab.txt", "/etc/passwd")),
    "with a manifest: folders in folders, 500 deep": _own(_deep_folders),
}  # fmt: skip

_ABSURD: dict[str, Change] = {
    "sizes: hidden_size 2**60": _config(hidden_size=1 << 60),
    "sizes: hidden_size 0": _config(hidden_size=0),
    "sizes: hidden_size -16": _config(hidden_size=-16),
    "sizes: hidden_size '16'": _config(hidden_size="16"),
    "sizes: hidden_size 16.5": _config(hidden_size=16.5),
    "sizes: hidden_size null": _config(hidden_size=None),
    "sizes: hidden_size other than the weights'": _config(hidden_size=32),
    "sizes: num_hidden_layers 10**9": _config(num_hidden_layers=10**9),
    "sizes: num_hidden_layers -1": _config(num_hidden_layers=-1),
    "sizes: num_hidden_layers beyond the weights": _config(num_hidden_layers=3),
    "sizes: num_attention_heads -2": _config(num_attention_heads=-2),
    "sizes: num_attention_heads 0": _config(num_attention_heads=0),
    "sizes: num_attention_heads 3": _config(num_attention_heads=3),
    "sizes: num_attention_heads 2**40": _config(num_attention_heads=1 << 40),
    "sizes: vocab_size 2**62": _config(vocab_size=1 << 62),
    "sizes: vocab_size a list": _config(vocab_size=[31]),
    "sizes: max_position_embeddings 2**60": _config(max_position_embeddings=1 << 60),
    "sizes: intermediate_size 2**60": _config(intermediate_size=1 << 60),
    "sizes: type_vocab_size 2**60": _config(type_vocab_size=1 << 60),
    "config.json: an unknown model_type": _config(model_type="no-such-model"),
    "config.json: a model_type that is a path": _config(model_type="../../../../etc/passwd"),
    "config.json: a model_type that is a list": _config(model_type=["bert"]),
    "config.json: 4 MB of numbers": _bytes("config.json", lambda: b'{"a":[' + b"1.5," * 1_040_000 + b"0]}"),
    "config.json: no model_type": _bytes("config.json", b"{}"),
    "config.json: hidden_act is code": _config(hidden_act="__import__('os').system('touch harm-was-done')"),
    "config.json: hidden_act is an object": _config(hidden_act={"a": 1}),
    "config.json: dropout 2.0": _config(hidden_dropout_prob=2.0),
    "config.json: layer_norm_eps -1": _config(layer_norm_eps=-1),
    "config.json: pad_token_id 2**60": _config(pad_token_id=1 << 60),
    "weights: a tensor is missing": _bytes("model.safetensors", lambda: save({k: v for k, v in weights().items() if k != "encoder.layer.0.output.dense.weight"})),
    "weights: a tensor has another shape": _bytes("model.safetensors", lambda: save(weights() | {"encoder.layer.0.output.dense.weight": np.zeros((3, 3), np.float32)})),
    "weights: integers for floats": _bytes("model.safetensors", lambda: save({k: v.astype(np.int64) for k, v in weights().items()})),
    "tokenizer.json: an id of 2**40": _bytes("tokenizer.json", json.dumps(TOKENIZER).replace('"z": 30', '"z": 1099511627776').encode()),
    "tokenizer.json: an id beyond the embeddings": _bytes("tokenizer.json", json.dumps(TOKENIZER).replace('"z": 30', '"z": 3000').encode()),
    "tokenizer.json: an unknown model": _bytes("tokenizer.json", json.dumps(TOKENIZER | {"model": {"type": "Harm"}}).encode()),
}  # fmt: skip


def _builder(change: Change) -> Change:
    def build(folder: Path) -> None:
        change(valid(folder))

    return build


_REFUSED_BY_FILES = _HEADERS | _OTHER_WEIGHTS | _OUTSIDE | _JSON | _MANIFESTS

HOSTILE: dict[str, Change] = {name: _builder(change) for name, change in (_REFUSED_BY_FILES | _ABSURD).items()}
FILES: frozenset[str] = frozenset(_REFUSED_BY_FILES)
