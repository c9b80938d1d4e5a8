"""A model folder whose weights are a pickle, made anew with safetensors.

A pickle is a program: who opens it runs it. This is the one place in clearhead that opens one, with torch's reader of
weights, which knows tensors and nothing else, in a process of its own that ends when the weights are written.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.files import (
    MANIFEST,
    MARKER,
    Missing,
    inside,
    new_folder,
    read_config,
    read_json,
    sha256,
    weight_headers,
    write_atomic,
    write_manifest,
)
from clearhead.models.shards import SHARD, write_weights

_PICKLE = "pytorch_model.bin"
_INDEX = "pytorch_model.bin.index.json"
_KEPT = {".json", ".txt", ".model", ".spm", ".jinja", ".md"}
_DTYPES = {
    torch.bool, torch.uint8, torch.int8, torch.uint16, torch.int16, torch.uint32, torch.int32, torch.uint64,
    torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """What became of a folder: all names are relative to it."""

    tensors: int
    bytes: int
    tied: dict[str, str]  # the names left out because they are the same tensor as another: name -> the one kept
    files: list[str]  # in the new folder
    left: list[str]  # in the old one, not copied
    sha256: dict[str, str]  # of the pickles


def convert(old: str | Path, new: str | Path, *, max_shard: int = SHARD) -> Conversion:
    """Make the folder `new` from `old`, whose weights are `pytorch_model.bin`, whole or sharded.

    The weights become `model.safetensors` (with an index beyond `max_shard` bytes), tokenizer and configuration are
    copied, a manifest is written. Code, other pickles and folders stay behind. ValueError says what is wrong with
    `old`; nothing is left of `new` then.
    """
    old = Path(old)
    config = read_config(old)
    pickles, claimed = _pickles(old)
    names = sorted(p.name + "/" * p.is_dir() for p in old.iterdir() if p.name not in pickles)
    keep = [n for n in names if (Path(n).suffix in _KEPT or n.startswith("LICENSE")) and n not in (_INDEX, MANIFEST)]
    hashes = {name: sha256(path) for name, path in pickles.items()}
    with new_folder(new) as folder:
        tied = _rewrite_in_child(pickles, folder, max_shard)
        for name in keep:
            shutil.copyfile(inside(old, name), folder / name)
        write_atomic(folder / "config.json", json.dumps(config | MARKER, indent=2) + "\n")
        headers = weight_headers(folder)  # read as carefully as if a stranger had written it
        weights = {name: tensor for header in headers.values() for name, tensor in header.items()}
        if claimed is not None and claimed != weights.keys() | tied.keys():
            odd = sorted(claimed ^ (weights.keys() | tied.keys()))
            raise ValueError(f"{old / _INDEX} and the files it names do not agree about {odd[0]!r:.100}")
        write_manifest(folder, {"provenance": {"converted_from": hashes, "tied": tied}})
        return Conversion(
            tensors=len(weights),
            bytes=sum(t.end - t.begin for t in weights.values()),
            tied=tied,
            files=sorted(p.name for p in folder.iterdir()),
            left=[n for n in names if n not in keep],
            sha256=hashes,
        )


def _pickles(old: Path) -> tuple[dict[str, Path], set[str] | None]:
    """The pickles of a folder by name, and the tensors that an index says are in them."""
    if any(old.glob("model*.safetensors")):
        raise ValueError(f"{old} has its weights as safetensors already: there is nothing to convert")
    try:
        return {_PICKLE: inside(old, _PICKLE)}, None
    except Missing:
        pass
    try:
        weight_map = read_json(old, _INDEX).get("weight_map")
    except Missing:
        raise ValueError(f"{old} has no weights to convert: looked for {_PICKLE} and {_INDEX}") from None
    if not isinstance(weight_map, dict) or not weight_map:
        raise ValueError(f"{old / _INDEX} must have a weight_map from tensor names to file names")
    for name in weight_map.values():
        if not isinstance(name, str) or "/" in name or not name.endswith(".bin"):
            raise ValueError(f"{old / _INDEX} names {name!r:.100} as a file: a plain name ending in .bin is due")
    return {name: inside(old, name) for name in sorted(set(weight_map.values()))}, set(weight_map)


def _rewrite_in_child(pickles: dict[str, Path], folder: Path, max_shard: int) -> dict[str, str]:
    """Let a fresh process read the pickles and write safetensors into `folder`; gives what was tied."""
    job = {"pickles": {n: str(p.absolute()) for n, p in pickles.items()}, "folder": str(folder), "max_shard": max_shard}
    code = "from clearhead.models.convert import child; child()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], input=json.dumps(job), capture_output=True, text=True, errors="replace"
    )
    names = ", ".join(pickles)
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        why = "it ran out of memory, or somebody ended it" if name == "SIGKILL" else "the file may be broken"
        raise ValueError(f"the process that read {names} was ended by {name}: {why}")
    if done.returncode > 0:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ValueError(f"the process that read {names} failed: {last}")
    result = json.loads(done.stdout.rpartition("\n")[2])  # a library may have said something before
    if "refused" in result:
        raise ValueError(result["refused"])
    return result["tied"]


def child() -> None:
    """What the child does: one job from standard input, one answer to standard output."""
    job = json.load(sys.stdin)
    try:
        state: dict[str, Tensor] = {}
        for name, path in job["pickles"].items():
            part = _read(name, Path(path))
            if twice := sorted(state.keys() & part.keys()):
                raise ValueError(f"{name} holds {twice[0]!r:.100}, which another file holds too: which one counts?")
            state |= part
        limit = 4 * sum(Path(path).stat().st_size for path in job["pickles"].values())
        answer: dict[str, Any] = {"tied": _write(state, Path(job["folder"]), job["max_shard"], limit)}
    except ValueError as error:
        answer = {"refused": str(error)}
    except Exception as error:
        answer = {"refused": f"the weights cannot be written: {_reason(error)}"}
    sys.stdout.write("\n" + json.dumps(answer))


def _read(name: str, path: Path) -> dict[str, Tensor]:
    """The tensors of one pickle."""
    try:
        with path.open("rb") as file:
            zipped = file.read(4) == b"PK\3\4"
        if zipped:
            _check_archive(path)
        state: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except Exception as error:
        raise ValueError(
            f"{name} is refused, because torch cannot read it as weights and nothing else ({_reason(error)}); "
            "look for the same model as safetensors"
        ) from None
    if not isinstance(state, dict) or not state:
        raise ValueError(f"{name} holds {type(state).__name__} and no tensors: a state dict is due")
    for key, value in state.items():
        if not isinstance(key, str) or type(value) not in (Tensor, torch.nn.Parameter):
            raise ValueError(
                f"{name} holds {key!r:.100}: {type(value).__name__}, where only tensors are due; "
                "save the state dict of the model alone"
            )
        if value.device.type != "cpu" or value.layout != torch.strided or value.dtype not in _DTYPES:
            raise ValueError(f"{name} holds {key!r:.100}, a {value.layout} tensor of {value.dtype}: safetensors cannot")
    return state


def _check_archive(path: Path) -> None:
    """Refuse an archive that unpacks to more than it is: torch stores its records as they are."""
    with zipfile.ZipFile(path) as archive:
        records = archive.infolist()
    if any(r.compress_type != zipfile.ZIP_STORED for r in records):
        raise ValueError("it is a compressed archive, which torch does not write")
    if sum(r.file_size for r in records) > path.stat().st_size:
        raise ValueError("its records are larger than the file")


def _write(state: dict[str, Tensor], folder: Path, max_shard: int, limit: int) -> dict[str, str]:
    """Write the tensors as safetensors; of names for the same tensor the first is kept, and the others are told."""
    first: dict[tuple[Any, ...], str] = {}
    tied: dict[str, str] = {}
    for name, t in state.items():
        where = (t.untyped_storage().data_ptr(), t.storage_offset())
        what = (t.shape, t.stride(), t.dtype, t.is_conj(), t.is_neg())
        kept = first.setdefault((*where, *what), name) if t.numel() else name
        if kept != name:
            tied[name] = kept
    rest = {name: t for name, t in state.items() if name not in tied}
    if (size := sum(t.numel() * t.itemsize for t in rest.values())) > limit:
        raise ValueError(f"the tensors would take {size:,} bytes, far more than the file that holds them: refused")
    write_weights(_apart(rest), folder, max_shard, notes=tied)
    return tied


def _apart(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors each contiguous and alone in its memory; those that are so already are not copied."""
    seen: set[int] = set()
    tensors: dict[str, Tensor] = {}
    for name, t in state.items():
        storage = t.untyped_storage()
        alone = t.is_contiguous() and storage.nbytes() == t.nbytes and storage.data_ptr() not in seen
        seen.add(storage.data_ptr())
        t = t.detach().resolve_conj().resolve_neg()
        tensors[name] = t if alone else t.clone(memory_format=torch.contiguous_format)
    return tensors


def _reason(error: Exception) -> str:
    """The part of a message that says what is wrong, on one line; torch wraps it in advice to open the file anyway."""
    parts = [p.strip() for p in str(error).split("\n\n") if p.strip()]
    text = parts[1] if len(parts) > 1 and parts[0].startswith("Weights only load failed") else " ".join(parts)
    return f"{type(error).__name__}: {' '.join(text.split())[:300]}".rstrip(": ")
