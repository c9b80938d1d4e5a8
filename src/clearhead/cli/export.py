"""`clearhead export`: write a model for another inference engine."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import JsonOption

ENGINES = ("ctranslate2", "onnx", "int8")


@report_errors
def export(
    model: Annotated[str, typer.Argument(help="Model folder, model name on the Hugging Face hub, or package:NAME.")],
    to: Annotated[str, typer.Option(help="ctranslate2 for models that generate text; onnx or int8 for encoders.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write; it must be empty or not exist.")],
    quantization: Annotated[
        str | None,
        typer.Option(help="onnx: int8. ctranslate2: int8, int8_float16, int16, float16, bfloat16, … Default: float32."),
    ] = None,
    measure: Annotated[bool, typer.Option(help="Compare an exported encoder with the original.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Export a model to ONNX, int8 or CTranslate2.

    The tokenizer is exported with it, and an encoder is compared with the original: largest difference and speed.
    ctranslate2: models like Marian, BART and GPT-2, for a small C++ engine; in float32 it gives the same tokens. onnx:
    encoders with their heads, for ONNX Runtime. int8: encoders with blocks quantized by torchao, for `clearhead.load`
    and transformers.

    Example: clearhead export my-classifier --to onnx --out my-classifier-onnx --quantization int8
    """
    if to not in ENGINES:
        raise ValueError(f"unknown export format {to!r}: choose {', '.join(ENGINES)}")
    if to == "int8" and quantization is not None:
        raise ValueError(f"--quantization {quantization} is for onnx and ctranslate2: --to int8 is always int8")
    from clearhead.decode import export as export_ctranslate2
    from clearhead.export.compare import compare_exported, ragged
    from clearhead.export.onnx import export_onnx, open_onnx
    from clearhead.export.torchao import export_int8
    from clearhead.hub.folder import open_folder
    from clearhead.pipeline import load

    pipeline = load(model, dtype="float32")
    loaded = pipeline.loaded
    if to == "ctranslate2":
        generator = pipeline.generator
        parts = generator.model, generator.tokenizer, generator.defaults.constraints
        export_ctranslate2(*parts, out, quantization=quantization)
    elif to == "onnx":
        export_onnx(loaded, out, quantization=quantization)
    else:
        export_int8(loaded, out)
    size = sum(f.stat().st_size for f in out.rglob("*") if f.is_file())
    dtype = "int8" if to == "int8" else quantization or "float32"
    result: dict[str, Any] = {"folder": str(out), "engine": to, "dtype": dtype, "bytes": size}
    if measure and to != "ctranslate2" and loaded.tokenizer is not None:
        run = open_onnx(loaded, out) if to == "onnx" else ragged(open_folder(out))
        result |= asdict(compare_exported(loaded, run))
    typer.echo(json.dumps(result) if as_json else "\n".join(_lines(result)))


def _lines(result: dict[str, Any]) -> list[str]:
    lines = [f"{result['folder']}: {result['bytes'] / 1e6:,.1f} MB, {result['dtype']}"]
    if "sequences_per_s" in result:
        speed, original = result["sequences_per_s"], result["original_sequences_per_s"]
        lines += [
            f"largest difference from the original: {result['max_diff_single']:.1e} one text at a time, "
            f"{result['max_diff_batch']:.1e} in a batch; outputs are up to {result['max_abs_output']:.3g}",
            f"{speed:,.1f} sequences/s; original {original:,.1f}: {_verdict(speed / original)}",
        ]
    return lines


def _verdict(ratio: float) -> str:
    return f"{ratio:.2f}x the speed" + ("" if ratio > 1 else ", slower on this machine")
