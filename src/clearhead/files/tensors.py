"""The headers of safetensors files, checked before any library maps them.

A file is 8 bytes with the length of the header, the header (JSON), and the data, where every tensor has its bytes:
https://huggingface.co/docs/safetensors. What holds here, holds for whoever reads the file next: every tensor lies
inside the file, is as long as its shape says, and shares no byte with another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.files.safe import Missing, inside, parse_json, read_json

MAX_HEADER = 8 << 20  # bytes
MAX_TENSORS = 30_000  # in one file
MAX_NAME = 512
MAX_RANK = 16
MAX_ELEMENTS = 1 << 48

ITEMSIZE = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1, "F8_E8M0": 1,
    "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
    "U32": 4, "I32": 4, "F32": 4,
    "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"

_PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl"}
_FOREIGN = {".h5", ".msgpack", ".onnx", ".gguf"}


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """What a header says of one tensor; `begin` and `end` are bytes counted from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_header(path: str | Path) -> dict[str, TensorInfo]:
    """The tensors of a safetensors file by name, in the order of their bytes; ValueError names what is wrong."""
    path = Path(path)
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > size - 8:
            raise ValueError(f"{path} has {size:,} bytes, too few for its header: it is cut off or not safetensors")
        if length > MAX_HEADER:
            raise ValueError(f"{path} has a header of {length:,} bytes: more than the {MAX_HEADER:,} allowed")
        header = parse_json(file.read(length), f"the header of {path}", max_values=12 * MAX_TENSORS)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError(f"{path}: __metadata__ must map names to texts")
    if len(header) > MAX_TENSORS:
        raise ValueError(f"{path} holds {len(header):,} tensors: more than the {MAX_TENSORS:,} allowed")
    found = sorted(
        ((name, _tensor(path, name, entry)) for name, entry in header.items()),
        key=lambda item: (item[1].begin, item[1].end),
    )
    end = 0
    for name, tensor in found:
        if tensor.begin != end:
            fault = "overlaps another tensor" if tensor.begin < end else "leaves unused bytes before it"
            raise ValueError(f"{path}: tensor {name!r} {fault}, at byte {tensor.begin:,} where {end:,} is due")
        end = tensor.end
    if end != size - 8 - length:
        raise ValueError(f"{path} has {size - 8 - length:,} bytes of data where its tensors end at {end:,}")
    return dict(found)


def _tensor(path: Path, name: str, entry: Any) -> TensorInfo:
    where = f"{path}: tensor {name!r:.100}"
    if not 0 < len(name) <= MAX_NAME:
        raise ValueError(f"{where} has a name of {len(name):,} characters: 1 to {MAX_NAME} are allowed")
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{where} must have dtype, shape and data_offsets, and nothing else")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ITEMSIZE:
        raise ValueError(f"{where} has the dtype {dtype!r:.100}: known are {', '.join(ITEMSIZE)}")
    if not _counts(shape) or len(shape) > MAX_RANK:
        raise ValueError(f"{where} has the shape {shape!r:.100}: up to {MAX_RANK} integers from 0 are due")
    if math.prod(max(n, 1) for n in shape) > MAX_ELEMENTS:
        raise ValueError(f"{where} has the shape {shape!r:.100}: no file holds so much")
    if not _counts(offsets) or len(offsets) != 2:
        raise ValueError(f"{where} has the data_offsets {offsets!r:.100}: [begin, end] is due")
    begin, end = offsets
    due = math.prod(shape) * ITEMSIZE[dtype]
    if end - begin != due:
        raise ValueError(f"{where} takes {end - begin:,} bytes where {dtype} {list(shape)} takes {due:,}")
    return TensorInfo(dtype=dtype, shape=tuple(shape), begin=begin, end=end)


def _counts(value: Any) -> bool:
    """Whether this is a list of integers from 0 that fit 64 bits (True and 1.0 are none)."""
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in value)


def weight_files(folder: str | Path) -> dict[str, str]:
    """Which file of a model folder holds each tensor: `model.safetensors`, or the shards that the index names."""
    return {name: file for file, header in weight_headers(folder).items() for name in header}


def weight_headers(folder: str | Path) -> dict[str, dict[str, TensorInfo]]:
    """The files of a model folder's weights, each with its tensors.

    Every header has been checked, and an index must agree with its shards to the last tensor.
    """
    folder = Path(folder)
    try:
        return {WEIGHTS: read_header(inside(folder, WEIGHTS))}
    except Missing:
        pass
    try:
        claimed = _weight_map(folder)
    except Missing:
        raise ValueError(_no_weights(folder)) from None
    shards: dict[str, set[str]] = {}
    for name, shard in claimed.items():
        shards.setdefault(shard, set()).add(name)
    paths = {shard: inside(folder, shard) for shard in sorted(shards)}
    headers: dict[str, dict[str, TensorInfo]] = {}
    for shard, path in paths.items():
        headers[shard] = read_header(path)
        held = headers[shard].keys()
        if missing := shards[shard] - held:
            raise ValueError(f"{path} lacks {_some(missing)}, which {INDEX} says it holds")
        if extra := held - shards[shard]:
            raise ValueError(f"{path} holds {_some(extra)}, of which {INDEX} does not know")
    return headers


def _weight_map(folder: Path) -> dict[str, str]:
    weight_map = read_json(folder, INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ValueError(f"{folder / INDEX} must have a weight_map from tensor names to file names")
    for name, file in weight_map.items():
        if not isinstance(file, str) or "/" in file or not file.endswith(".safetensors"):
            raise ValueError(
                f"{folder / INDEX} puts the tensor {name!r:.100} into {file!r:.100}: "
                "a plain name ending in .safetensors is due"
            )
    return weight_map


def _no_weights(folder: Path) -> str:
    names = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
    pickles = [n for n in names if Path(n).suffix in _PICKLES]
    foreign = [n for n in names if Path(n).suffix in _FOREIGN]
    if any(n.startswith("pytorch_model") for n in pickles):
        return (
            f"{folder} has its weights as a pickle ({_some(pickles)}), which can run code when it is opened: "
            f"turn it into safetensors once with `clearhead convert {folder} NEW`"
        )
    if pickles:
        return (
            f"{folder} has only pickles ({_some(pickles)}), which can run code when they are opened: if one of them "
            f"holds the weights, name it pytorch_model.bin and run `clearhead convert {folder} NEW`"
        )
    if foreign:
        return (
            f"{folder} has weights only for other frameworks ({_some(foreign)}): open it once with the framework it "
            "is for, or with transformers, and save it as safetensors"
        )
    return f"{folder} has no weights: looked for {WEIGHTS} and {INDEX}"


def _some(names: Iterable[str], most: int = 3) -> str:
    listed = sorted(names)
    shown = ", ".join(f"{n!r:.100}" for n in listed[:most])
    return shown + (f" and {len(listed) - most:,} more" if len(listed) > most else "")
