"""Weight files of a model folder: writes safetensors, and loads them into a model.

Large models are written as several files (shards) with an index.
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from clearhead.files import safe_join
from clearhead.files.tensors import TensorInfo
from clearhead.hub.mapping import Family, Raw, WeightPair
from clearhead.layers.int8 import Int8Linear
from clearhead.models.model import Model

MAX_SHARD_BYTES = 4_000_000_000

# Suffixes after the name of an int8 tensor, and torchao's names of its parts.
_SCALE, _ZERO_POINT = "_scale", "_zero_point"
_TORCHAO_PARTS = {"qdata": "", "scale": _SCALE, "zero_point": _ZERO_POINT}


def write_weights(
    tensors: Mapping[str, Tensor],
    folder: Path,
    max_shard: int | str = MAX_SHARD_BYTES,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Writes `model.safetensors`, or shards with an index.

    `notes` are file metadata; a note whose value is a tensor name goes into that tensor's file.
    """
    from huggingface_hub import split_torch_state_dict_into_shards

    plan = split_torch_state_dict_into_shards(dict(tensors), max_shard_size=max_shard)
    for file, names in plan.filename_to_tensors.items():
        shard = {n: tensors[n] for n in names}
        metadata = {note: name for note, name in (notes or {}).items() if name in shard}
        save_file(shard, folder / file, metadata=metadata | {"format": "pt"})
    if plan.is_sharded:
        index = {"metadata": plan.metadata, "weight_map": plan.tensor_to_filename}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


class WeightReader:
    """Reads the tensors of a model folder one by one."""

    def __init__(self, folder: Path, headers: Mapping[str, Mapping[str, TensorInfo]]) -> None:
        self.folder = folder
        self.files = {_current_name(name): (name, file) for file, header in headers.items() for name in header}
        self.shapes = {new: headers[file][old].shape for new, (old, file) in self.files.items()}
        self.dtypes = {new: headers[file][old].dtype for new, (old, file) in self.files.items()}
        self.is_int8 = any(old.endswith("._weight_qdata") for old, _ in self.files.values())

    def read(self, name: str) -> Tensor:
        old, file = self.files[name]
        with safe_open(safe_join(self.folder, file), "pt") as opened:
            return opened.get_tensor(old)

    def find(self, name: str, family: Family) -> str | None:
        """Returns the name of a body tensor in this folder, with or without prefix or as an alias; None if missing."""
        bare = name.removeprefix(f"{family.prefix}.")
        for candidate in (bare, *family.aliases.get(bare, ())):
            for full in (f"{family.prefix}.{candidate}", candidate):
                if full in self.files:
                    return full
        return None

    def fill(
        self,
        model: Model,
        family: Family,
        architecture: str,
        dtype: torch.dtype | None,
        device: torch.device | str,
        raw: Raw,
        *,
        new_labels: bool = False,
    ) -> tuple[list[str], list[str]]:
        """Loads weights into a model on the meta device; returns newly initialized parameters and unused tensors.

        With `new_labels`, tensors of the head that have another shape are initialized instead of refused.
        """
        params = dict(model.named_parameters())
        scales = {f"{n}.weight": f"{n}.scale" for n, m in model.named_modules() if isinstance(m, Int8Linear)}
        pairs = family.pairs([n for n in params if n not in scales.values()], architecture)
        names = {p.hf_name: self._tensor_name(p, family) for p in pairs}
        if new_labels:
            for pair in pairs:
                name = names[pair.hf_name]
                if pair.in_head and name is not None and self.shapes[name] != _shape(pair, params):
                    names[pair.hf_name] = None
        missing = [p.hf_name for p in pairs if names[p.hf_name] is None]
        if required := [p.hf_name for p in pairs if names[p.hf_name] is None and not p.in_head]:
            raise ValueError(f"{self.folder} lacks {len(required)} weights of {architecture}: {_list_names(required)}")
        values: dict[str, Tensor] = {}
        with ExitStack() as stack:
            files = {f: stack.enter_context(safe_open(safe_join(self.folder, f), "pt")) for _, f in self.files.values()}
            for pair in pairs:
                name = names[pair.hf_name]
                if name is None:
                    continue
                self._check(name, pair, params)
                old, file = self.files[name]
                tensor = files[file].get_tensor(old)
                shapes = [params[n].shape for n in pair.params]
                for param, part in zip(pair.params, pair.tensor_map.read(tensor, shapes), strict=True):
                    part_dtype = (dtype or part.dtype) if part.is_floating_point() else part.dtype
                    values[param] = part.to(device=device, dtype=part_dtype, copy=True).contiguous()
                if pair.params[0] in scales:
                    parts = pair.tensor_map.read(self._read_scale(name), shapes)
                    values |= {scales[n]: part.to(device) for n, part in zip(pair.params, parts, strict=True)}
        initialized = [n for p in pairs if p.hf_name in missing for n in p.params]
        head_dtype = dtype or next((v.dtype for v in values.values()), torch.float32)
        for name in initialized:
            std = float(raw.get("initializer_range", 0.02))
            values[name] = _initialize(name, params[name].shape, std, head_dtype, device)
        _assign(model, params, values)
        model.to(device)
        used = {name for name in names.values() if name is not None} | {family.vocabulary(architecture)}
        used |= {f"{name}{suffix}" for name in used for suffix in (_SCALE, _ZERO_POINT)}
        used |= set(family.duplicated) | set(family.duplicated.values())
        used |= {n for aliases in family.aliases.values() for a in aliases for n in (a, f"{family.prefix}.{a}")}
        ignored = re.compile("|".join((*family.ignored, "(?!)")))
        return initialized, [n for n in self.files if n not in used and not ignored.fullmatch(n)]

    def _tensor_name(self, pair: WeightPair, family: Family) -> str | None:
        duplicate = family.duplicated.get(pair.hf_name)
        if duplicate in self.files:  # it counts if the two differ
            return duplicate
        if pair.hf_name in self.files:
            return pair.hf_name
        return self.find(pair.hf_name, family) if pair.prefixed else None

    def _check(self, name: str, pair: WeightPair, params: Mapping[str, nn.Parameter]) -> None:
        expected = _shape(pair, params)
        if self.shapes[name] != expected:
            raise ValueError(
                f"{self.folder}: {name} has shape {list(self.shapes[name])}, but config.json requires {list(expected)}"
            )
        if params[pair.params[0]].dtype == torch.int8:
            if self.dtypes[name] != "I8":
                raise ValueError(f"{self.folder}: {name} has dtype {self.dtypes[name]}, but int8 layers need I8")
        elif not self.dtypes[name].startswith(("F", "BF")):
            raise ValueError(f"{self.folder}: {name} has dtype {self.dtypes[name]}, which is not floating point")

    def _read_scale(self, name: str) -> Tensor:
        """Reads the scales of an int8 tensor, (outputs, 1)."""
        scale = f"{name}{_SCALE}"
        expected = (self.shapes[name][0], 1)
        if scale not in self.files or self.shapes[scale] != expected or not self.dtypes[scale].startswith(("F", "BF")):
            raise ValueError(f"{self.folder}: {name} is int8 and needs {scale}, {list(expected)} floating-point values")
        if f"{name}{_ZERO_POINT}" in self.files and self.read(f"{name}{_ZERO_POINT}").any():
            raise ValueError(f"{self.folder}: {name} has a nonzero zero point, which is not supported")
        return self.read(scale).float()


