"""`clearhead train`: a recipe becomes a model."""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from clearhead.cli.faults import told


@told
def train(
    recipe: Annotated[Path, typer.Argument(help="The recipe, a YAML file; `clearhead new` writes one.")],
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Where the run is kept; runs/NAME beside the recipe by default.")
    ] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting: --set train.steps=100. May be repeated.")
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="A tracker, module:function, called as function(step, numbers). May be repeated."),
    ] = None,
    processes: Annotated[int, typer.Option(help="Processes on this machine, which share the model (FSDP2).")] = 1,
    seeds: Annotated[
        int, typer.Option(help="Train so many times, from the recipe's seed on, and tell how far the scores lie apart.")
    ] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps; of several processes each takes its own.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Tell the end of the run as JSON on stdout.")] = False,
) -> None:
    """Train a model. Run again, it goes on where it stopped, to the same bits.

    Ctrl-C and SIGTERM leave a checkpoint of the last step. The run's folder has the model (which `clearhead.load` and
    transformers open), the checkpoints, log.jsonl and what TensorBoard reads.

    Example: clearhead train recipe.yaml --set train.steps=2000
    """
    from clearhead.train import NotFinite, Stopped, prepare, read_recipe
    from clearhead.train import train as run_to_end
    from clearhead.train.parallel import Lost, joined
    from clearhead.train.ranks import Ranks, launched, own_device

    settings = read_recipe(recipe, change or [])
    where = folder or recipe.parent / "runs" / recipe.stem
    if processes < 1:
        raise ValueError(f"--processes {processes}: at least 1")
    if seeds != 1:
        _seeds(settings, recipe, where, seeds, processes, device, as_json)
        return
    if processes > 1 and not launched():
        prepare(settings, recipe.parent, where, lambda text: typer.echo(text, err=True))
        raise typer.Exit(_launch(processes, where))
    trackers = [_tracker(name) for name in track or []]
    ranks = Ranks()
    try:
        with joined() as ranks:
            if ranks.first:  # the others find everything made
                run = prepare(settings, recipe.parent, where, lambda text: typer.echo(text, err=True))
            ranks.wait()
            run = prepare(settings, recipe.parent, where)
            progress = run_to_end(run, ranks, trackers, device=own_device(device))
    except Stopped as stop:
        if ranks.first:
            typer.echo(f"clearhead: {stop}; a checkpoint is written, the same command goes on from there", err=True)
        raise typer.Exit(128 + stop.signal) from None
    except Lost as error:
        typer.echo(f"clearhead: {error}", err=True)
        raise typer.Exit(1) from None
    except NotFinite as error:
        if ranks.first:
            typer.echo(f"clearhead: {error}", err=True)
        raise typer.Exit(3) from None
    if ranks.first:
        model = where / "model"
        if as_json:
            typer.echo(json.dumps({"model": str(model), **asdict(progress)}))
        else:
            best = "" if progress.best is None else f", best {settings.train.metric} {progress.best:.4g}"
            typer.echo(f"{model}  ({progress.step:,} steps, {progress.seconds / 60:.1f} minutes{best})")


def _seeds(settings: Any, recipe: Path, where: Path, count: int, processes: int, device: str, as_json: bool) -> None:
    """The same recipe with several seeds, one after another, and the spread of what came of it."""
    from dataclasses import replace

    from clearhead.train import prepare
    from clearhead.train import train as run_to_end

    if count < 1 or processes > 1:
        raise ValueError("--seeds takes a number from 1 on, and one process")
    found: list[dict[str, Any]] = []
    for seed in range(settings.seed, settings.seed + count):
        folder = where.with_name(f"{where.name}-seed-{seed}")
        run = prepare(replace(settings, seed=seed), recipe.parent, folder, lambda text: typer.echo(text, err=True))
        progress = run_to_end(run, device=device)
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        names = [name for name in (*run.task.metrics, "perplexity") if name in results]
        scores = {name: results[name] for name in names} or {f"best {run.settings.metric}": progress.best}
        found.append({"seed": seed, "model": str(folder / "model"), **scores})
        typer.echo(f"seed {seed}: " + "  ".join(f"{name} {value:.4g}" for name, value in scores.items()), err=as_json)
    names = [name for name in found[0] if name not in ("seed", "model")]
    spread = {name: _spread([one[name] for one in found]) for name in names}
    if as_json:
        typer.echo(json.dumps({"runs": found, "spread": spread}))
    else:
        for name, (mean, deviation) in spread.items():
            typer.echo(f"{name}: {mean:.4g} ± {deviation:.2g} over {count} seeds")


def _spread(values: list[float]) -> tuple[float, float]:
    """Mean and standard deviation."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def _launch(processes: int, folder: Path) -> int:
    """This command once for each process; torch tells them who they are by the environment."""
    from clearhead.train.launch import launch

    command = ["-m", "clearhead.cli", *sys.argv[1:]]
    return launch(command, processes, folder, lambda text: typer.echo(f"clearhead: {text}", err=True))


def _tracker(name: str) -> Any:
    module, _, function = name.partition(":")
    sys.path.insert(0, os.getcwd())  # a module that stands where the command is given
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"--track {name}: {error}; it is written module:function") from None
    if not callable(found):
        raise ValueError(f"--track {name}: it is {found!r:.100}, which cannot be called")
    return found
