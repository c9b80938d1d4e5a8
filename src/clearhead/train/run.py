"""A run: the folder where a recipe becomes a model. Started anew with the same recipe, it goes on where it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from importlib import metadata
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import torch
from torch import nn

from clearhead.data import Batches, Columns, Row, Rows, open_columns, read_rows, save_columns
from clearhead.data.sets import locate
from clearhead.files import leftovers, new_folder, write_atomic
from clearhead.models import ModelConfig, build
from clearhead.models.precision import choose_device
from clearhead.models.store import Opened, save_folder
from clearhead.tasks import TASKS, Task
from clearhead.text import Tokenizer, train_tokenizer
from clearhead.train.average import average
from clearhead.train.checkpoint import Checkpoints, Progress
from clearhead.train.evaluate import evaluate
from clearhead.train.initial import initialise
from clearhead.train.loop import Job, fit
from clearhead.train.parallel import gather, shard
from clearhead.train.ranks import Ranks
from clearhead.train.recipe import Part, Recipe, plain, read_recipe, write_recipe
from clearhead.train.tracking import Tracker, read_log

Say = Callable[[str], object]


@dataclass(frozen=True, eq=False)
class Run:
    """A recipe with its folder: tokenizer, data as tokens, and a model of fresh weights."""

    recipe: Recipe
    folder: Path
    task: Task
    config: ModelConfig
    train: Columns
    valid: Columns
    base: Path  # where the recipe's paths begin

    def held_out(self) -> Rows:
        """The rows of the validation part."""
        data = self.recipe.data
        return (
            _split(rows_of(data.train, self.base), data.hold_out, True)
            if data.valid is None
            else rows_of(data.valid, self.base)
        )

    def job(
        self, ranks: Ranks, trackers: Sequence[Tracker] = (), *, device: torch.device | str = "cpu", shown: bool = True
    ) -> Job:
        """What the loop needs, with a model whose first weights follow from the seed."""
        torch.manual_seed(self.recipe.seed)
        settings = self.recipe.train
        model = shard(initialise(build(self.config)).to(choose_device(device)), settings, ranks)

        def measure(model: nn.Module, step: int) -> dict[str, float]:
            metrics = evaluate(model, self.task, self.valid, settings, ranks)
            return metrics if settings.metric in metrics else metrics | self._scores(model, ranks)

        return Job(self.task, model, self.train, settings, self.recipe.seed, self.folder, measure, trackers, shown)

    def _scores(self, model: nn.Module, ranks: Ranks) -> dict[str, float]:
        """The metrics that take answers, and with them time: the first rank gives them, with a whole model."""
        if ranks.size > 1:
            model = gather(model, build(self.config))
        told = self.task.score(fresh(model, self.config, self.task), self.held_out()) if ranks.first else {}
        return json.loads(ranks.told(json.dumps(told)))


def prepare(recipe: Recipe, base: Path, folder: Path, say: Say = lambda text: None) -> Run:
    """Make the folder of a run, or open it: learn the tokenizer and turn the data into tokens, once.

    `base` is where the paths of the recipe begin. What was made is kept and checked, never made twice.
    """
    _claim(recipe, folder)
    words = _tokenizer(recipe, base, folder, say)
    task = TASKS[recipe.task](words, recipe.data.max_len, recipe.train.label_smoothing)
    config = task.config(recipe.model)
    _check_saved(config, task)
    if recipe.data.test is not None:
        rows_of(recipe.data.test, base)  # a file that is missing is missed now, not after training
    train, valid = _columns(recipe, task, base, folder, say)
    for part in (train, valid):
        Batches(task.lengths(part), recipe.train.batch_tokens)  # refuses examples that fit in none
    return Run(recipe, folder, task, config, train, valid, base)


def train(
    run: Run,
    ranks: Ranks | None = None,
    trackers: Sequence[Tracker] = (),
    *,
    device: torch.device | str = "cpu",
    shown: bool = True,
) -> Progress:
    """Train to the end and write `model/`, the folder that `clearhead.load` and `transformers` open."""
    ranks = ranks or Ranks()
    job = run.job(ranks, trackers, device=device, shown=shown)
    progress = fit(job, ranks)
    if ranks.first:
        finish(run, progress)
    ranks.wait()
    return progress


def finish(run: Run, progress: Progress) -> Path:
    """The final model: the mean of the last checkpoints where the recipe says so, else the best one."""
    settings = run.recipe.train
    checkpoints = Checkpoints(run.folder / "checkpoints", settings.keep)
    last = checkpoints.planned()[-settings.average :]
    best = checkpoints.at(progress.best_step or progress.step)
    model = build(run.config)
    average(model, last if settings.average > 1 else [best])
    target = run.folder / "model"
    _sweep(run.folder)
    opened = fresh(model, run.config, run.task)
    facts = {"task": run.task.name, "recipe": plain(run.recipe), "step": progress.step}
    save_folder(opened, target, overwrite=True, facts=facts)
    write_atomic(run.folder / "results.json", json.dumps(results(run, progress, opened), indent=1) + "\n")
    return target


def results(run: Run, progress: Progress, opened: Opened) -> dict[str, Any]:
    """What came of a run: its scores on the test part where the recipe has one, its curve, and how it was made."""
    scores: dict[str, float] = {}
    if (part := run.recipe.data.test) is not None:
        rows = rows_of(part, run.base)
        columns, _ = run.task.encode(rows)
        scores = evaluate(opened.model, run.task, columns, run.recipe.train) | run.task.score(opened, rows, beam=5)
    log = read_log(run.folder / "log.jsonl")
    return {
        **scores,
        "seconds": round(progress.seconds, 1),
        "steps": progress.step,
        "parameters": sum(p.numel() for p in opened.model.parameters()),
        "curve": [
            {k: v for k, v in r.items() if k == "step" or k.startswith("valid")} for r in log if "valid_loss" in r
        ],
        "threads": torch.get_num_threads(),
        "versions": {"clearhead": metadata.version("clearhead"), "torch": torch.__version__},
        "recipe": plain(run.recipe),
    }


def fresh(model: Any, config: ModelConfig, task: Task) -> Opened:
    """A trained model with all that its folder will say of it."""
    family, architecture = task.layout(config)
    rules = task.generation()
    raw = family.write(config, architecture, {name: id for name, id in rules.items() if name.endswith("_token_id")})
    carried = {"generation_config.json": (json.dumps(rules, indent=2) + "\n").encode()}
    return Opened(model.eval(), config, family, architecture, raw, task.tokenizer, carried)


def _check_saved(config: ModelConfig, task: Task) -> None:
    """Refuse a model that its folder could not hold, before it is trained."""
    family, architecture = task.layout(config)
    kept = family.read(family.write(config, architecture, task.generation()), architecture)
    ours, theirs = config.stack, kept.stack
    for name in (field.name for field in fields(ours)):
        if name == "kernel" or name.endswith("dropout"):  # how it is computed, and how trained
            continue
        if getattr(ours, name) != getattr(theirs, name):
            raise ValueError(
                f"model.{name} is {getattr(ours, name)!r}, and the model is saved as {family.title}, which has "
                f"{getattr(theirs, name)!r}: take it out"
            )


def _claim(recipe: Recipe, folder: Path) -> None:
    """The folder belongs to this recipe from now on; one that belongs to another is refused.

    Before the first checkpoint a recipe may still be changed, and what was made by the old one is made anew.
    """
    path = folder / "recipe.yaml"
    begun = (folder / "model").exists() or Checkpoints(folder / "checkpoints", 1).all()
    if path.is_file() and not begun:
        old = read_recipe(path)
        if any(getattr(old, part) != getattr(recipe, part) for part in ("task", "data", "tokenizer")):
            for made in ("tokenizer", "data"):
                shutil.rmtree(folder / made, ignore_errors=True)
    elif path.is_file():
        if (old := read_recipe(path)) == recipe:
            return
        if replace(old, train=recipe.train) != recipe:
            raise ValueError(f"{folder} was begun with another recipe: give another folder, or remove it to begin anew")
        if old.train != recipe.train and replace(old.train, steps=recipe.train.steps) != recipe.train:
            raise ValueError(
                f"{folder} was begun with other training settings: only train.steps may change. "
                "Give another folder, or remove it to begin anew"
            )
    elif folder.exists() and set(folder.iterdir()) > set(leftovers(folder)):
        raise ValueError(f"{folder} holds something that is no run: give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    write_recipe(recipe, path)


def _tokenizer(recipe: Recipe, base: Path, folder: Path, say: Say) -> Tokenizer:
    settings = recipe.tokenizer
    if settings.folder is not None:
        return Tokenizer.load(locate(settings.folder, base))
    target = folder / "tokenizer"
    if not target.exists():
        _sweep(folder)
        task = TASKS[recipe.task]
        with NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as text:
            for row in rows_of(recipe.data.train, base):
                text.writelines(f"{value}\n" for value in row.values.values())
            text.flush()
            words = train_tokenizer(
                text.name,
                template=task.template,
                vocab_size=settings.vocab_size,
                kind=settings.kind,
                lowercase=settings.lowercase,
            )
        with new_folder(target) as new:
            words.save(new)
        say(f"tokenizer: {words.vocab_size:,} pieces, learnt from the training text")
    return Tokenizer.load(target)


def _columns(recipe: Recipe, task: Task, base: Path, folder: Path, say: Say) -> tuple[Columns, Columns]:
    parts = {"train": recipe.data.train, "valid": recipe.data.valid}
    (folder / "data").mkdir(exist_ok=True)
    for name, part in parts.items():
        target = folder / "data" / name
        if target.exists():
            continue
        _sweep(target.parent)
        held, aside = (recipe.data.hold_out, part is None) if recipe.data.valid is None else (0, False)
        rows = rows_of(part or recipe.data.train, base)
        columns, left_out = task.encode(_split(rows, held, aside) if held else rows)
        for sentence in (rows.report(), *map(str, left_out)):
            if sentence:
                say(f"{name}: {sentence}")
        if not len(next(iter(columns.values()))):
            kept = f" beside the {held:,} rows of data.hold_out: lower it" if held and not aside else ""
            raise ValueError(f"data.{name} holds no example{kept}")
        save_columns(columns, target, {"tokenizer": task.tokenizer.fingerprint()})
        say(f"{name}: {len(next(iter(columns.values()))):,} examples, {int(task.lengths(columns).sum()):,} tokens")
    (train, facts), (valid, _) = (open_columns(folder / "data" / name) for name in parts)
    if facts["tokenizer"] != task.tokenizer.fingerprint():
        raise ValueError(
            f"{folder / 'data'} was made with another tokenizer than there is now: give another folder, "
            "or remove it to begin anew"
        )
    return train, valid


def _sweep(folder: Path) -> None:
    """Take away what a process that was killed left half made."""
    for path in leftovers(folder):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _split(rows: Rows, held: int, aside: bool) -> Rows:
    """The first `held` rows, kept aside, or all the others."""

    def read() -> Iterator[Row]:
        return islice(iter(rows), held) if aside else islice(iter(rows), held, None)

    return Rows(read)


def rows_of(part: Part, base: Path) -> Rows:
    """The rows that one part of a recipe's data names."""
    if "file" in part:
        columns = {name: column for name, column in part.items() if name != "file"}
        return read_rows(locate(part["file"], base), columns or None)
    return read_rows({name: locate(file, base) for name, file in part.items()})
