"""A run: the folder where a recipe becomes a model. Started anew with the same recipe, it goes on where it was."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import torch
from torch import nn

from clearhead.data import Columns, Row, Rows, open_columns, read_rows, save_columns
from clearhead.data.sets import locate
from clearhead.data.shards import Shards, Stretch
from clearhead.data.split import after_one_another, drawn_rows, first_rows, renamed
from clearhead.files import leftovers, new_folder, write_atomic
from clearhead.models import ModelConfig, build
from clearhead.models.lora import merge, save_adapter
from clearhead.models.model import Model
from clearhead.models.precision import choose_device
from clearhead.models.store import Opened, save_folder
from clearhead.tasks import TASKS, Settings, Task, Translate
from clearhead.tasks.build import TEMPLATE
from clearhead.tasks.labels import COLUMNS as LABELS
from clearhead.text import Tokenizer, train_tokenizer
from clearhead.train.average import average
from clearhead.train.batches import batches_of, counted
from clearhead.train.checkpoint import Checkpoints, Progress
from clearhead.train.evaluate import evaluate
from clearhead.train.loop import Job, fit
from clearhead.train.parallel import gather, shard
from clearhead.train.precision import precision
from clearhead.train.ranks import Ranks
from clearhead.train.recipe import Part, Recipe, Training, columns_of_part, plain, read_recipe, write_recipe
from clearhead.train.start import Body, adapt, first, frame, lora_of
from clearhead.train.tracking import Tracker, read_log

Say = Callable[[str], object]
Parts = Callable[[], tuple[Rows, Rows]]
"""The rows that are trained on and those kept for validation, found when they are first asked for."""


@dataclass(frozen=True, eq=False)
class Run:
    """A recipe with its folder: tokenizer, data as tokens, and the model that it begins with."""

    recipe: Recipe
    folder: Path
    task: Task
    frame: Opened  # all that the trained model's folder will say, without weights
    settings: Training  # the recipe's, with its epochs counted in steps
    train: Columns
    valid: Columns
    base: Path  # where the recipe's paths begin
    parts: Parts
    body: Body | None = None  # the folder it starts from

    @property
    def config(self) -> ModelConfig:
        """The model's."""
        return self.frame.config

    def shell(self) -> Model:
        """A model of this run whose weights are still to come."""
        model = build(self.config)
        return model if self.body is None else adapt(model, self.recipe)

    def trained(self, model: Any) -> Opened:
        """A model of this run with all that its folder will say of it."""
        return replace(self.frame, model=model.eval())

    def held_out(self) -> Rows:
        """The rows of the validation part."""
        return self.parts()[1]

    def job(
        self, ranks: Ranks, trackers: Sequence[Tracker] = (), *, device: torch.device | str = "cpu", shown: bool = True
    ) -> Job:
        """What the loop needs, with a model whose first weights follow from the seed."""
        settings = self.settings
        begun = first(self.task, self.recipe, self.body).model
        model = shard(begun.to(choose_device(device)), settings, ranks)

        def measure(model: nn.Module, step: int) -> dict[str, float]:
            metrics = evaluate(model, self.task, self.valid, settings, ranks)
            return metrics if settings.metric in metrics else metrics | self._scores(model, ranks)

        return Job(self.task, model, self.train, settings, self.recipe.seed, self.folder, measure, trackers, shown)

    def _scores(self, model: nn.Module, ranks: Ranks) -> dict[str, float]:
        """The metrics that take answers, and with them time: the first rank gives them, with a whole model."""
        if ranks.size > 1:
            model = gather(model, self.shell())
        told = _scored(self.task, self.trained(model), self.held_out(), self.settings) if ranks.first else {}
        return json.loads(ranks.told(json.dumps(told)))


