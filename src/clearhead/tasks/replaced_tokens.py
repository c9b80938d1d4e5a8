"""Replaced-token detection (ELECTRA, Clark et al. 2020): the model finds tokens that a small generator replaced.

The generator is trained as a masked language model. Tokens sampled from it replace the masked ones, and the model
predicts for every token whether it was replaced, so that all tokens contribute to the loss, not the masked ones alone.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.data import Columns, Integers, Rows
from clearhead.hub.families import FAMILIES
from clearhead.hub.folder import LoadedModel
from clearhead.models import Model, ModelConfig
from clearhead.models.heads import HeadKind
from clearhead.tasks.masked_lm import MaskedLM
from clearhead.tasks.model_presets import encoder_of_words, generator_config
from clearhead.tasks.task import Batch, SaveFormat, TaskConfig, TaskSpec
from clearhead.text import Tokenizer

WEIGHT = 50.0  # of the model's loss relative to the generator's (Clark et al. 2020, section 3.2)


@dataclass(frozen=True, eq=False)
class ReplacedTokens(MaskedLM):
    """Detects replaced tokens; the generator, a masked language model, is trained jointly."""

    always: ClassVar[bool] = True
    spec: ClassVar[TaskSpec] = TaskSpec(
        name="replaced_tokens",
        column_sets=MaskedLM.spec.column_sets,
        metrics=("loss", "discriminator_loss", "precision", "recall", "generator_loss", "accuracy"),
    )

    @classmethod
    def collect_labels(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        """Return nothing: the tokenizer is enough."""
        return {}

    @classmethod
    def from_recipe(cls, tokenizer: Tokenizer, settings: TaskConfig, data_info: Mapping[str, Any]) -> Self:
        """Create the task with a recipe's limits."""
        if settings.pairs != "none":
            raise ValueError(
                f"data.pairs is {settings.pairs!r}: replaced-token detection reads single texts; remove it"
            )
        return super().from_recipe(tokenizer, settings, data_info)

    @property
    def head(self) -> tuple[HeadKind, tuple[str, ...]]:
        return "discriminator", ()

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Return the batch of masked tokens, with a uniform number to sample each replacement by."""
        batch = super().collate(columns, examples, draw)
        uniforms = [np.zeros(0, dtype=np.float32)]
        for number, count in zip(examples.tolist(), self.num_targets(columns, examples).tolist(), strict=True):
            source = np.random.Generator(np.random.Philox(np.random.SeedSequence([draw, number, 2])))
            uniforms.append(source.random(count, dtype=np.float32))
        return replace(batch, uniforms=torch.from_numpy(np.concatenate(uniforms)[: batch.labels.shape[1]]))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the generator's summed loss plus the model's mean loss over tokens times the masked tokens."""
        generator_loss, own_loss, *_ = self._joint_losses(model, batch)
        return generator_loss + WEIGHT * own_loss * batch.labels.shape[1]

    def loss_and_metrics(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, tuple[float, float]]]:
        """Return the loss, its two parts, the generator's accuracy, and precision and recall, in percent."""
        generator_loss, own_loss, scores, replaced, correct = self._joint_losses(model, batch)
        masked, predicted = batch.labels.shape[1], scores > 0
        detected = 100.0 * float((predicted & replaced).sum())
        return generator_loss + WEIGHT * own_loss * masked, {
            "generator_loss": (float(generator_loss), masked),
            "accuracy": (100.0 * float(correct), masked),
            "discriminator_loss": (float(own_loss) * len(scores), len(scores)),
            "precision": (detected, float(predicted.sum())),
            "recall": (detected, float(replaced.sum())),
        }

    def _joint_losses(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return the generator's loss, the model's mean loss and scores, the replaced tokens, and the correct count."""
        assert isinstance(model, Model) and model.generator is not None and batch.uniforms is not None
        logits = model.generator(batch.ids, batch.layout, places=batch.labels[0])
        generator_loss = F.cross_entropy(logits.float(), batch.labels[1], reduction="sum")
        with torch.no_grad():
            cumulative = torch.softmax(logits.float(), 1).cumsum(1)
            sampled = torch.searchsorted(cumulative, batch.uniforms.unsqueeze(1) * cumulative[:, -1:]).squeeze(1)
            sampled = sampled.clamp(max=logits.shape[1] - 1)
            replaced = torch.zeros(len(batch.ids), dtype=torch.bool, device=batch.ids.device)
            replaced[batch.labels[0]] = sampled != batch.labels[1]
            correct = (logits.argmax(1) == batch.labels[1]).sum()
        scores = model(batch.ids.index_put((batch.labels[0],), sampled), batch.layout).squeeze(1).float()
        own_loss = F.binary_cross_entropy_with_logits(scores, replaced.float())
        return generator_loss, own_loss if len(scores) else scores.sum(), scores, replaced, correct

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """Return an ELECTRA configuration, with a generator of a quarter of its width."""
        settings = {"family": "electra", **settings}
        if settings["family"] != "electra":
            raise ValueError(f"model.family is {settings['family']!r}: replaced-token detection requires electra")
        config = encoder_of_words(settings, self.tokenizer, self.settings.max_len, "discriminator")
        return replace(config, generator=generator_config(config))

    def save_format(self, config: ModelConfig) -> SaveFormat:
        return SaveFormat(FAMILIES["electra"], "ElectraForPreTraining")

    def finalize(self, loaded: LoadedModel, rows: Rows) -> tuple[LoadedModel, dict[str, Any]]:
        """Return the model without its generator, which becomes a companion with a folder of its own."""
        config, generator = loaded.config, loaded.model.generator
        assert generator is not None and config.generator is not None
        model = copy(loaded.model)  # shares the weights; the joint model keeps its generator
        model._modules = {**model._modules, "generator": None}
        architecture = loaded.family.architecture({}, "lm")
        hf_config = loaded.family.write(config.generator, architecture)
        companion = replace(
            loaded, model=generator, config=config.generator, architecture=architecture, hf_config=hf_config
        )
        config = replace(config, generator=None)
        return replace(loaded, model=model, config=config, companions={"generator": companion}), {}
