"""The end of a run: the final model and `results.json`."""

import json
from dataclasses import replace
from importlib import metadata
from typing import Any

import torch

from clearhead.data import locate
from clearhead.files import sha256, write_atomic
from clearhead.hub.folder import LoadedModel, save_folder
from clearhead.hub.lora import merge, save_adapter
from clearhead.tasks import Task
from clearhead.train.checkpoint import Checkpoints, Progress, average_checkpoints
from clearhead.train.evaluate import evaluate, score
from clearhead.train.init_model import lora_of
from clearhead.train.recipe import to_plain
from clearhead.train.run_data import hub_dataset, read_part
from clearhead.train.run_folder import remove_stale
from clearhead.train.run_mirror import LOGS, mirror_of
from clearhead.train.tracking import read_log
from clearhead.train.training_run import TrainingRun

BEAM_SIZE = 5  # for the test set, where the task generates text


def finish(run: TrainingRun, progress: Progress) -> None:
    """Write the final model: the average of the last checkpoints if train.average is above 1, else the best one."""
    settings = run.settings
    checkpoints = Checkpoints(run.out / "checkpoints", settings.keep)
    last = checkpoints.planned()[-settings.average :]
    best = checkpoints.at(progress.best_step or progress.step)
    model = run.empty_model()
    average_checkpoints(model, last if settings.average > 1 else [best])
    remove_stale(run.folder)
    if (lora := lora_of(run.recipe)) is not None:
        save_adapter(run.trained(model), lora, run.out / "adapter", base=str(run.recipe.model["base_model"]))
        merge(model)
    full = run.trained(model)
    loaded, answers = run.task.finalize(full, run.held_out())
    origin = {"task": run.task.spec.name, "answers": answers, "recipe": to_plain(run.recipe), "step": progress.step}
    if "file" in run.recipe.data.train and hub_dataset(run.recipe.data.train, run.base) is None:
        origin["train_sha256"] = sha256(locate(str(run.recipe.data.train["file"]), run.base))
    loaded = replace(loaded, metadata=origin)
    save_folder(loaded, run.out / "model", overwrite=True)
    for name, companion in loaded.companions.items():
        save_folder(replace(companion, metadata=origin), run.out / name, overwrite=True)
    write_atomic(run.folder / "results.json", json.dumps(results(run, progress, loaded, full), indent=1) + "\n")
    if (mirror := mirror_of(run.out)) is not None:
        mirror.push(["results.json", *LOGS])


def results(run: TrainingRun, progress: Progress, loaded: LoadedModel, full: LoadedModel) -> dict[str, Any]:
    """Return the test scores if the recipe has a test part, the validation curve, and how the model was trained.

    `full` is the model as trained, `loaded` the part of it that is saved for inference.
    """
    scores: dict[str, float] = {}
    if (part := run.recipe.data.test) is not None:
        rows = read_part(part, run.base, run.recipe.data.rename)
        # A labeling task is measured with the saved model: regression outputs are in the scale of the data by then.
        as_trained = run.task.spec.split_by is None
        task: Task = run.task if as_trained else type(run.task).from_model(loaded)  # type: ignore[attr-defined]
        columns, _ = task.encode(rows)
        measured = evaluate((full if as_trained else loaded).model, task, columns, run.settings)
        scores = measured | score(task, loaded, rows, run.settings, BEAM_SIZE)
    log = read_log(run.folder / "log.jsonl")
    return {
        **scores,
        "seconds": round(progress.seconds, 1),
        "steps": progress.step,
        "parameters": sum(p.numel() for p in loaded.model.parameters()),
        "curve": [{k: r[k] for k in r if k == "step" or k.startswith("valid")} for r in log if "valid_loss" in r],
        "threads": torch.get_num_threads(),
        "versions": {"clearhead": metadata.version("clearhead"), "torch": torch.__version__},
        "recipe": to_plain(run.recipe),
    }
