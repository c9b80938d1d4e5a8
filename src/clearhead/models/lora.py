"""LoRA: a trained matrix stays as it is, and the product of two narrow ones is learnt beside it (Hu et al. 2021).

The sum takes the matrix' place, so that every kernel and every `look` sees an ordinary linear layer. Merged, it is one;
apart, the narrow matrices are a small folder that PEFT opens.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.utils import parametrize

from clearhead.files import new_folder
from clearhead.models.model import Model
from clearhead.models.store import Opened

MODULES = ("query", "key", "value", "output", "up", "down", "gate")
BESIDE = ".parametrizations.weight.0."  # in the names of parameters that stand beside a layer's own
TASKS = {"sequence": "SEQ_CLS", "token": "TOKEN_CLS", "span": "QUESTION_ANS", "vocabulary": "CAUSAL_LM"}  # PEFT's names


@dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """How narrow, how strong, and beside which layers of the body."""

    rank: int = 8
    alpha: float = 16.0  # the product counts alpha / rank
    modules: tuple[str, ...] = ("query", "value")

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"model.lora.rank is {self.rank}: at least 1")
        for name in self.modules:
            if name not in MODULES:
                raise ValueError(f"model.lora.modules: there is no {name!r}; choose of {', '.join(MODULES)}")


class Beside(nn.Module):
    """A matrix (out, in) plus `scale` times b a, of which b is 0 at first."""

    def __init__(self, weight: Tensor, config: LoraConfig) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.empty(config.rank, weight.shape[1], device=weight.device))
        self.b = nn.Parameter(torch.zeros(weight.shape[0], config.rank, device=weight.device))
        self.scale = config.alpha / config.rank
        if self.a.device.type != "meta":
            nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    def forward(self, weight: Tensor) -> Tensor:
        with torch.autocast(weight.device.type, enabled=False):
            return weight + self.scale * (self.b @ self.a)


def attach(model: Model, config: LoraConfig) -> None:
    """Put narrow matrices beside layers of the body; its own weights are no longer trained, the head's are."""
    for stack in (model.encoder, model.decoder):
        if stack is None:
            continue
        stack.requires_grad_(False)
        chosen = [
            module
            for name, module in stack.named_modules()
            if isinstance(module, nn.Linear) and name.rpartition(".")[2] in config.modules
        ]
        if not chosen:
            raise ValueError(f"model.lora: this body has no layer called {' or '.join(config.modules)}")
        for module in chosen:
            parametrize.register_parametrization(module, "weight", Beside(module.weight, config))


def merge(model: Model) -> None:
    """Make the sums the matrices: an ordinary model again."""
    for module in model.modules():
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight")


def save_adapter(opened: Opened, config: LoraConfig, folder: Path, *, base: str = "") -> None:
    """Write the narrow matrices and the head as PEFT has them; `opened` holds the model before it is merged."""
    params = {name: p.detach().cpu() for name, p in opened.model.named_parameters()}
    own = (name for name in params if BESIDE not in name)
    plain = [name.replace(".parametrizations.weight.original", ".weight") for name in own]
    theirs = {pair.ours[0]: pair for pair in opened.family.pairs(plain, opened.architecture)}
    tensors: dict[str, Tensor] = {}
    targets: set[str] = set()
    heads: set[str] = set()
    for name, value in params.items():
        before, mark, part = name.partition(BESIDE)
        if mark:
            pair = theirs[f"{before}.weight"]
            if len(pair.ours) > 1 or pair.how.transposed:
                raise ValueError(f"{opened.family.title} keeps {before} joined with others, where no adapter fits")
            module = pair.theirs.removesuffix(".weight")
            targets.add(module)
            tensors[f"base_model.model.{module}.lora_{part.upper()}.weight"] = value.contiguous()
        elif name.startswith("head."):
            pair = theirs[name]
            heads.add(_head(pair.theirs))
            tensors[f"base_model.model.{pair.theirs}"] = pair.how.write([value])
    kind = "" if opened.config.head is None else opened.config.head.kind
    told = {
        "peft_type": "LORA",
        "task_type": TASKS.get(kind),
        "r": config.rank,
        "lora_alpha": config.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(targets),
        "modules_to_save": sorted(heads),
        "base_model_name_or_path": base,
        "inference_mode": True,
    }
    with new_folder(folder, overwrite=True) as target:
        save_file(tensors, target / "adapter_model.safetensors", metadata={"format": "pt"})
        (target / "adapter_config.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def _head(theirs: str) -> str:
    """The module of theirs that holds a tensor of the head: `classifier`, or `pooler` of `bert.pooler.dense.weight`."""
    parts = theirs.split(".")
    return parts[0] if len(parts) == 2 else parts[-3]
