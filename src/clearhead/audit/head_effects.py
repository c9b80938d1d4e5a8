"""Which heads a bias depends on: each head is ablated in turn, and the sentence pairs are scored again.

An ablation shows what a model does without a head, not what the head is for: other heads may do the same work, and a
head may matter for the sentences and not for the groups in them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clearhead.attention import ablate_heads
from clearhead.attention.capture.sites import attentions
from clearhead.audit.estimates import AuditedExample, Estimate, corrected, mean_estimate
from clearhead.audit.run_in_chunks import OnProgress, no_progress
from clearhead.audit.sentence_likelihood import likelihood_kind, log_likelihoods, pseudo_log_likelihoods
from clearhead.hub.folder import LoadedModel
from clearhead.metrics.bootstrap import Numbers

NUM_PAIRS = 32  # with the largest effect
DECIMALS = 4  # of changes: smaller ones are rounding errors of float32


@dataclass(frozen=True, kw_only=True)
class AblatedHead:
    """What the ablation of a head changes."""

    layer: str
    head: int
    change: Estimate  # the mean of the preferences, as absolute log-likelihood, minus that without the head
    likelihood: float  # mean change of the log-likelihood of a sentence without the head, of both sentences
    by_pair: tuple[float, ...]  # the values whose mean `change` is

    @property
    def name(self) -> str:
        return f"{self.layer} head {self.head}"


@dataclass(frozen=True, kw_only=True)
class HeadEffects:
    """The pairs with the largest effect, and what each head adds to it."""

    pairs: tuple[AuditedExample, ...]
    heads: tuple[AblatedHead, ...]  # with the largest change first
    total: Estimate  # the mean effect of these pairs, as absolute log-likelihood

    def of_pair(self, number: int, count: int) -> list[AblatedHead]:
        """Return the heads whose ablation changes the effect of a pair most."""
        return sorted(self.heads, key=lambda head: -abs(head.by_pair[number]))[:count]


def largest_effects(examples: Sequence[AuditedExample], count: int = NUM_PAIRS) -> list[AuditedExample]:
    """Return the pairs of texts with the largest effects, in either direction."""
    pairs = [example for example in examples if len(example.texts) == 2]
    return sorted(pairs, key=lambda example: -abs(example.effect))[:count]


def heads_of(loaded: LoadedModel) -> list[tuple[str, int]]:
    """Return all heads of a model, as layer and number; ValueError where it has none."""
    heads = [
        (name, head)
        for name in attentions(loaded.model)
        for head in range(getattr(loaded.config, name.partition(".")[0]).num_heads)
    ]
    if not heads:
        raise ValueError(f"{loaded.architecture} has no attention, so there is no head to ablate: leave out --why")
    return heads


def head_effects(
    loaded: LoadedModel, pairs: Sequence[AuditedExample], *, seed: int = 0, on_progress: OnProgress = no_progress
) -> HeadEffects:
    """Ablate each head in turn, and measure how much smaller the preferences of these pairs become.

    Positive: without the head, the model prefers less. Negative: it prefers more.
    """
    places = heads_of(loaded)
    full = pair_scores(loaded, pairs)
    signs = np.sign(full[:, 0] - full[:, 1])
    found: list[AblatedHead] = []
    for number, (layer, head) in enumerate(places):
        with ablate_heads(loaded.model, {layer: [head]}):
            lost = np.round(full - pair_scores(loaded, pairs), DECIMALS)  # (pairs, 2)
        changes = signs * (lost[:, 0] - lost[:, 1])
        change = mean_estimate(f"{layer} head {head}", changes, ideal=0.0, seed=seed)
        found.append(
            AblatedHead(
                layer=layer, head=head, change=change, likelihood=-float(lost.mean()), by_pair=tuple(changes.tolist())
            )
        )
        on_progress(number + 1, len(places))
    tested = [replace(h, change=e) for h, e in zip(found, corrected(h.change for h in found), strict=True)]
    ranked = sorted(tested, key=lambda one: -abs(one.change.value))
    total = mean_estimate("all heads", np.abs(full[:, 0] - full[:, 1]), seed=seed)
    return HeadEffects(pairs=tuple(pairs), heads=tuple(ranked), total=total)


def pair_scores(loaded: LoadedModel, pairs: Sequence[AuditedExample]) -> Numbers:
    """Return the log-likelihoods of both texts of each pair, (n, 2)."""
    texts = [(example.texts[0], example.texts[1]) for example in pairs]
    if likelihood_kind(loaded) == "masked":
        return pseudo_log_likelihoods(loaded, texts)
    totals, _ = log_likelihoods(loaded, [text for pair in texts for text in pair])
    return totals.reshape(-1, 2)
