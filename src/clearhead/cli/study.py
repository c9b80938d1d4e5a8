"""`clearhead study`: claims about attention models, measured."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.demo import command_line
from clearhead.cli.options import JsonOption

TEST_SET = "multi30k:test_2016_flickr"


@report_errors
def study(
    name: Annotated[str | None, typer.Argument(help="Study to run. Default: list all.")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="bottleneck: translation model, LABEL=FOLDER, repeatable. Other studies: model folder."),
    ] = None,
    test: Annotated[
        str | None, typer.Option(help=f"bottleneck: test set, without the suffix .en or .en.gz. Default: {TEST_SET}.")
    ] = None,
    languages: Annotated[str | None, typer.Option(help="bottleneck: source-target language. Default: en-de.")] = None,
    text: Annotated[Path | None, typer.Option(help="Text file to use instead of the study's own.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Output folder for models, results and figures. Default: study-NAME.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the models.")] = 1,
    steps: Annotated[
        int | None, typer.Option(min=1, help="adapted, recall: training steps with each method. Default: 100, 1000.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Use tiny sizes: a test run without meaningful results.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the studies, or run one.

    A study trains models, measures a claim and draws the result: OUT/NAME.json holds the measurements and settings,
    OUT/NAME.svg and .png the figure. Models are saved in OUT; an interrupted study resumes with the same command.

    Example: clearhead study gradient --quick
    """
    from rich.console import Console

    from clearhead.cli.progress import show_progress
    from clearhead.studies import STUDIES
    from clearhead.studies.study_results import record, write_record
    from clearhead.studies.study_runners import RUNNERS, StudyArgs
    from clearhead.studies.study_tables import SHOW
    from clearhead.tasks import did_you_mean
    from clearhead.viz import save
    from clearhead.viz.style import can_draw

    if name is None:
        titles = {study: str(module.__doc__).strip().splitlines()[0] for study, module in STUDIES.items()}
        return typer.echo(json.dumps(titles) if as_json else "\n".join(f"{n:20} {t}" for n, t in titles.items()))
    if name not in STUDIES:
        raise ValueError(f"study {name!r}: {did_you_mean(name, STUDIES)}")
    options = {"--model": model, "--test": test, "--languages": languages, "--text": text, "--steps": steps}
    accepted, run = RUNNERS[name]
    for option, value in options.items():
        if value and option not in accepted:
            raise ValueError(f"the study {name!r} does not accept {option}; it accepts: {', '.join(accepted)}")
    folder = out or Path(f"study-{name}")
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    with show_progress() as on_progress:
        given = model or [], test or TEST_SET, languages or "en-de", text
        measured = run(StudyArgs(*given, folder, seed, quick, steps, on_progress))
    results = record(measured, command=command_line(), seed=seed, seconds=time.perf_counter() - begin)
    write_record(results, folder / f"{name}.json")
    figures = save(STUDIES[name].draw(measured), folder / name) if can_draw() else []
    if as_json:
        return typer.echo(json.dumps(results))
    SHOW[name](Console(highlight=False), measured)
    written = ", ".join(map(str, [folder / f"{name}.json", *figures]))
    missing = "" if figures else "; no figures: they need matplotlib, pip install 'clearhead[see]'"
    return typer.echo(f"written: {written}{missing}")
