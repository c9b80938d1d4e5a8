"""Adapted attention: each efficient method swapped into a trained model, before and after a short training with it.

The model is trained on with its own recipe, on the same batches for every method, exact attention among them. A query
reads an eighth of the keys of the longest training text.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from clearhead.analysis.attention_error import candidates, few_keys
from clearhead.attention import Causal
from clearhead.distributed import Distributed
from clearhead.efficient.cost import CLEAR_REFS, process_peak
from clearhead.files import new_folder
from clearhead.hub.folder import LoadedModel, open_folder
from clearhead.models import Model, TransformerStack
from clearhead.models.precision import autocast
from clearhead.studies.training import OnProgress, no_progress, train_recipe
from clearhead.train import Recipe, make_recipe, prepare
from clearhead.train.loop import TrainingJob, make_batches
from clearhead.train.malloc import trim
from clearhead.train.tracking import read_log
from clearhead.train.training_run import TrainingRun
from clearhead.viz.style import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEARNING_RATE = 0.5  # of the recipe's
EXAMPLES = 8  # whose hidden states are compared


@dataclass(frozen=True)
class AdaptedMethod:
    """A method in the model: its score on the validation rows, and how far its hidden states are from exact ones."""

    method: str
    options: dict[str, Any]
    before: float  # the metric without training
    after: float
    error_before: float  # norm of the difference to the hidden states of exact attention / their norm
    error_after: float  # both trained
    seconds: float  # of the training, with its evaluation
    step_seconds: float  # median
    step_mb: float | None  # peak of the forward and backward pass of the first batch, above the model; on Linux


@dataclass(frozen=True)
class AdaptedResult:
    """Results of the study."""

    model: str
    task: str
    metric: str
    steps: int
    tokens: int  # of the longest training text
    keys: int  # that a query reads
    threads: int
    methods: tuple[AdaptedMethod, ...]  # the first is exact attention


def adapted_recipe(loaded: LoadedModel, folder: Path, options: Mapping[str, Any] | None, steps: int) -> Recipe:
    """Return the recipe that a model was trained with, for some steps more from where it is."""
    trained = loaded.metadata.get("recipe")
    if not isinstance(trained, dict):
        raise ValueError(
            f"{folder} holds no recipe, but the study trains a model further with its own: give the folder of a model "
            "that clearhead trained"
        )
    last = {"epochs": None, "steps": steps, "evaluate_every": steps, "save_every": steps}
    settings: dict[str, Any] = {**trained["train"], **last, "average": 1, "keep": 1, "patience": None}
    settings["optimizer"] = {**settings["optimizer"], "lr": LEARNING_RATE * settings["optimizer"]["lr"]}
    settings["schedule"] = {"kind": "linear", "warmup": max(1, steps // 10)}
    model = {"base_model": str(folder.absolute())} | ({} if options is None else {"attention": dict(options)})
    kept = {key: value for key, value in trained.items() if key != "tokenizer"}
    return make_recipe({**kept, "data": {**trained["data"], "test": None}, "model": model, "train": settings})


def measure(
    model: Path,
    folder: Path,
    *,
    steps: int = 100,
    on_progress: OnProgress = no_progress,
) -> AdaptedResult:
    """Evaluate and train the model of a folder with each method, in `folder`; finished runs are not repeated.

    Relative paths of the model's recipe start at the current folder.
    """
    loaded = open_folder(model)
    first = adapted_recipe(loaded, model, None, steps)
    stack = loaded.model.encoder if loaded.model.encoder is not None else loaded.model.decoder
    if not isinstance(stack, TransformerStack):
        raise ValueError(f"{loaded.architecture} is no Transformer: its attention has no other methods")
    tokens = min(first.data.block_size or first.data.max_len, loaded.max_len or first.data.max_len)
    keys = few_keys(tokens)
    options: dict[str, dict[str, Any] | None] = {"exact": None}
    options |= candidates(tokens, keys, causal=isinstance(stack.mask, Causal))
    results: list[AdaptedMethod] = []
    exact: list[Tensor] = []
    for name, given in options.items():
        recipe = adapted_recipe(loaded, model, given, steps)
        _share_data(folder / "exact", folder / name)
        before, step_mb, *states = _untrained(prepare(recipe, Path(), folder / name))
        run, progress = train_recipe(name, recipe, Path(), folder / name, on_progress)
        states.append(_states(run, open_folder(folder / name / "model").model))
        exact = exact or states
        errors = tuple(float((a - b).norm() / b.norm()) for a, b in zip(states, exact, strict=True))
        log, metric = read_log(folder / name / "log.jsonl"), f"valid_{recipe.train.metric}"
        after = next(record[metric] for record in reversed(log) if metric in record)
        times = [record["seconds"] for record in log if "seconds" in record]
        step_seconds = round(median(b - a for a, b in pairwise([0.0, *times])), 4)
        scores = before, after, errors[0], errors[1]
        results.append(AdaptedMethod(name, given or {}, *scores, round(progress.seconds, 1), step_seconds, step_mb))
    sizes = steps, tokens, keys, torch.get_num_threads()
    return AdaptedResult(model.absolute().parent.name, first.task, first.train.metric, *sizes, tuple(results))


def _share_data(first: Path, folder: Path) -> None:
    """Start the folder of a run with the tokenized data of the first one, which is the same: links to its files."""
    if first.exists() and not folder.exists():
        with new_folder(folder) as temporary:
            for name in {"recipe.yaml", "labels.json"}.intersection(os.listdir(first)):
                shutil.copy(first / name, temporary / name)
            shutil.copytree(first / "data", temporary / "data", copy_function=os.link)


def _untrained(run: TrainingRun) -> tuple[float, float | None, Tensor]:
    """Return the metric of the model before training, the memory of a step, and hidden states of the model."""
    job = run.job(Distributed(), shown=False)
    assert job.evaluate is not None and isinstance(job.model, Model)
    return job.evaluate(job.model, 0)[run.settings.metric], _step_megabytes(job), _states(run, job.model)


def _step_megabytes(job: TrainingJob) -> float | None:
    """Return the most memory of the forward and backward pass of the first batch, above that of model and batch."""
    if not os.access(CLEAR_REFS, os.W_OK):
        return None
    batches = make_batches(job.task, job.columns, job.settings, job.seed)
    batch = job.task.collate(job.columns, batches.batch(*batches.place(0)))
    job.model.train()
    trim()
    with process_peak() as megabytes, autocast(job.settings.dtype):
        job.task.loss(job.model, batch).backward()
        peak = megabytes()
    job.model.zero_grad()
    return round(peak, 1)


@torch.no_grad()
def _states(run: TrainingRun, model: Model) -> Tensor:
    """Return the hidden states of the last stack on the first validation examples, (N, D)."""
    states: list[Tensor] = []
    stack = model.decoder if model.decoder is not None else model.encoder
    assert isinstance(stack, TransformerStack)

    def keep(module: TransformerStack, args: object, output: Tensor) -> None:
        states.append(output)

    handle = stack.register_forward_hook(keep)
    try:
        count = min(EXAMPLES, len(next(iter(run.valid.values()))))
        run.task.loss(model.eval(), run.task.collate(run.valid, np.arange(count)))
    finally:
        handle.remove()
    return states[-1]


def draw(measured: AdaptedResult) -> Figure:
    """Plot the score of each method before and after training, and the time of a step."""
    names = [m.method for m in measured.methods]
    places = np.arange(len(names))
    title = f"{measured.model}: attention replaced in all layers"
    with new_figure(9.6, 0.34 * len(names) + 1.6, title) as figure:
        score, time = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        for place, m in zip(places, measured.methods, strict=True):
            score.plot([m.before, m.after], [place, place], color="#b8c4d0", linewidth=2, zorder=1)
        score.scatter([m.before for m in measured.methods], places, color="#d9822b", label="without training", zorder=2)
        label = f"after {measured.steps:,} steps"
        score.scatter([m.after for m in measured.methods], places, color="#1f6fb2", label=label, zorder=2)
        score.axvline(measured.methods[0].before, color="#8a97a5", linewidth=0.8, linestyle=":")
        score.set_yticks(places, names)
        score.invert_yaxis()
        score.set_xlabel(f"{measured.metric}, validation rows")
        score.legend(frameon=False, fontsize=8)
        time.barh(places, [m.step_seconds for m in measured.methods], color="#b8c4d0", height=0.6)
        time.set_xlabel("seconds, training step")
    return figure