def prepare(recipe: Recipe, base: Path, folder: Path, say: Say = lambda text: None) -> Run:
    """Make the folder of a run, or open it: learn the tokenizer and turn the data into tokens, once.

    `base` is where the paths of the recipe begin. What was made is kept and checked, never made twice.
    """
    _claim(recipe, folder)
    parts = cache(lambda: parts_of(recipe, base))
    body = Body.of(recipe, base)
    words = _tokenizer(recipe, base, folder, body, say)
    task = TASKS[recipe.task].make(words, _settings(recipe, body), _facts(recipe, parts, folder))
    made = frame(task, recipe, body)
    if recipe.data.test is not None:
        rows_of(recipe.data.test, base)  # a file that is missing is missed now, not after training
    train, valid = _columns(recipe, base, task, parts, folder, say)
    batches, _ = (batches_of(task, part, recipe.train) for part in (train, valid))  # none too long for one
    settings = counted(recipe.train, len(batches))
    return Run(recipe, folder, task, made, settings, train, valid, base, parts, body)


def _settings(recipe: Recipe, body: Body | None) -> Settings:
    """What the task is told."""
    limits = [recipe.data.max_len, *([body.limit] if body is not None and body.limit is not None else [])]
    return Settings(
        max_len=min(limits),
        label_smoothing=recipe.train.label_smoothing,
        stretch=recipe.data.stretch,
        columns=tuple(columns_of_part(recipe.data.train)),
        balanced=recipe.data.balanced,
        pairs=recipe.data.pairs,
        whole_words=recipe.data.whole_words,
        language=recipe.data.language,
        family=str(recipe.model.get("family", "bert")),
        encoder=_encodes(recipe, body),
        segments=body is None or body.has_segments,
    )


def _encodes(recipe: Recipe, body: Body | None) -> bool:
    """Does an encoder read for the decoder of a conversation?"""
    if body is not None:
        return body.config.encoder is not None and body.config.decoder is not None
    told = recipe.model.get("encoder", False)
    if not isinstance(told, bool):
        raise ValueError(f"model.encoder is {told!r}: true or false")
    return told


def _facts(recipe: Recipe, parts: Parts, folder: Path) -> dict[str, Any]:
    """What the task must know of the training rows; learnt once, and kept."""
    path, task = folder / "labels.json", TASKS[recipe.task]
    if task.drawn is None:  # it learns from text alone
        return {}
    if not path.exists():
        facts = task.learn(parts()[0], tuple(columns_of_part(recipe.data.train)))
        write_atomic(path, json.dumps(facts, ensure_ascii=False, indent=1) + "\n")
    return json.loads(path.read_text(encoding="utf-8"))


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
        if shown and run.recipe.data.test is not None:
            print("measuring the test part", file=sys.stderr, flush=True)
        finish(run, progress)
    ranks.wait()
    return progress


def finish(run: Run, progress: Progress) -> Path:
    """The final model: the mean of the last checkpoints where the recipe says so, else the best one."""
    settings = run.settings
    checkpoints = Checkpoints(run.folder / "checkpoints", settings.keep)
    last = checkpoints.planned()[-settings.average :]
    best = checkpoints.at(progress.best_step or progress.step)
    model = run.shell()
    average(model, last if settings.average > 1 else [best])
    target = run.folder / "model"
    _sweep(run.folder)
    if (narrow := lora_of(run.recipe)) is not None:
        save_adapter(run.trained(model), narrow, run.folder / "adapter", base=str(run.recipe.model["start"]))
        merge(model)
    whole = run.trained(model)
    opened, answers = run.task.finished(whole, run.held_out())
    facts = {"task": run.task.name, "answers": answers, "recipe": plain(run.recipe), "step": progress.step}
    opened = replace(opened, facts=facts)
    save_folder(opened, target, overwrite=True)
    for name, more in opened.beside.items():
        save_folder(replace(more, facts=facts), run.folder / name, overwrite=True)
    write_atomic(run.folder / "results.json", json.dumps(results(run, progress, opened, whole), indent=1) + "\n")
    return target


