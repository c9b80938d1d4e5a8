"""LoRA: trains a low-rank update of frozen weight matrices (Hu et al. 2021).

The update is a parametrization of the weight, so every kernel and every `look` sees an ordinary linear layer. It can be
merged into the weight, or saved as an adapter folder that PEFT opens.
"""

import json
import math
from dataclasses import dataclass

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.utils import parametrize

from clearhead.files.manifest import Folder
from clearhead.files.s3_folder import new_folder_at
from clearhead.hub.folder import LoadedModel
from clearhead.models.model import Model

MODULES = ("query", "key", "value", "output", "up", "down", "gate")
LORA_INFIX = ".parametrizations.weight.0."  # in the names of the adapter's parameters
PEFT_TASKS = {"sequence": "SEQ_CLS", "token": "TOKEN_CLS", "span": "QUESTION_ANS", "lm": "CAUSAL_LM"}


@dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """Rank, scaling and target layers of LoRA."""

    rank: int = 8
    alpha: float = 16.0  # the update is scaled by alpha / rank
    modules: tuple[str, ...] = ("query", "value")

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"model.lora.rank is {self.rank}: it must be at least 1")
        for name in self.modules:
            if name not in MODULES:
                raise ValueError(f"model.lora.modules: there is no {name!r}; choose from {', '.join(MODULES)}")


class LoraDelta(nn.Module):
    """Adds `scale` times b a to a weight (out, in); b is initialized to 0."""

    def __init__(self, weight: Tensor, config: LoraConfig) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.empty(config.rank, weight.shape[1], device=weight.device))
        self.b = nn.Parameter(torch.zeros(weight.shape[0], config.rank, device=weight.device))
        self.scale = config.alpha / config.rank
        if self.a.device.type != "meta":
            nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    def forward(self, weight: Tensor) -> Tensor:
        with torch.autocast("cpu" if weight.is_meta else weight.device.type, enabled=False):
            return weight + self.scale * (self.b @ self.a)


def attach(model: Model, config: LoraConfig) -> None:
    """Adds LoRA to layers of the body and freezes its weights; the head stays trainable."""
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
            raise ValueError(f"model.lora: this model has no layer called {' or '.join(config.modules)}")
        for module in chosen:
            parametrize.register_parametrization(module, "weight", LoraDelta(module.weight, config))


def merge(model: Model) -> None:
    for module in model.modules():
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight")


def save_adapter(loaded: LoadedModel, config: LoraConfig, folder: Folder, *, base: str = "") -> None:
    """Writes the update matrices and the head as a PEFT adapter; `loaded` holds the model before merging."""
    params = {name: p.detach().cpu() for name, p in loaded.model.named_parameters()}
    base_names = (name for name in params if LORA_INFIX not in name)
    plain = [name.replace(".parametrizations.weight.original", ".weight") for name in base_names]
    pairs = {pair.params[0]: pair for pair in loaded.family.pairs(plain, loaded.architecture)}
    tensors: dict[str, Tensor] = {}
    targets: set[str] = set()
    heads: set[str] = set()
    for name, value in params.items():
        module_name, infix, part = name.partition(LORA_INFIX)
        if infix:
            pair = pairs[f"{module_name}.weight"]
            if len(pair.params) > 1 or pair.tensor_map.transposed:
                raise ValueError(
                    f"{loaded.family.title} stores {module_name} joined with other layers, which PEFT cannot adapt"
                )
            module = pair.hf_name.removesuffix(".weight")
            targets.add(module)
            tensors[f"base_model.model.{module}.lora_{part.upper()}.weight"] = value.contiguous()
        elif name.startswith("head."):
            pair = pairs[name]
            heads.add(_head_module(pair.hf_name))
            tensors[f"base_model.model.{pair.hf_name}"] = pair.tensor_map.write([value])
    kind = "" if loaded.config.head is None else loaded.config.head.kind
    adapter_config = {
        "peft_type": "LORA",
        "task_type": PEFT_TASKS.get(kind),
        "r": config.rank,
        "lora_alpha": config.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(targets),
        "modules_to_save": sorted(heads),
        "base_model_name_or_path": base,
        "inference_mode": True,
    }
    with new_folder_at(folder, overwrite=True) as target:
        save_file(tensors, target / "adapter_model.safetensors", metadata={"format": "pt"})
        (target / "adapter_config.json").write_text(json.dumps(adapter_config, indent=2) + "\n", encoding="utf-8")


def _head_module(name: str) -> str:
    """Returns the Hugging Face module of a head tensor: `classifier`, or `pooler` for `bert.pooler.dense.weight`."""
    parts = name.split(".")
    return parts[0] if len(parts) == 2 else parts[-3]
