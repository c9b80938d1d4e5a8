"""ONNX: an encoder with its head as a folder that ONNX Runtime and the tools around it open.

`torch.export` traces the padded form with batch and length left open. Beside `model.onnx` lie the tokenizer and
`config.json`, so that code which knows `transformers` finds what it looks for.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.attention import Layout
from clearhead.files import new_folder
from clearhead.models.answers import Says
from clearhead.models.beside import Run
from clearhead.models.int8 import is_int8
from clearhead.models.padded import Padded
from clearhead.models.store import Opened

MODEL = "model.onnx"
QUANTIZATIONS = ("int8",)
_EXAMPLE = (3, 5)  # any sizes but 0 and 1, which tracing takes for constants


def export_onnx(
    opened: Opened, folder: str | Path, *, quantization: str | None = None, overwrite: bool = False
) -> None:
    """Write `folder`: whole, or not at all.

    The graph takes `input_ids` and `attention_mask`, (batch, length) int64, and `token_type_ids` where the model has
    segments; its outputs have the names that `transformers` gives them, and `sentence_embedding` where the folder says
    how tokens become one vector. `quantization="int8"` has ONNX Runtime round weights, by output, and activations, as
    they come.
    """
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise ValueError(f"there is no quantization {quantization!r} for ONNX: choose {', '.join(QUANTIZATIONS)}")
    says = Says.of(opened)
    if is_int8(opened.model):
        raise ValueError("this model is int8 already: export the one it was made from, with --quantization int8")
    _need()
    with new_folder(folder, overwrite=overwrite) as target:
        program = _traced(opened, says)
        if quantization is None:
            program.save(str(target / MODEL))
        else:
            _quantise(program, target)
        config = opened.family.write(opened.config, opened.architecture, opened.raw) | {"dtype": "float32"}
        config.pop("clearhead", None)  # no manifest belongs to this folder
        text = json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False)
        (target / "config.json").write_text(text + "\n", encoding="utf-8")
        for name, data in opened.carried.items():
            (target / name).parent.mkdir(exist_ok=True)
            (target / name).write_bytes(data)
        if opened.tokenizer is not None:
            opened.tokenizer.save(target)


def open_onnx(opened: Opened, folder: str | Path) -> Run:
    """What was exported from `opened`, run by ONNX Runtime on as many threads as torch takes: ragged in, ragged out."""
    _need()
    import onnxruntime  # type: ignore[import-not-found]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(Path(folder) / MODEL), options, providers=["CPUExecutionProvider"])
    says, names = Says.of(opened), inputs(opened)

    def run(ids: Tensor, layout: Layout, segments: Tensor | None) -> dict[str, Tensor]:
        rows = ids, torch.ones_like(ids), torch.zeros_like(ids) if segments is None else segments
        feed = {name: layout.pad(row).numpy() for name, row in zip(names, rows, strict=False)}
        outs = zip(says.names, map(torch.from_numpy, session.run(None, feed)), strict=True)
        return {name: layout.unpad(out) if name in says.of_tokens else out for name, out in outs}

    return run


def inputs(opened: Opened) -> tuple[str, ...]:
    """The names of what the graph takes."""
    names = ("input_ids", "attention_mask")
    return (*names, "token_type_ids") if opened.has_segments else names


def _need() -> None:
    try:
        import onnx  # noqa: F401  # type: ignore[import-not-found]
        import onnxruntime  # noqa: F401  # type: ignore[import-not-found]
        import onnxscript  # noqa: F401  # type: ignore[import-not-found]
    except ImportError as error:
        raise ValueError(f"export to ONNX needs {error.name}: pip install 'clearhead[onnx]'") from None


def _traced(opened: Opened, says: Says) -> Any:
    names = inputs(opened)
    example = tuple(torch.ones(_EXAMPLE, dtype=torch.int64) for _ in names)  # one tensor thrice would be one input
    with _hushed():
        return torch.onnx.export(
            Padded(opened.model, says),
            example,
            dynamo=True,
            input_names=list(names),
            output_names=list(says.names),
            dynamic_shapes=tuple({0: "batch", 1: "length"} for _ in names),
            verbose=False,
        )


def _quantise(program: Any, target: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic  # type: ignore[import-not-found]

    proto = program.model_proto
    del proto.graph.value_info[:]  # shapes noted by the exporter, of layers that are rewritten here
    with _hushed():
        quantize_dynamic(proto, target / MODEL, weight_type=QuantType.QInt8, per_channel=True)


@contextmanager
def _hushed() -> Generator[None]:
    """What the exporters say of their own workings is nothing a user could act on."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
