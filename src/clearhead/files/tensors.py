"""Headers of safetensors files, checked before any library maps the data.

A file is 8 bytes with the length of the header, the header (JSON), and the data of the tensors:
https://huggingface.co/docs/safetensors. A checked header guarantees that every tensor lies inside the file, has the
size of its shape, and overlaps no other tensor.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.files.safe import MissingFile, parse_json, read_json, safe_join

MAX_HEADER_BYTES = 8 << 20
MAX_TENSORS = 30_000  # in one file
MAX_NAME_CHARS = 512
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
_OTHER_FORMATS = {".h5", ".msgpack", ".onnx", ".gguf"}


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """Header entry of one tensor; `begin` and `end` are byte offsets from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_header(path: str | Path) -> dict[str, TensorInfo]:
    """Reads the tensors of a safetensors file by name, in the order of their bytes; ValueError if it is invalid."""
    path = Path(path)
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > size - 8:
            raise ValueError(f"{path} has {size:,} bytes, too few for its header: it is cut off or not safetensors")
        if length > MAX_HEADER_BYTES:
            raise ValueError(f"{path} has a header of {length:,} bytes: more than the {MAX_HEADER_BYTES:,} allowed")
        header = parse_json(file.read(length), f"the header of {path}", max_values=12 * MAX_TENSORS)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError(f"{path}: __metadata__ must map names to strings")
    if len(header) > MAX_TENSORS:
        raise ValueError(f"{path} holds {len(header):,} tensors: more than the {MAX_TENSORS:,} allowed")
    tensors = sorted(
        ((name, _tensor(path, name, entry)) for name, entry in header.items()),
        key=lambda item: (item[1].begin, item[1].end),
    )
    end = 0
    for name, tensor in tensors:
        if tensor.begin != end:
            problem = "overlaps another tensor" if tensor.begin < end else "leaves unused bytes before it"
            raise ValueError(f"{path}: tensor {name!r} {problem}: begins at byte {tensor.begin:,} instead of {end:,}")
        end = tensor.end
    if end != size - 8 - length:
        raise ValueError(f"{path} has {size - 8 - length:,} bytes of data where its tensors end at {end:,}")
    return dict(tensors)


def _tensor(path: Path, name: str, entry: Any) -> TensorInfo:
    where = f"{path}: tensor {name!r:.100}"
    if not 0 < len(name) <= MAX_NAME_CHARS:
        raise ValueError(f"{where} has a name of {len(name):,} characters: 1 to {MAX_NAME_CHARS} are allowed")
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{where} must have dtype, shape and data_offsets, and nothing else")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ITEMSIZE:
        raise ValueError(f"{where} has the dtype {dtype!r:.100}: known are {', '.join(ITEMSIZE)}")
    if not _is_count_list(shape) or len(shape) > MAX_RANK:
        raise ValueError(f"{where} has the shape {shape!r:.100}: it must be at most {MAX_RANK} integers, 0 or more")
    if math.prod(max(n, 1) for n in shape) > MAX_ELEMENTS:
        raise ValueError(f"{where} has the shape {shape!r:.100}: it has too many elements")
    if not _is_count_list(offsets) or len(offsets) != 2:
        raise ValueError(f"{where} has the data_offsets {offsets!r:.100}: it must be [begin, end]")
    begin, end = offsets
    expected = math.prod(shape) * ITEMSIZE[dtype]
    if end - begin != expected:
        raise ValueError(f"{where} takes {end - begin:,} bytes where {dtype} {list(shape)} takes {expected:,}")
    return TensorInfo(dtype=dtype, shape=tuple(shape), begin=begin, end=end)


def _is_count_list(value: Any) -> bool:
    """Returns whether this is a list of non-negative 64-bit integers (True and 1.0 are not)."""
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in value)


def weight_files(folder: str | Path) -> dict[str, str]:
    """Maps each tensor of a model folder to its file: `model.safetensors`, or a shard that the index names."""
    return {name: file for file, header in weight_headers(folder).items() for name in header}


def weight_headers(folder: str | Path) -> dict[str, dict[str, TensorInfo]]:
    """Reads the headers of a model folder's weight files, by file name.

    Every header is checked, and an index must list exactly the tensors of its shards.
    """
    folder = Path(folder)
    try:
        return {WEIGHTS: read_header(safe_join(folder, WEIGHTS))}
    except MissingFile:
        pass
    try:
        claimed = _weight_map(folder)
    except MissingFile:
        raise ValueError(_no_weights(folder)) from None
    shards: dict[str, set[str]] = {}
    for name, shard in claimed.items():
        shards.setdefault(shard, set()).add(name)
    paths = {shard: safe_join(folder, shard) for shard in sorted(shards)}
    headers: dict[str, dict[str, TensorInfo]] = {}
    for shard, path in paths.items():
        headers[shard] = read_header(path)
        names = headers[shard].keys()
        if missing := shards[shard] - names:
            raise ValueError(f"{path} lacks {_list_names(missing)}, which {INDEX} lists")
        if extra := names - shards[shard]:
            raise ValueError(f"{path} holds {_list_names(extra)}, which {INDEX} does not list")
    return headers


def _weight_map(folder: Path) -> dict[str, str]:
    weight_map = read_json(folder, INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ValueError(f"{folder / INDEX} must have a weight_map from tensor names to file names")
    for name, file in weight_map.items():
        if not isinstance(file, str) or "/" in file or not file.endswith(".safetensors"):
            raise ValueError(
                f"{folder / INDEX} puts the tensor {name!r:.100} into {file!r:.100}: "
                "it must be a plain name ending in .safetensors"
            )
    return weight_map


def _no_weights(folder: Path) -> str:
    names = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
    pickles = [n for n in names if Path(n).suffix in _PICKLES]
    foreign = [n for n in names if Path(n).suffix in _OTHER_FORMATS]
    if any(n.startswith("pytorch_model") for n in pickles):
        return (
            f"{folder} has its weights as a pickle ({_list_names(pickles)}), which can run code when it is opened: "
            f"convert it to safetensors once with `clearhead convert {folder} --out NEW`"
        )
    if pickles:
        return (
            f"{folder} has only pickles ({_list_names(pickles)}), which can run code when they are opened: if one "
            f"holds the weights, name it pytorch_model.bin and run `clearhead convert {folder} --out NEW`"
        )
    if foreign:
        return (
            f"{folder} has weights only for other frameworks ({_list_names(foreign)}): open it once with that "
            "framework, or with transformers, and save it as safetensors"
        )
    return f"{folder} has no weights: looked for {WEIGHTS} and {INDEX}"


def _list_names(names: Iterable[str], limit: int = 3) -> str:
    listed = sorted(names)
    shown = ", ".join(f"{n!r:.100}" for n in listed[:limit])
    return shown + (f" and {len(listed) - limit:,} more" if len(listed) > limit else "")
