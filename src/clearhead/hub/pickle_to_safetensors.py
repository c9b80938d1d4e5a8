"""Converts a model folder with pickled weights to safetensors.

Opening a pickle can run code. This is the only place in clearhead that opens one, with torch's `weights_only` reader,
in a separate process that ends when the weights are written.
"""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.files import (
    MANIFEST,
    MissingFile,
    mark,
    new_folder,
    read_config,
    read_json,
    safe_join,
    sha256,
    weight_headers,
    write_atomic,
    write_manifest,
)
from clearhead.hub.weight_files import MAX_SHARD_BYTES, write_weights

_PICKLE = "pytorch_model.bin"
_INDEX = "pytorch_model.bin.index.json"
_COPIED_SUFFIXES = {".json", ".txt", ".model", ".spm", ".jinja", ".md"}
_DTYPES = {
    torch.bool, torch.uint8, torch.int8, torch.uint16, torch.int16, torch.uint32, torch.int32, torch.uint64,
    torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """The result of a conversion; names are relative to the folder."""

    tensors: int
    bytes: int
    tied: dict[str, str]  # duplicate name -> name of the same tensor that is kept
    files: list[str]  # in the new folder
    left: list[str]  # in the old folder, not copied
    sha256: dict[str, str]  # of the pickles


def convert_pickles(old: str | Path, new: str | Path, *, max_shard: int = MAX_SHARD_BYTES) -> Conversion:
    """Converts the folder `old`, whose weights are `pytorch_model.bin` or its shards, to the folder `new`.

    The weights become `model.safetensors` (with an index beyond `max_shard` bytes), tokenizer and configuration are
    copied, a manifest is written. Code, other pickles and folders are not copied. On failure `new` is not created, and
    ValueError names the reason.
    """
    old = Path(old)
    config = read_config(old)
    pickles, claimed = _pickles(old)
    names = sorted(p.name + "/" * p.is_dir() for p in old.iterdir() if p.name not in pickles)
    keep = [
        n
        for n in names
        if (Path(n).suffix in _COPIED_SUFFIXES or n.startswith("LICENSE")) and n not in (_INDEX, MANIFEST)
    ]
    hashes = {name: sha256(path) for name, path in pickles.items()}
    with new_folder(new) as folder:
        tied = _rewrite_in_child(pickles, folder, max_shard)
        for name in keep:
            shutil.copyfile(safe_join(old, name), folder / name)
        write_atomic(folder / "config.json", json.dumps(mark(config), indent=2) + "\n")
        headers = weight_headers(folder)  # checked like an untrusted file
        weights = {name: tensor for header in headers.values() for name, tensor in header.items()}
        if claimed is not None and claimed != weights.keys() | tied.keys():
            differing = sorted(claimed ^ (weights.keys() | tied.keys()))
            raise ValueError(f"{old / _INDEX} and the files it names disagree about {differing[0]!r:.100}")
        write_manifest(folder, {"provenance": {"converted_from": hashes, "tied": tied}})
        size = sum(t.end - t.begin for t in weights.values())
        files, left = sorted(p.name for p in folder.iterdir()), [n for n in names if n not in keep]
        return Conversion(tensors=len(weights), bytes=size, tied=tied, files=files, left=left, sha256=hashes)


def read_pickle(path: Path) -> dict[str, Tensor]:
    """Returns the tensors of one pickled file: another process writes them as safetensors, which are read here."""
    from safetensors.torch import load_file

    with tempfile.TemporaryDirectory() as folder:
        tied = _rewrite_in_child({path.name: path}, Path(folder), MAX_SHARD_BYTES)
        tensors = load_file(Path(folder) / "model.safetensors")
    return tensors | {name: tensors[kept] for name, kept in tied.items()}


def _pickles(old: Path) -> tuple[dict[str, Path], set[str] | None]:
    """Returns the pickles of a folder by name, and the tensor names of its index."""
    if any(old.glob("model*.safetensors")):
        raise ValueError(f"{old} already has safetensors weights: there is nothing to convert")
    try:
        return {_PICKLE: safe_join(old, _PICKLE)}, None
    except MissingFile:
        pass
    try:
        weight_map = read_json(old, _INDEX).get("weight_map")
    except MissingFile:
        raise ValueError(f"{old} has no weights to convert: looked for {_PICKLE} and {_INDEX}") from None
    if not isinstance(weight_map, dict) or not weight_map:
        raise ValueError(f"{old / _INDEX} must have a weight_map from tensor names to file names")
    for name in weight_map.values():
        if not isinstance(name, str) or "/" in name or not name.endswith(".bin"):
            raise ValueError(f"{old / _INDEX} names {name!r:.100} as a file: it must be a plain name ending in .bin")
    return {name: safe_join(old, name) for name in sorted(set(weight_map.values()))}, set(weight_map)


def _rewrite_in_child(pickles: dict[str, Path], folder: Path, max_shard: int) -> dict[str, str]:
    """Converts the pickles in a new process, which writes safetensors into `folder`; returns the tied names."""
    job = {"pickles": {n: str(p.absolute()) for n, p in pickles.items()}, "folder": str(folder), "max_shard": max_shard}
    code = "from clearhead.hub.pickle_to_safetensors import child; child()"
    process = subprocess.run(
        [sys.executable, "-P", "-c", code], input=json.dumps(job), capture_output=True, text=True, errors="replace"
    )
    names = ", ".join(pickles)
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        why = "it ran out of memory or was killed" if name == "SIGKILL" else "the file may be corrupt"
        raise ValueError(f"the process that read {names} was terminated by {name}: {why}")
    if process.returncode > 0:
        last = (process.stderr.strip().splitlines() or ["no error message"])[-1]
        raise ValueError(f"the process that read {names} failed: {last}")
    result = json.loads(process.stdout.rpartition("\n")[2])  # a library may have printed something before
    if "refused" in result:
        raise ValueError(result["refused"])
    return result["tied"]


def child() -> None:
    """Entry point of the child process: reads a job from standard input, writes the result to standard output."""
    job = json.load(sys.stdin)
    try:
        state: dict[str, Tensor] = {}
        for name, path in job["pickles"].items():
            part = _read(name, Path(path))
            if duplicates := sorted(state.keys() & part.keys()):
                raise ValueError(f"{name} holds {duplicates[0]!r:.100}, which another file also holds: remove one")
            state |= part
        limit = 4 * sum(Path(path).stat().st_size for path in job["pickles"].values())
        result: dict[str, Any] = {"tied": _write(state, Path(job["folder"]), job["max_shard"], limit)}
    except ValueError as error:
        result = {"refused": str(error)}
    except Exception as error:
        result = {"refused": f"the weights cannot be written: {_reason(error)}"}
    sys.stdout.write("\n" + json.dumps(result))


def _read(name: str, path: Path) -> dict[str, Tensor]:
    try:
        with path.open("rb") as file:
            zipped = file.read(4) == b"PK\3\4"
        if zipped:
            _check_archive(path)
        state: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except Exception as error:
        raise ValueError(
            f"{name} is refused, because torch cannot read it as plain weights ({_reason(error)}); "
            "use a safetensors version of the model"
        ) from None
    if not isinstance(state, dict) or not state:
        raise ValueError(f"{name} holds {type(state).__name__} and no tensors: it must hold a state dict")
    for key, value in state.items():
        if not isinstance(key, str) or type(value) not in (Tensor, torch.nn.Parameter):
            raise ValueError(
                f"{name} holds {key!r:.100}: {type(value).__name__}, but only tensors are allowed; "
                "save only the state dict of the model"
            )
        if value.device.type != "cpu" or value.layout != torch.strided or value.dtype not in _DTYPES:
            raise ValueError(
                f"{name} holds {key!r:.100}, a {value.layout} tensor of {value.dtype}, which safetensors cannot store"
            )
    return state


def _check_archive(path: Path) -> None:
    """Refuses an archive that unpacks to more than its size: torch stores records uncompressed."""
    with zipfile.ZipFile(path) as archive:
        records = archive.infolist()
    if any(r.compress_type != zipfile.ZIP_STORED for r in records):
        raise ValueError("it is a compressed archive, which torch never writes")
    if sum(r.file_size for r in records) > path.stat().st_size:
        raise ValueError("its records are larger than the file")


def _write(state: dict[str, Tensor], folder: Path, max_shard: int, limit: int) -> dict[str, str]:
    """Writes the tensors as safetensors; of several names for a tensor the first is kept, the others are returned."""
    first: dict[tuple[Any, ...], str] = {}
    tied: dict[str, str] = {}
    for name, t in state.items():
        location = (t.untyped_storage().data_ptr(), t.storage_offset())
        view = (t.shape, t.stride(), t.dtype, t.is_conj(), t.is_neg())
        original = first.setdefault((*location, *view), name) if t.numel() else name
        if original != name:
            tied[name] = original
    unique = {name: t for name, t in state.items() if name not in tied}
    if (size := sum(t.numel() * t.itemsize for t in unique.values())) > limit:
        raise ValueError(f"the tensors need {size:,} bytes, far more than the size of the file: refused")
    write_weights(_separate(unique), folder, max_shard, notes=tied)
    return tied


def _separate(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors, each contiguous in its own memory; those that are already are not copied."""
    seen: set[int] = set()
    tensors: dict[str, Tensor] = {}
    for name, t in state.items():
        storage = t.untyped_storage()
        is_separate = t.is_contiguous() and storage.nbytes() == t.nbytes and storage.data_ptr() not in seen
        seen.add(storage.data_ptr())
        t = t.detach().resolve_conj().resolve_neg()
        tensors[name] = t if is_separate else t.clone(memory_format=torch.contiguous_format)
    return tensors


def _reason(error: Exception) -> str:
    """Returns the cause of an error on one line, without torch's advice to open the file anyway."""
    parts = [p.strip() for p in str(error).split("\n\n") if p.strip()]
    text = parts[1] if len(parts) > 1 and parts[0].startswith("Weights only load failed") else " ".join(parts)
    return f"{type(error).__name__}: {' '.join(text.split())[:300]}".rstrip(": ")
