"""torchao: an encoder whose blocks are int8, as a folder that clearhead opens, and `transformers` with torchao."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor, nn

from clearhead.files.tensors import WEIGHTS
from clearhead.models.answers import Says
from clearhead.models.int8 import is_int8, layers
from clearhead.models.store import Opened, save_folder


def export_int8(opened: Opened, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write `folder`: whole, or not at all. Linear layers of blocks are int8, all else is as it was.

    Weights are rounded by output, symmetrically; the folder says that activations are rounded by token.
    """
    Says.of(opened)
    if is_int8(opened.model):
        raise ValueError("this model is int8 already: copy its folder")
    quantize = _quantizer()
    names = {name for name, _ in opened.model.named_parameters()}
    inside = {f"{name}.weight" for name in layers(opened.model)}
    linear = {f"{name}.weight" for name, m in opened.model.named_modules() if isinstance(m, nn.Linear)}
    pairs = [pair for pair in opened.family.pairs(names, opened.architecture) if linear.issuperset(pair.ours)]
    rounded = {pair.theirs for pair in pairs if inside.issuperset(pair.ours)}
    kept = sorted(pair.theirs.removesuffix(".weight") for pair in pairs if pair.theirs not in rounded)

    def write(tensors: Mapping[str, Tensor], target: Path) -> None:
        flat, notes = quantize.flat({n: quantize(t) if n in rounded else t for n, t in tensors.items()})
        save_file({n: t.contiguous() for n, t in flat.items()}, target / WEIGHTS, metadata=notes | {"format": "pt"})

    settings = {"quantization_config": {**quantize.config(), "modules_to_not_convert": kept}}
    save_folder(opened, folder, overwrite=overwrite, settings=settings, write=write)


class _Quantizer:
    """What is torchao's."""

    def __init__(self) -> None:
        from torchao.core.config import config_to_dict  # type: ignore[import-not-found]
        from torchao.prototype.safetensors.safetensors_support import (  # type: ignore[import-not-found]
            flatten_tensor_state_dict,
        )
        from torchao.quantization import (  # type: ignore[import-not-found]
            Int8DynamicActivationInt8WeightConfig,
            quantize_,
        )

        self._scheme: Any = Int8DynamicActivationInt8WeightConfig(set_inductor_config=False)
        self._quantize: Any = quantize_
        self._dict: Any = config_to_dict
        self.flat: Any = flatten_tensor_state_dict

    def __call__(self, weight: Tensor) -> Tensor:
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
        layer.weight = nn.Parameter(weight.float(), requires_grad=False)
        self._quantize(holder := nn.Sequential(layer), self._scheme)
        return holder[0].weight.data  # type: ignore[return-value]

    def config(self) -> dict[str, Any]:
        """The scheme as `transformers` keeps it in config.json."""
        return {"quant_method": "torchao", "quant_type": {"default": self._dict(self._scheme)}}


def _quantizer() -> _Quantizer:
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # of kernels for GPUs that are not here
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _Quantizer()
    except ImportError as error:
        raise ValueError(f"int8 needs {error.name}: pip install 'clearhead[int8]'") from None
    finally:
        logging.disable(before)
