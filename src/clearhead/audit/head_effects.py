"""Which heads a bias depends on: each head is ablated in turn, and the sentence pairs are scored again.

An ablation shows what a model does without a head, not what the head is for: other heads may do the same work, and a
head may matter for the sentences and not for the groups in them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clearhead.attention import ablate_heads
from clearhead.attention.capture.sites import attentions
from clearhead.audit.estimates import AuditedExample, Estimate, corrected, mean_estimate
from clearhead.audit.sentence_likelihood import (
    OnProgress,
    likelihood_kind,
    log_likelihoods,
    no_progress,
    pseudo_log_likelihoods,
)
from clearhead.hub.folder import LoadedModel
from clearhead.metrics.bootstrap import Numbers

NUM_PAIRS = 32  # with the largest effect


@dataclass(frozen=True, kw_only=True)
class HeadEffects:
    """The pairs with the largest effect, and what each head adds to it."""

    pairs: tuple[AuditedExample, ...]
    heads: tuple[Estimate, ...]  # the mean of the effect minus that without the head, largest first, by "layer head"
    total: Estimate  # the mean effect of these pairs, as absolute log-likelihood


def largest_effects(examples: Sequence[AuditedExample], count: int = NUM_PAIRS) -> list[AuditedExample]:
    """Return the pairs of texts with the largest effects, in either direction."""
    pairs = [example for example in examples if len(example.texts) == 2]
    return sorted(pairs, key=lambda example: -abs(example.effect))[:count]


def head_effects(
    loaded: LoadedModel, pairs: Sequence[AuditedExample], *, seed: int = 0, on_progress: OnProgress = no_progress
) -> HeadEffects:
    """Ablate each head in turn, and measure how much smaller the preferences of these pairs become.

    Positive: without the head, the model prefers less. Negative: it prefers more.
    """
    full = pair_effects(loaded, pairs)
    signs = np.sign(full)
    places = [(name, head) for name in attentions(loaded.model) for head in range(_num_heads(loaded, name))]
    estimates: list[Estimate] = []
    for number, (name, head) in enumerate(places):
        with ablate_heads(loaded.model, {name: [head]}):
            without = pair_effects(loaded, pairs)
        estimates.append(mean_estimate(f"{name} head {head}", signs * (full - without), ideal=0.0, seed=seed))
        on_progress(number + 1, len(places))
    ranked = sorted(corrected(estimates), key=lambda estimate: -abs(estimate.value))
    total = mean_estimate("all heads", np.abs(full), seed=seed)
    return HeadEffects(pairs=tuple(pairs), heads=tuple(ranked), total=total)


def pair_effects(loaded: LoadedModel, pairs: Sequence[AuditedExample]) -> Numbers:
    """Return the log-likelihood of the first text of each pair minus that of the second, (n,)."""
    texts = [(example.texts[0], example.texts[1]) for example in pairs]
    if likelihood_kind(loaded) == "masked":
        first, second = pseudo_log_likelihoods(loaded, texts).T
    else:
        totals, _ = log_likelihoods(loaded, [text for pair in texts for text in pair])
        first, second = totals.reshape(-1, 2).T
    return first - second


def _num_heads(loaded: LoadedModel, site: str) -> int:
    stack = getattr(loaded.config, site.split(".")[0])
    return stack.num_heads
