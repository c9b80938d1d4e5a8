"""Exports an encoder with int8 blocks, in torchao's format, which clearhead and `transformers` open."""

import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor, nn

from clearhead.export.outputs import OutputSpec
from clearhead.files.tensors import WEIGHTS
from clearhead.hub.folder import LoadedModel, save_folder
from clearhead.layers.int8 import is_int8, layers


def export_int8(loaded: LoadedModel, folder: str | Path, *, overwrite: bool = False) -> None:
    """Writes `folder` atomically, with the linear layers of blocks in int8 and all else unchanged.

    Weights are quantized symmetrically per output channel; the config sets dynamic per-token activation quantization.
    """
    OutputSpec.for_model(loaded)
    if is_int8(loaded.model):
        raise ValueError("this model is already int8: copy its folder")
    quantize = _quantizer()
    names = {name for name, _ in loaded.model.named_parameters()}
    block_weights = {f"{name}.weight" for name in layers(loaded.model)}
    linear_weights = {f"{name}.weight" for name, m in loaded.model.named_modules() if isinstance(m, nn.Linear)}
    pairs = [pair for pair in loaded.family.pairs(names, loaded.architecture) if linear_weights.issuperset(pair.params)]
    quantized = {pair.hf_name for pair in pairs if block_weights.issuperset(pair.params)}
    unconverted = sorted(pair.hf_name.removesuffix(".weight") for pair in pairs if pair.hf_name not in quantized)

    def write(tensors: Mapping[str, Tensor], target: Path) -> None:
        flat, notes = quantize.flat({n: quantize(t) if n in quantized else t for n, t in tensors.items()})
        save_file({n: t.contiguous() for n, t in flat.items()}, target / WEIGHTS, metadata=notes | {"format": "pt"})

    settings = {"quantization_config": {**quantize.config(), "modules_to_not_convert": unconverted}}
    save_folder(loaded, folder, overwrite=overwrite, settings=settings, write=write)


class _TorchaoQuantizer:
    """Quantizes weights with torchao."""

    def __init__(self) -> None:
        from torchao.core.config import config_to_dict
        from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
        from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

        self._scheme: Any = Int8DynamicActivationInt8WeightConfig(set_inductor_config=False)
        self._quantize: Any = quantize_
        self._dict: Any = config_to_dict
        self.flat: Any = flatten_tensor_state_dict

    def __call__(self, weight: Tensor) -> Tensor:
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
        layer.weight = nn.Parameter(weight.float(), requires_grad=False)
        self._quantize(holder := nn.Sequential(layer), self._scheme)
        return holder.get_parameter("0.weight").data

    def config(self) -> dict[str, Any]:
        return {"quant_method": "torchao", "quant_type": {"default": self._dict(self._scheme)}}


def _quantizer() -> _TorchaoQuantizer:
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # torchao warns about missing GPU kernels
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _TorchaoQuantizer()
    except ImportError as error:
        raise ValueError(f"int8 needs {error.name}: pip install 'clearhead[int8]'") from None
    finally:
        logging.disable(before)
