"""`clearhead train`: train a model from a recipe."""

from __future__ import annotations

import json
import os
import statistics
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import RecipeArgument, SetOption

if TYPE_CHECKING:
    from clearhead.files.manifest import Folder
    from clearhead.train import Recipe as TrainingRecipe


@report_errors
def train(
    recipe: RecipeArgument,
    folder: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Folder of the run, also s3://BUCKET/PREFIX. Default: runs/NAME."),
    ] = None,
    change: SetOption = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Metric tracker, module:function, called as function(step, numbers). Repeatable."),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(help="Number of processes. Default: those of the recipe's `parallel`, or 1."),
    ] = None,
    on: Annotated[
        Literal["local", "ray"],
        typer.Option(help="Where the processes run: here, or on the Ray cluster at RAY_ADDRESS."),
    ] = "local",
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
    from clearhead.distributed.ranks import launched
    from clearhead.files.s3_path import folder_at
    from clearhead.train import Checkpoints, prepare, read_recipe
    from clearhead.train.checkpoint import read_progress
    from clearhead.train.rank import RankConfig, RankFailed, load_tracker, train_rank

    settings = read_recipe(recipe, change or [])
    run_folder = folder_at(folder or recipe.parent / "runs" / recipe.stem)
    processes = settings.parallel.processes if processes is None else processes
    if processes < 1:
        raise ValueError(f"--processes is {processes}: give at least 1")
    settings.parallel.sizes(int(os.environ.get("WORLD_SIZE", processes)))
    if seeds != 1:
        if seeds < 1 or processes > 1 or on == "ray":
            given = f"--seeds {seeds} --processes {processes} --on {on}"
            raise ValueError(f"{given}: several seeds are trained one after another, by one process on this machine")
        _train_seeds(settings, recipe, run_folder, seeds, device, as_json)
        return
    for name in track or []:
        load_tracker(name)  # a wrong one is reported before the data is prepared
    config = RankConfig(settings, recipe.parent, run_folder, tuple(track or []), device)
    if on == "ray" or (processes > 1 and not launched()):
        from clearhead.train.launch import launch, local_processes

        if on == "ray":
            from clearhead.train.ray_launch import ray_processes

            attempt = ray_processes(config, processes)
        else:
            attempt = local_processes(["-m", "clearhead.cli", *sys.argv[1:]], processes)
        prepare(settings, recipe.parent, run_folder, _print_error)
        code = launch(attempt, run_folder, lambda text: _print_error(f"clearhead: {text}"))
        if code or on == "local":  # rank 0 has printed the result
            raise typer.Exit(code)
        progress = read_progress(Checkpoints(run_folder / "checkpoints", 1).all()[-1])
    else:
        try:
            progress = train_rank(config, _print_error)
        except RankFailed as error:
            raise typer.Exit(error.exit_code) from None
        if os.environ.get("RANK", "0") != "0":
            return
    model = run_folder / "model"
    if as_json:
        typer.echo(json.dumps({"model": str(model), **asdict(progress)}))
    else:
        best = "" if progress.best is None else f", best {settings.train.metric} {progress.best:.4g}"
        typer.echo(f"{model}  ({progress.step:,} steps, {progress.seconds / 60:.1f} minutes{best})")


def _print_error(text: str) -> None:
    typer.echo(text, err=True)


def _train_seeds(
    settings: TrainingRecipe, recipe: Path, run_folder: Folder, count: int, device: str, as_json: bool
) -> None:
    """Train the recipe with several seeds, one run after another, and print the mean and standard deviation."""
    from dataclasses import replace

    from clearhead.train import prepare
    from clearhead.train import train as run_to_end

    runs: list[dict[str, Any]] = []
    for seed in range(settings.seed, settings.seed + count):
        folder = run_folder.with_name(f"{run_folder.name}-seed-{seed}")
        run = prepare(replace(settings, seed=seed), recipe.parent, folder, _print_error)
        progress = run_to_end(run, device=device)
        results = json.loads((run.folder / "results.json").read_text(encoding="utf-8"))
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