def results(run: Run, progress: Progress, opened: Opened, whole: Opened) -> dict[str, Any]:
    """What came of a run: its scores on the test part where the recipe has one, its curve, and how it was made.

    `whole` is what was trained, `opened` what is kept of it to answer.
    """
    scores: dict[str, float] = {}
    if (part := run.recipe.data.test) is not None:
        rows = rows_of(part, run.base, run.recipe.data.rename)
        # one that labels is measured as it answers: a number is in its own scale by now
        as_trained = run.task.drawn is None
        task: Task = run.task if as_trained else type(run.task).of(opened)  # type: ignore[attr-defined]
        columns, _ = task.encode(rows)
        measured = evaluate((whole if as_trained else opened).model, task, columns, run.settings)
        scores = measured | _scored(task, opened, rows, run.settings, 5)
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


def _scored(task: Task, opened: Opened, rows: Rows, settings: Training, beam: int = 1) -> dict[str, float]:
    """What a task's answers are worth; those that come of one look at a text are computed as in training."""
    device = next(iter(opened.model.parameters())).device
    with nullcontext() if task.drawn is None else precision(settings.dtype, device):
        return task.score(opened, rows, beam)


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
            (folder / "labels.json").unlink(missing_ok=True)
    elif path.is_file():
        if (old := read_recipe(path)) == recipe:
            return
        if replace(old, train=recipe.train) != recipe:
            raise ValueError(f"{folder} was begun with another recipe: give another folder, or remove it to begin anew")
        if old.train != recipe.train and (
            replace(old.train, steps=recipe.train.steps, epochs=recipe.train.epochs) != recipe.train
        ):
            raise ValueError(
                f"{folder} was begun with other training settings: only train.steps and train.epochs may change. "
                "Give another folder, or remove it to begin anew"
            )
    elif folder.exists() and set(folder.iterdir()) > set(leftovers(folder)):
        raise ValueError(f"{folder} holds something that is no run: give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    write_recipe(recipe, path)


def _tokenizer(recipe: Recipe, base: Path, folder: Path, body: Body | None, say: Say) -> Tokenizer:
    settings = recipe.tokenizer
    if body is not None:
        return Tokenizer.load(body.folder)
    if (shards := shards_of(recipe.data.train, base)) is not None:
        return Tokenizer.load(shards.folders[0] / "tokenizer")
    if settings.folder is not None:
        return Tokenizer.load(locate(settings.folder, base))
    target = folder / "tokenizer"
    if not target.exists():
        _sweep(folder)
        with NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as text:
            for row in rows_of(recipe.data.train, base):
                text.writelines(f"{value}\n" for value in _words(row))
            text.flush()
            words = train_tokenizer(
                text.name,
                template=_template(recipe),
                vocab_size=settings.vocab_size,
                kind=settings.kind,
                lowercase=settings.lowercase,
            )
        with new_folder(target) as new:
            words.save(new)
        say(f"tokenizer: {words.vocab_size:,} pieces, learnt from the training text")
    return Tokenizer.load(target)


def _template(recipe: Recipe) -> str:
    """The template of the tokenizer that is learnt: of the family that is named, or the task's."""
    if recipe.model.get("encoder"):
        return Translate.template
    return TEMPLATE.get(str(recipe.model.get("family")), TASKS[recipe.task].template)


def _words(row: Row) -> Iterator[str]:
    """What a tokenizer learns from: text, not what it is called."""
    for name, value in row.values.items():
        if name == "words":
            yield " ".join(value)
        elif name == "turns":
            yield from value
        elif name not in ("tags", "answers", "spans", *LABELS):
            yield value


def _columns(recipe: Recipe, base: Path, task: Task, parts: Parts, folder: Path, say: Say) -> tuple[Columns, Columns]:
    names = ("train", "valid")
    (folder / "data").mkdir(exist_ok=True)
    stored = _stored(recipe, base, task)
    for i, name in enumerate(names):
        if name in stored:
            continue
        target = folder / "data" / name
        if target.exists():
            continue
        _sweep(target.parent)
        rows = parts()[i]
        columns, left_out = task.encode(rows)
        for sentence in (rows.report(), *map(str, left_out)):
            if sentence:
                say(f"{name}: {sentence}")
        if not len(next(iter(columns.values()))):
            held = recipe.data.hold_out if recipe.data.valid is None and name == "train" else 0
            kept = f" beside the {held:,} rows of data.hold_out: lower it" if held else ""
            raise ValueError(f"data.{name} holds no example{kept}")
        save_columns(columns, target, {"tokenizer": task.tokenizer.fingerprint()})
        say(f"{name}: {len(next(iter(columns.values()))):,} examples, {int(task.lengths(columns).sum()):,} tokens")
    found: dict[str, Columns] = dict(stored)
    for name in names:
        if name not in stored:
            found[name], facts = open_columns(folder / "data" / name)
            if facts["tokenizer"] != task.tokenizer.fingerprint():
                raise ValueError(
                    f"{folder / 'data'} was made with another tokenizer than there is now: give another folder, "
                    "or remove it to begin anew"
                )
    return found["train"], found["valid"]


def _stored(recipe: Recipe, base: Path, task: Task) -> dict[str, Columns]:
    """The parts that are in shards; where no validation is named, the first blocks of the training are kept for it."""
    data, words = recipe.data, task.tokenizer.fingerprint()
    parts = {"train": shards_of(data.train, base), "valid": None if data.valid is None else shards_of(data.valid, base)}
    for name, shards in parts.items():
        if shards is not None and shards.tokenizer != words:
            raise ValueError(f"data.{name} was prepared with another tokenizer than the model's: prepare it anew")
    train, valid = parts["train"], parts["valid"]
    found: dict[str, Columns] = {}
    held = 0
    if train is not None and data.valid is None:
        held = data.hold_out
        if held >= len(train):
            raise ValueError(f"data.train has {len(train):,} blocks, and data.hold_out is {held:,}: lower it")
        found["valid"] = Stretch(train, 0, held).columns()
    elif valid is not None:
        found["valid"] = Stretch(valid, 0, len(valid)).columns()
    if train is not None:
        found["train"] = Stretch(train, held, len(train) - held).columns()
    return found


def shards_of(part: Part, base: Path) -> Shards | None:
    """The shards that a part names, if it does; a damaged block is found when it is read."""
    named = part.get("shards")
    if named is None:
        return None
    folders = [locate(name, base) for name in ([named] if isinstance(named, str) else named)]
    return Shards(*folders, check=False)


def _sweep(folder: Path) -> None:
    """Take away what a process that was killed left half made."""
    for path in leftovers(folder):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def parts_of(recipe: Recipe, base: Path) -> tuple[Rows, Rows]:
    """The rows that are trained on, and those kept for validation."""
    data, task = recipe.data, TASKS[recipe.task]
    if "shards" in data.train:  # they are tokens, and no rows
        held = data.valid if data.valid is not None and "shards" not in data.valid else None
        return Rows(lambda: iter(())), Rows(lambda: iter(())) if held is None else rows_of(held, base)
    rows = rows_of(data.train, base, data.rename)
    if data.valid is not None:
        return rows, rows_of(data.valid, base, data.rename)
    if task.drawn is None:
        held, rest = first_rows(rows, data.hold_out)
    else:
        text, label = task.drawn
        by = "group" if "group" in data.train else text
        held, rest = drawn_rows(
            rows, data.hold_out, recipe.seed, group=lambda row: str(row.values[by]), label=lambda row: label(row.values)
        )
    return rest, held


def rows_of(part: Part, base: Path, rename: Mapping[str, str] | None = None) -> Rows:
    """The rows that one part of a recipe's data names."""
    if "file" in part:
        columns = {name: str(column) for name, column in part.items() if name != "file"}
        rows = read_rows(locate(str(part["file"]), base), columns or None)
        return renamed(rows, rename) if rename else rows
    ((first, named), *_) = part.items()
    if isinstance(named, list):
        return after_one_another([read_rows({first: locate(name, base)}) for name in named])
    return read_rows({name: locate(str(file), base) for name, file in part.items()})