def _shape(pair: WeightPair, params: Mapping[str, nn.Parameter]) -> tuple[int, ...]:
    """Returns the shape that the tensor of a pair must have in the folder."""
    return pair.tensor_map.shape([params[n].shape for n in pair.params])


def _current_name(name: str) -> str:
    """Maps norm names from before 2019 to current ones, and torchao's names of int8 tensors to plain ones."""
    name = re.sub(r"\._weight_(qdata|scale|zero_point)$", lambda m: f".weight{_TORCHAO_PARTS[m[1]]}", name)
    return re.sub(r"LayerNorm\.(gamma|beta)$", lambda m: f"LayerNorm.{'weight' if m[1] == 'gamma' else 'bias'}", name)


def _initialize(name: str, shape: torch.Size, std: float, dtype: torch.dtype, device: torch.device | str) -> Tensor:
    """Returns a new head parameter: normal weights, ones for norms, zeros for biases."""
    if name.endswith(".bias"):
        return torch.zeros(shape, dtype=dtype, device=device)
    if name.endswith("norm.weight"):
        return torch.ones(shape, dtype=dtype, device=device)
    return torch.empty(shape, dtype=dtype, device=device).normal_(std=std)


def _assign(model: nn.Module, params: Mapping[str, nn.Parameter], values: Mapping[str, Tensor]) -> None:
    """Replaces meta parameters by real tensors; parameters shared under two names stay shared."""
    owners: dict[int, list[tuple[nn.Module, str]]] = defaultdict(list)
    for module in model.modules():
        for name, param in module._parameters.items():
            if param is not None:
                owners[id(param)].append((module, name))
    for name, old in params.items():
        new = nn.Parameter(values[name], requires_grad=values[name].is_floating_point())
        for module, attribute in owners[id(old)]:
            module._parameters[attribute] = new


def _list_names(names: list[str], limit: int = 4) -> str:
    return ", ".join(names[:limit]) + (", …" if len(names) > limit else "")
