"""`clearhead train`: train a model from a recipe."""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import RecipeArgument, SetOption

if TYPE_CHECKING:
    from clearhead.train import Recipe as TrainingRecipe


@report_errors
def train(
    recipe: RecipeArgument,
    folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the run. Default: runs/NAME next to the recipe.")
    ] = None,
    change: SetOption = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Metric tracker, module:function, called as function(step, numbers). Repeatable."),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(help="Number of processes on this machine. Default: those of the recipe's `parallel`, or 1."),
    ] = None,
    seeds: Annotated[
        int, typer.Option(help="Number of runs with consecutive seeds; reports mean and standard deviation.")
    ] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps or auto; with several processes, one GPU each.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
) -> None:
    """Train a model from a recipe, or resume a run.

    The same command resumes from the last checkpoint, bit for bit. Ctrl-C and SIGTERM save a checkpoint first. The
    run's folder holds the model (for `clearhead.load` and transformers), checkpoints, log.jsonl and TensorBoard events.

    Example: clearhead train recipe.yaml --set train.steps=2000
    """
    from clearhead.distributed import PeerLost, init_distributed
    from clearhead.distributed.ranks import Distributed, launched, own_device
    from clearhead.train import NotFinite, Stopped, prepare, read_recipe
    from clearhead.train import train as run_to_end

    settings = read_recipe(recipe, change or [])
    run_folder = folder or recipe.parent / "runs" / recipe.stem
    processes = settings.parallel.processes if processes is None else processes
    if processes < 1:
        raise ValueError(f"--processes is {processes}: give at least 1")
    settings.parallel.sizes(int(os.environ.get("WORLD_SIZE", processes)))
    if seeds != 1:
        _train_seeds(settings, recipe, run_folder, seeds, processes, device, as_json)
        return
    if processes > 1 and not launched():
        prepare(settings, recipe.parent, run_folder, _print_error)
        raise typer.Exit(_launch(processes, run_folder))
    trackers = [_tracker(name) for name in track or []]
    distributed = Distributed()
    try:
        with init_distributed() as distributed:
            if distributed.is_main:  # writes the data that the other processes then read
                run = prepare(settings, recipe.parent, run_folder, _print_error)
            distributed.barrier()
            run = prepare(settings, recipe.parent, run_folder)
            progress = run_to_end(run, distributed, trackers, device=own_device(device))
    except Stopped as stop:
        if distributed.is_main:
            typer.echo(f"clearhead: {stop}; a checkpoint is saved, run the same command to resume", err=True)
        raise typer.Exit(128 + stop.signal) from None
    except PeerLost as error:
        typer.echo(f"clearhead: {error}", err=True)
        raise typer.Exit(1) from None
    except NotFinite as error:
        if distributed.is_main:
            typer.echo(f"clearhead: {error}", err=True)
        raise typer.Exit(3) from None
    if distributed.is_main:
        model = run_folder / "model"
        if as_json:
            typer.echo(json.dumps({"model": str(model), **asdict(progress)}))
        else:
            best = "" if progress.best is None else f", best {settings.train.metric} {progress.best:.4g}"
            typer.echo(f"{model}  ({progress.step:,} steps, {progress.seconds / 60:.1f} minutes{best})")


def _print_error(text: str) -> None:
    typer.echo(text, err=True)


def _train_seeds(
    settings: TrainingRecipe, recipe: Path, run_folder: Path, count: int, processes: int, device: str, as_json: bool
) -> None:
    """Train the recipe with several seeds, one run after another, and print the mean and standard deviation."""
    from dataclasses import replace

    from clearhead.train import prepare
    from clearhead.train import train as run_to_end

    if count < 1 or processes > 1:
        raise ValueError(f"--seeds {count} with --processes {processes}: give at least 1 seed, and 1 process")
    runs: list[dict[str, Any]] = []
    for seed in range(settings.seed, settings.seed + count):
        folder = run_folder.with_name(f"{run_folder.name}-seed-{seed}")
        run = prepare(replace(settings, seed=seed), recipe.parent, folder, _print_error)
        progress = run_to_end(run, device=device)
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        names = [name for name in (*run.task.spec.metrics, "perplexity") if name in results]
        scores = {name: results[name] for name in names} or {f"best {run.settings.metric}": progress.best}
        runs.append({"seed": seed, "model": str(folder / "model"), **scores})
        typer.echo(f"seed {seed}: " + "  ".join(f"{name} {value:.4g}" for name, value in scores.items()), err=as_json)
    names = [name for name in runs[0] if name not in ("seed", "model")]
    spread: dict[str, tuple[float, float]] = {}
    for name in names:
        values = [run[name] for run in runs]
        spread[name] = statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
    if as_json:
        typer.echo(json.dumps({"runs": runs, "spread": spread}))
    else:
        for name, (mean, deviation) in spread.items():
            typer.echo(f"{name}: {mean:.4g} ± {deviation:.2g} (mean ± standard deviation of {count} seeds)")


def _launch(processes: int, folder: Path) -> int:
    """Run this command in several processes and return the exit code; torch sets their ranks in the environment."""
    from clearhead.train.launch import launch

    command = ["-m", "clearhead.cli", *sys.argv[1:]]
    return launch(command, processes, folder, lambda text: _print_error(f"clearhead: {text}"))


def _tracker(name: str) -> Any:
    module, _, function = name.partition(":")
    sys.path.insert(0, os.getcwd())  # find modules in the current folder
    try:
        tracker = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"--track {name}: {error}; write it as module:function") from None
    if not callable(tracker):
        raise ValueError(f"--track {name} is not a function: it is {tracker!r:.100}")
    return tracker
