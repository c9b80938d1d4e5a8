"""What is written is what `transformers` writes from the same folder, token for token."""

from __future__ import annotations

import pytest

from tests.decode.cases import ours, sources, theirs

KINDS = ["marian", "bart", "t5", "gpt2", "llama", "mistral"]
SEARCHES = {
    "greedy": {"num_beams": 1},
    "beam2": {"num_beams": 2},
    "beam5": {"num_beams": 5},
    "short": {"num_beams": 5, "length_penalty": -1.0},
    "neutral": {"num_beams": 5, "length_penalty": 0.0, "early_stopping": True},
    "long": {"num_beams": 5, "length_penalty": 2.0, "early_stopping": "never"},
    "early": {"num_beams": 4, "length_penalty": 0.6, "early_stopping": True},
    "nbest": {"num_beams": 5, "num_return_sequences": 4},
}


def same(kind: str, options: dict, changes: dict | None = None, count: int = 8) -> int:
    """Assert that all hypotheses agree, with their scores; returns by how much their lengths differ."""
    rows, history = sources(count), bool({"repetition_penalty", "no_repeat_ngram_size"} & (changes or {}).keys())
    if history:  # the peer takes its padding for text: one by one, then
        want = [theirs(kind, [row], 12, **options, **(changes or {}))[0] for row in rows]
    else:
        want = theirs(kind, rows, 12, **options, **(changes or {}))
    beam = {"size": options["num_beams"], "nbest": options.get("num_return_sequences", 1)}
    beam |= {k: options[k] for k in ("length_penalty", "early_stopping") if k in options}
    got = ours(kind, rows, 12, changes, **beam)
    for mine, other in zip(got, want, strict=True):
        assert len(mine) == len(other)
        for found, (tokens, score) in zip(mine, other, strict=True):
            if options["num_beams"] > 1:
                assert found.score == pytest.approx(score, abs=1e-4)
            assert found.ids == tokens
    lengths = [len(best[0].ids) for best in got]
    return max(lengths) - min(lengths)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("search", SEARCHES)
def test_searches(kind, search):
    same(kind, SEARCHES[search])


@pytest.mark.parametrize("kind", KINDS)
def test_the_cases_end_at_different_lengths(kind):
    assert same(kind, SEARCHES["early"], count=20) > 3


RULES = {
    "bad words": {"bad_words_ids": [[60], [5, 9], [44]]},
    "minimum": {"min_new_tokens": 4},
    "repetition": {"repetition_penalty": 1.4},
    "runs": {"no_repeat_ngram_size": 2},
    "suppressed": {"suppress_tokens": [7, 8], "begin_suppress_tokens": [33, 34]},
    "last": {"forced_eos_token_id": 10},
    "first": {"forced_bos_token_id": 17},
}


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["marian", "gpt2"])
def test_rules_of_the_folder(kind, rule, beam):
    if kind == "gpt2" and rule == "first":
        pytest.skip("forced first tokens are for decoders that start from one token")
    same(kind, {"num_beams": beam}, RULES[rule])
