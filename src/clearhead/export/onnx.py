"""Exports an encoder with its head to ONNX.

`torch.export` traces the padded encoder with dynamic batch size and length. The folder holds `model.onnx`, the
tokenizer and `config.json`, as `transformers` and its tools expect.
"""

import json
import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.attention import Layout
from clearhead.export.compare import Run
from clearhead.export.outputs import OutputSpec
from clearhead.export.padded_encoder import PaddedEncoder
from clearhead.files import new_folder
from clearhead.hub.folder import LoadedModel
from clearhead.layers.int8 import is_int8

MODEL = "model.onnx"
QUANTIZATIONS = ("int8",)
_EXAMPLE = (3, 5)  # batch and length of the traced example; 0 and 1 would become constants


def export_onnx(
    loaded: LoadedModel, folder: str | Path, *, quantization: str | None = None, overwrite: bool = False
) -> None:
    """Writes `folder` atomically.

    The graph takes `input_ids` and `attention_mask`, (batch, length) int64, and `token_type_ids` if the model has
    segments. Outputs have their `transformers` names, and `sentence_embedding` if the folder has sentence-transformers
    settings. `quantization="int8"` applies ONNX Runtime's dynamic quantization, with weights per output channel.
    """
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise ValueError(f"there is no quantization {quantization!r} for ONNX: choose {', '.join(QUANTIZATIONS)}")
    spec = OutputSpec.for_model(loaded)
    if is_int8(loaded.model):
        raise ValueError("this model is already int8: export the original with --quantization int8")
    _require_onnx()
    with new_folder(folder, overwrite=overwrite) as target:
        program = _trace(loaded, spec)
        if quantization is None:
            program.save(str(target / MODEL))
        else:
            _quantize(program, target)
        config = loaded.family.write(loaded.config, loaded.architecture, loaded.hf_config) | {"dtype": "float32"}
        config.pop("clearhead", None)  # this folder has no manifest
        text = json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False)
        (target / "config.json").write_text(text + "\n", encoding="utf-8")
        for name, data in loaded.extra_files.items():
            (target / name).parent.mkdir(exist_ok=True)
            (target / name).write_bytes(data)
        if loaded.tokenizer is not None:
            loaded.tokenizer.save(target)


def open_onnx(loaded: LoadedModel, folder: str | Path) -> Run:
    """Returns a function that runs the export of `loaded` on ragged batches with ONNX Runtime, on torch's threads."""
    _require_onnx()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(Path(folder) / MODEL), options, providers=["CPUExecutionProvider"])
    spec, names = OutputSpec.for_model(loaded), inputs(loaded)

    def run(ids: Tensor, layout: Layout, segments: Tensor | None) -> dict[str, Tensor]:
        rows = ids, torch.ones_like(ids), torch.zeros_like(ids) if segments is None else segments
        feed = {name: layout.pad(row).numpy() for name, row in zip(names, rows, strict=False)}
        outs = zip(spec.names, map(torch.from_numpy, session.run(None, feed)), strict=True)
        return {name: layout.unpad(out) if name in spec.of_tokens else out for name, out in outs}

    return run


def inputs(loaded: LoadedModel) -> tuple[str, ...]:
    names = ("input_ids", "attention_mask")
    return (*names, "token_type_ids") if loaded.has_segments else names


def _require_onnx() -> None:
    try:
        for name in ("onnx", "onnxruntime", "onnxscript"):
            import_module(name)
    except ImportError as error:
        raise ValueError(f"export to ONNX needs {error.name}: pip install 'clearhead[onnx]'") from None


def _trace(loaded: LoadedModel, spec: OutputSpec) -> Any:
    names = inputs(loaded)
    # one tensor used thrice would become one input
    example = tuple(torch.ones(_EXAMPLE, dtype=torch.int64) for _ in names)
    shapes = tuple({0: "batch", 1: "length"} for _ in names)
    labels: dict[str, Any] = {"input_names": list(names), "output_names": list(spec.names)}
    model = PaddedEncoder(loaded.model, spec)
    with _no_warnings():
        return torch.onnx.export(model, example, dynamo=True, dynamic_shapes=shapes, verbose=False, **labels)


def _quantize(program: Any, target: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    proto = program.model_proto
    del proto.graph.value_info[:]  # shapes recorded by the exporter, of layers that are rewritten here
    with _no_warnings():
        quantize_dynamic(proto, target / MODEL, weight_type=QuantType.QInt8, per_channel=True)


@contextmanager
def _no_warnings() -> Generator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
