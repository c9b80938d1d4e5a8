"""`clearhead error-analysis`: the most confident errors of a trained model, and the words it attended to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import ColumnOption, DeviceOption, JsonLinesOption, LabeledFileArgument, TaskModelArgument

if TYPE_CHECKING:
    from clearhead.analysis.error_analysis import PredictionError
    from clearhead.hub.folder import LoadedModel

TOP_WORDS = 5
MAX_TEXT_CHARS = 90
MAX_LABEL_CHARS = 40
MAX_PAGE_CHARS = 2000


@report_errors
def error_analysis(
    model: TaskModelArgument,
    file: LabeledFileArgument,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Maximum number of errors to list.")] = 20,
    column: ColumnOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write an HTML page with the attention of every layer and head to this file."),
    ] = None,
    as_json: JsonLinesOption = False,
    device: DeviceOption = "auto",
) -> None:
    """List the most confident errors of a model.

    Each error shows the expected and the predicted label, the confidence, and the words with the highest attention in
    the last layer, averaged over the heads, from the token that the prediction is read from. Attention shows what the
    model read, not why it is wrong.

    Example: clearhead error-analysis runs/recipe/model test.csv -n 10 --out errors.html
    """
    from rich.console import Console

    from clearhead.analysis.error_analysis import find_errors
    from clearhead.cli.task_rows import parse_columns, rows_for
    from clearhead.pipeline import load
    from clearhead.tasks.registry import task_of
    from clearhead.viz import record_scene, show

    loaded = load(model, device=device).loaded
    task = task_of(loaded)
    if task.spec.name in ("embed", "rerank", "answer"):
        raise ValueError(f"{model} ranks texts: `clearhead eval {model} {file}` measures it")
    rows = rows_for(task, loaded, file, parse_columns(column), labeled=True)
    found = find_errors(task, loaded, rows, count)
    console = Console(highlight=False)
    for error in found:
        words = top_words(loaded, error)
        if as_json:
            typer.echo(json.dumps(_to_json(error, words), ensure_ascii=False))
            continue
        console.print(
            f"[bold]{Path(error.file).name}:{error.line}[/bold]  expected [green]{_label(error.expected)}[/green]  "
            f"predicted [red]{_label(error.predicted)}[/red]  {error.confidence:.3f}"
        )
        console.print("    " + " / ".join(_shorten(text) for text in error.texts), markup=False)
        if words:
            console.print("    attended: " + ", ".join(f"{word} {weight:.2f}" for word, weight in words), markup=False)
    if not found and not as_json:
        console.print("no errors")
    if out is not None and found:
        texts = [_shorten(error.texts[0], MAX_PAGE_CHARS) for error in found]
        pairs = [_shorten(error.texts[1], MAX_PAGE_CHARS) if len(error.texts) > 1 else None for error in found]
        show(record_scene(loaded, texts, pairs, title=f"Errors in {file.name}", answers=False), out)
        typer.echo(f"{out} written", err=True)


def top_words(loaded: LoadedModel, error: PredictionError) -> list[tuple[str, float]]:
    """Return the words with the highest last-layer attention, from the first token or from the mislabeled word."""
    import torch

    from clearhead.viz import record_scene

    if not hasattr(loaded.config.stack, "num_heads"):
        return []  # recurrent encoders have no attention
    text, *pair = error.texts
    scene = record_scene(loaded, [text], pair or None, answers=False)
    scene_input = scene.inputs[0]
    source, labels = scene_input.layers[-1].attention, scene_input.axes[0].names
    row = 0
    if error.offset is not None:
        tokens = loaded.require_tokenizer(text, max_len=loaded.max_len)
        assert tokens.offsets is not None
        matches = ((tokens.offsets[:, 0] == error.offset) & (tokens.parts == 0)).nonzero()[:, 0]
        row = int(matches[0]) if len(matches) else 0
    size = 1, source.shape[1]
    tiles = (source.tile(h, slice(row, row + 1), slice(None), size, "max") for h in range(source.num_heads))
    mean = torch.cat(list(tiles)).mean(0)
    mean[torch.tensor(labels.special)] = 0.0
    top = mean.topk(min(TOP_WORDS, len(mean)))
    return [(labels.words[i], weight) for weight, i in zip(top.values.tolist(), top.indices.tolist(), strict=True)]


def _to_json(error: PredictionError, words: list[tuple[str, float]]) -> dict[str, Any]:
    labels = {"expected": error.expected, "predicted": error.predicted, "confidence": error.confidence}
    place = {"file": error.file, "line": error.line}
    return {**place, **labels, "texts": error.texts, "offset": error.offset, "attended": words}


def _shorten(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    text = " ".join(text.split())
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def _label(text: str) -> str:
    return _shorten(text, MAX_LABEL_CHARS).replace("[", "\\[")
