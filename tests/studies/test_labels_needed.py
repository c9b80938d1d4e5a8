"""Labels and word order: the same rows for the same seed, fresh weights, scores that are kept."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.hub.folder import open_folder
from clearhead.studies import labels_needed, word_order
from clearhead.studies.study_results import MeanInterval
from clearhead.studies.word_order import shuffled

ROWS = [((f"this is {kind} number {n}",), kind) for n in range(40) for kind in ("good", "bad")]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    torch.set_num_threads(1)
    here = tmp_path_factory.mktemp("encoder")
    (here / "t.txt").write_text("".join(f"{texts[0].capitalize()}. It was so.\n\n" for texts, _ in ROWS * 4))
    given = {"text": ("t.txt",), "base": here, "size": "tiny", "vocab_size": 90, "batch_tokens": 256}
    return labels_needed.pretrained(here / "run", steps=4, **given)


def test_the_mean_and_its_interval():
    three = MeanInterval((80.0, 82.0, 84.0))
    assert three.mean == 82.0 and three.half == pytest.approx(4.303 * 2 / 3**0.5) and str(three) == "82.0 ± 5.0"
    assert MeanInterval((80.0,)).half == 0.0


def test_the_same_encoder_with_other_weights(encoder, tmp_path):
    blank = labels_needed.reinitialized(encoder, tmp_path / "blank", seed=3)
    a, b = open_folder(encoder), open_folder(blank)
    assert a.config == b.config and a.require_tokenizer.fingerprint() == b.require_tokenizer.fingerprint()
    pairs = zip(a.model.named_parameters(), b.model.named_parameters(), strict=True)
    assert all(not torch.equal(p, q) for (name, p), (_, q) in pairs if "weight" in name and p.ndim == 2)


def test_the_study_end_to_end(encoder, tmp_path):
    given = {"data": "made up", "sizes": (8, 40), "seeds": 2, "min_steps": 12}
    measured = labels_needed.measure(tmp_path / "runs", ROWS, ROWS[:20], {"pre-trained here": str(encoder)}, **given)
    (one,) = measured.learners
    assert [len(s.scores) for s in one.reached] == [2, 2] and measured.sizes == (8, 40)
    assert all(0 <= score <= 100 for s in one.reached for score in s.scores)
    assert not list((tmp_path / "runs").rglob("model.safetensors"))
    again = labels_needed.measure(tmp_path / "runs", ROWS, ROWS[:20], {"pre-trained here": str(encoder)}, **given)
    assert again == measured
    (axes,) = labels_needed.draw(measured).axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["8", "40"]


def test_a_seed_draws_its_own_rows():
    assert (
        labels_needed.sample_rows(ROWS, 10, 1)
        == labels_needed.sample_rows(ROWS, 10, 1)
        != labels_needed.sample_rows(ROWS, 10, 2)
    )
    assert len(set(labels_needed.sample_rows(ROWS, 80, 1))) == 80


@given(words=st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=20), n=st.integers(0, 5))
def test_n_grams_stay_whole(words, n):
    text = " ".join(words)
    result = shuffled(text, n)
    assert sorted(result.split()) == sorted(words) and result == shuffled(text, n)
    if n:
        parts = [" ".join(words[i : i + n]) for i in range(0, len(words), n)]
        assert all(part in result for part in parts)
    else:
        assert result == text


def test_word_order_end_to_end(encoder, tmp_path):
    tasks = {
        "one": (ROWS, ROWS[:20]),
        "two": ([((t[0], t[0]), label) for t, label in ROWS], [(("a b", "c d"), "bad")] * 4),
    }
    counted = [" ".join(str((i + k) % 10) for k in range(30)) for i in range(200)]  # in order, the next is known
    given = {"base_model": str(encoder), "grams": (1, 0), "seeds": 1, "epochs": 1, "tokens": 80_000}
    measured = word_order.measure(tmp_path, tasks, counted, **given)
    assert [kept.task for kept in measured.tasks] == ["one", "two"]
    mixed, whole = (loss.mean for loss in measured.losses)
    assert whole < mixed - 0.5
    assert word_order.measure(tmp_path, tasks, counted, **given) == measured
    for axes in word_order.draw(measured).axes:
        assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "original order"]
