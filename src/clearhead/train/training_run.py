"""A training run: a recipe with its folder, its tokenized data, and the model that training begins with."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from clearhead.data import Columns, Rows
from clearhead.distributed import Distributed
from clearhead.distributed.sharding import gather, initialize_shards, shard, share_weights
from clearhead.files.manifest import Folder
from clearhead.hub.folder import LoadedModel
from clearhead.models import ModelConfig, build
from clearhead.models.model import Model
from clearhead.models.precision import choose_device
from clearhead.tasks import Task
from clearhead.train.evaluate import evaluate, score
from clearhead.train.init_model import Pretrained, adapt, freeze_unused, initial_model, new_model
from clearhead.train.loop import TrainingJob
from clearhead.train.recipe import Recipe, TrainConfig
from clearhead.train.run_data import Parts
from clearhead.train.run_mirror import LOGS, mirror_of
from clearhead.train.tracking import Tracker


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """A recipe with its folder: tokenizer, tokenized data, and the model that training begins with."""

    recipe: Recipe
    folder: Path  # on this machine
    out: Folder  # of checkpoints, logs and the model: the same, or a folder in an object store
    task: Task
    skeleton: LoadedModel  # what the folder of the trained model will hold, without weights
    settings: TrainConfig  # from the recipe, with epochs converted to steps
    train: Columns
    valid: Columns
    base: Path  # the folder that paths in the recipe are relative to
    parts: Parts
    base_model: Pretrained | None = None  # the model that is fine-tuned

    @property
    def config(self) -> ModelConfig:
        """The configuration of the model."""
        return self.skeleton.config

    def empty_model(self) -> Model:
        """Build the model of this run with placeholder weights, ready to be filled from a checkpoint."""
        model = build(self.config)
        return freeze_unused(model if self.base_model is None else adapt(model, self.recipe), self.task)

    def trained(self, model: Any) -> LoadedModel:
        """Return a model of this run with everything that is saved with it."""
        return replace(self.skeleton, model=model.eval())

    def held_out(self) -> Rows:
        """The rows for validation."""
        return self.parts()[1]

    def job(
        self,
        distributed: Distributed,
        trackers: Sequence[Tracker] = (),
        *,
        device: torch.device | str = "cpu",
        shown: bool = True,
    ) -> TrainingJob:
        """Return the input of the training loop, with a model whose initial weights follow from the seed."""
        settings = self.settings
        place = choose_device(device)
        recompute = settings.activation_checkpointing
        if distributed.size == 1:
            initial = initial_model(self.task, self.recipe, self.base_model).model
            model = shard(initial.to(place), distributed, activation_checkpointing=recompute)
        elif self.base_model is None:
            torch.manual_seed(self.recipe.seed)
            model = initialize_shards(
                lambda: new_model(self.config, self.task), distributed, place, activation_checkpointing=recompute
            )
        else:
            whole = initial_model(self.task, self.recipe, self.base_model).model if distributed.is_main else None
            with torch.device("meta"):
                empty = self.empty_model()
            model = share_weights(whole, empty, distributed, place, activation_checkpointing=recompute)

        def measure(model: nn.Module, step: int) -> dict[str, float]:
            metrics = evaluate(model, self.task, self.valid, settings, distributed)
            return metrics if settings.metric in metrics else metrics | self._scores(model, distributed)

        def publish() -> None:
            if (mirror := mirror_of(self.out)) is not None:
                mirror.push(LOGS)

        seed, folder, out = self.recipe.seed, self.folder, self.out
        return TrainingJob(
            self.task, model, self.train, settings, seed, folder, measure, trackers, shown, out / "checkpoints", publish
        )

    def _scores(self, model: nn.Module, distributed: Distributed) -> dict[str, float]:
        """Return the metrics that need the answers of the model; the main rank alone gathers it, and computes them."""
        if distributed.size > 1:
            full = self.empty_model() if distributed.is_main else None
            gather(model, full)
            model = full or model
        scores = score(self.task, self.trained(model), self.held_out(), self.settings) if distributed.is_main else {}
        return json.loads(distributed.broadcast(json.dumps(scores)))
