"""`clearhead draw`: images from texts."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import DeviceOption, DtypeOption


@report_errors
def draw(
    model: Annotated[str, typer.Argument(help="Folder of a model of the task draw.")],
    texts: Annotated[list[str], typer.Argument(help="What to draw; several texts are rows of one image.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Image file to write.")] = Path("drawn.png"),
    count: Annotated[int, typer.Option(min=1, max=64, help="Images of each text, each with its own seed.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Random seed; it gives the same image again.")] = 0,
    guidance: Annotated[
        float, typer.Option(min=0, help="How closely the text is followed; 1 is plain sampling, more has less variety.")
    ] = 3.0,
    temperature: Annotated[float, typer.Option(min=0, help="0 takes the most likely code each time.")] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="Sample from the k most likely codes; 0: from all.")] = 0,
    scale: Annotated[int, typer.Option(min=1, max=16, help="Pixels of the file for each pixel of the image.")] = 1,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
) -> None:
    """Draw images from texts.

    Example: clearhead draw runs/emoji/model "grinning cat" --seed 1 --out cat.png
    Example: clearhead draw runs/emoji/model "red heart" "green apple" --count 8 --out grid.png
    """
    from clearhead.pipeline import load
    from clearhead.vision.image_files import to_pil
    from clearhead.vision.image_grid import image_grid

    if any(not text.strip() for text in texts):
        raise ValueError("a text is empty: say what to draw")
    pipeline = load(model, dtype=dtype, device=device)
    wanted = [text for text in texts for _ in range(count)]
    images = pipeline.draw(wanted, seed=seed, guidance=guidance, temperature=temperature, top_k=top_k)
    grid = image_grid(images, count).repeat_interleave(scale, 1).repeat_interleave(scale, 2)
    to_pil(grid).save(out)
    typer.echo(out)
