"""`clearhead export`: a model as a folder that another engine opens."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from clearhead.app import load
from clearhead.cli.faults import told
from clearhead.decode import export as export_ctranslate2
from clearhead.models.beside import compare, ragged
from clearhead.models.onnx import export_onnx, open_onnx
from clearhead.models.store import open_folder
from clearhead.models.torchao import export_int8

ENGINES = ("ctranslate2", "onnx", "int8")


@told
def export(
    model: Annotated[str, typer.Argument(help="A model folder, a name on the hub, or package:NAME.")],
    to: Annotated[str, typer.Option(help="ctranslate2 for models that write; onnx or int8 for encoders.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to make; it must not hold anything yet.")],
    quantization: Annotated[
        str | None,
        typer.Option(help="onnx: int8. ctranslate2: int8, int8_float16, int16, float16, bfloat16 … Default: float32."),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure/--no-measure", help="Hold an encoder against the original: parity and speed.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
) -> None:
    """Write a model for another engine, with its tokenizer, and say how it compares with the original.

    ctranslate2: models like Marian, BART and GPT-2, for a small, fast engine without Python; in float32 the same to the
    token. onnx: encoders with their heads, for ONNX Runtime. int8: encoders whose blocks are rounded by torchao, for
    `clearhead.load` and transformers.

    Example: clearhead export my-classifier --to onnx --out my-classifier-onnx --quantization int8
    """
    if to not in ENGINES:
        raise ValueError(f"there is no export to {to!r}: choose {', '.join(ENGINES)}")
    if to == "int8" and quantization is not None:
        raise ValueError(f"--quantization {quantization} goes with onnx and ctranslate2: --to int8 is one of its own")
    app = load(model, dtype="float32")
    opened = app.opened
    if to == "ctranslate2":
        writer = app.writer
        export_ctranslate2(writer.model, writer.tokenizer, writer.defaults.rules, out, quantization=quantization)
    elif to == "onnx":
        export_onnx(opened, out, quantization=quantization)
    else:
        export_int8(opened, out)
    size = sum(f.stat().st_size for f in out.rglob("*") if f.is_file())
    kind = "int8" if to == "int8" else quantization or "float32"
    found: dict[str, Any] = {"folder": str(out), "engine": to, "numbers": kind, "bytes": size}
    if measure and to != "ctranslate2" and opened.tokenizer is not None:
        run = open_onnx(opened, out) if to == "onnx" else ragged(open_folder(out))
        found |= asdict(compare(opened, run))
    typer.echo(json.dumps(found) if as_json else "\n".join(_lines(found)))


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [f"{found['folder']}: {found['bytes'] / 1e6:,.1f} MB, {found['numbers']}"]
    if "speed" in found:
        lines += [
            f"largest difference from the original: {found['alone']:.1e} for texts alone, {found['together']:.1e} "
            f"for texts together, in numbers up to {found['largest']:.3g}",
            f"{found['speed']:,.1f} sequences/s; the original {found['original']:,.1f}: {_verdict(found)}",
        ]
    return lines


def _verdict(found: dict[str, Any]) -> str:
    ratio = found["speed"] / found["original"]
    return f"{ratio:.2f} times as fast" if ratio > 1 else f"{ratio:.2f} times as fast, it does not pay on this machine"
