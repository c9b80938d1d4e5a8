"""Effects of heads: by brute force on weights that are set to zero, and on a model in which one head has the bias."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch

from clearhead.attention.capture.sites import attentions
from clearhead.audit.estimates import AuditedExample
from clearhead.audit.head_effects import NUM_PAIRS, head_effects, heads_of, largest_effects, pair_scores
from clearhead.audit.sentence_likelihood import pseudo_log_likelihoods
from clearhead.audit.sentence_pairs import audit_pairs
from clearhead.hub.folder import LoadedModel
from tests.audit.made_up_people import pairs, sentences, train_on
from tests.audit.made_up_results import head, heads_on


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    return train_on(sentences(0.9, 0), tmp_path_factory.mktemp("masked"), "masked_lm", steps=12)


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    return train_on(sentences(0.9, 0), tmp_path_factory.mktemp("causal"), "language_model", steps=8)


def without(loaded, head, score):
    """Return what `score` returns with the columns of a head in the output projection set to zero."""
    (site,) = attentions(loaded.model).values()
    assert site.output is not None
    width = site.output.shape[1] // 2
    kept = site.output.detach().clone()
    with torch.no_grad():
        site.output[:, head * width : (head + 1) * width] = 0
        try:
            return score()
        finally:
            site.output.copy_(kept)


@pytest.mark.parametrize("kind", ["masked", "causal"])
def test_changes_by_brute_force(kind, request):
    loaded = request.getfixturevalue(kind)
    examples = largest_effects(audit_pairs(loaded, pairs(), data_sha256="0" * 64).examples, 12)
    full = pair_scores(loaded, examples)
    assert full[:, 0] - full[:, 1] == pytest.approx([e.effect for e in examples], abs=1e-4)
    reports: list[tuple[int, int]] = []
    found = head_effects(loaded, examples, on_progress=lambda done, total: reports.append((done, total)))
    assert reports == [(1, 2), (2, 2)]
    assert found.total.value == pytest.approx(np.abs(full[:, 0] - full[:, 1]).mean())
    assert {(one.layer, one.head) for one in found.heads} == set(heads_of(loaded)) and len(found.heads) == 2
    for one in found.heads:
        ablated = without(loaded, one.head, lambda: pair_scores(loaded, examples))
        signs = np.sign(full[:, 0] - full[:, 1])
        changes = signs * ((full[:, 0] - full[:, 1]) - (ablated[:, 0] - ablated[:, 1]))
        assert one.by_pair == pytest.approx(changes, abs=1e-3)
        assert one.change.value == pytest.approx(changes.mean(), abs=1e-3)
        assert one.likelihood == pytest.approx((ablated - full).mean(), abs=1e-3)
    assert abs(found.heads[0].change.value) >= abs(found.heads[1].change.value)
    assert pair_scores(loaded, examples) == pytest.approx(full)  # the model is as it was


@pytest.mark.parametrize("carrier", [0, 1])
def test_the_head_that_has_the_bias_is_found(masked, carrier):
    """With the other head at zero, nothing else moves what is known of a name: without it, no preference is left."""
    texts = [AuditedExample(texts=(pair.more, pair.less), effect=1.0) for pair in pairs()]

    def measure():
        return head_effects(masked, texts), pseudo_log_likelihoods(masked, [(e.texts[0], e.texts[1]) for e in texts])

    found, scores = without(masked, 1 - carrier, measure)
    first, second = found.heads
    assert (first.layer, first.head) == ("encoder.0", carrier)
    assert first.change.value == pytest.approx(np.abs(scores[:, 0] - scores[:, 1]).mean(), abs=5e-5)  # the rounding
    assert first.change.value == pytest.approx(found.total.value, abs=5e-5) and first.change.low > 0
    assert first.change.flagged and first.change.ideal == 0
    assert second.by_pair == pytest.approx(np.zeros(len(texts)), abs=1e-5) and not second.change.flagged


def test_p_values_are_corrected_for_the_number_of_heads(masked):
    texts = [AuditedExample(texts=(pair.more, pair.less), effect=1.0) for pair in pairs()]
    alone = without(masked, 1, lambda: head_effects(masked, texts, seed=3)).heads[0].change.p_value
    assert alone == pytest.approx(2 * 2 / 4001, rel=0.01)  # the smallest of 4,000 draws, two-sided, times two heads


def test_the_largest_effects_of_either_direction():
    examples = [AuditedExample(texts=("a", "b"), effect=float((-1) ** i * i)) for i in range(50)]
    alone = AuditedExample(texts=("one text",), effect=99.0)
    found = largest_effects([*examples, alone])
    assert [e.effect for e in found[:3]] == [-49.0, 48.0, -47.0] and len(found) == NUM_PAIRS
    assert alone not in found


def test_heads_of_a_pair_are_those_that_change_it_most():
    example = AuditedExample(texts=("a", "b"), effect=1.0)
    effects = heads_on(
        [example, example],
        [head("encoder.0", 0, [1.0, 0.1]), head("encoder.0", 1, [-3.0, 0.2]), head("encoder.1", 0, [2.0, -0.3])],
    )
    assert [one.name for one in effects.of_pair(0, 2)] == ["encoder.0 head 1", "encoder.1 head 0"]
    assert [one.name for one in effects.of_pair(1, 2)] == ["encoder.1 head 0", "encoder.0 head 1"]


def test_a_model_without_attention_is_refused():
    made = cast("LoadedModel", SimpleNamespace(architecture="GRU", model=torch.nn.GRU(2, 2), config=None))
    with pytest.raises(ValueError, match="GRU has no attention, so there is no head to ablate: leave out --why"):
        heads_of(made)
