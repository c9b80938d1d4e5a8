from dataclasses import replace

import pytest
import torch

from clearhead.pipeline import load
from clearhead.studies import demo
from clearhead.studies.dates import pairs, split


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)  # so little work is not worth sharing


@pytest.fixture(scope="module")
def outcome(folder):
    torch.set_num_threads(1)
    return demo.measure(folder, seconds=1, examples=200, tested=5)


def test_three_models_are_trained_and_tried(outcome, folder):
    assert [x.label for x in outcome.learners] == list(demo.MODELS)
    for x in outcome.learners:
        assert x.steps == round(demo.STEPS_PER_SECOND)
        assert x.parameters == sum(p.numel() for p in load(folder / demo.FOLDERS[x.label] / "model").model.parameters())
        assert list(x.by_length) == [1, 2, 3, 4, 5]
        assert x.accuracy == pytest.approx(sum(x.by_length.values()) / 5)
    assert outcome.tested == 5


def test_the_example_is_of_days_that_nobody_trained_on(outcome, folder):
    test = {pair.source: pair.target for pair in pairs(split(1)["test"], 5, 1)}
    assert test[outcome.example] == outcome.right
    trained = (folder / "train.tsv").read_text()
    assert not any(day in trained for day in outcome.right.split())


def test_alignments_of_the_two_that_attend(outcome):
    assert [x.alignment is None for x in outcome.learners] == [True, False, False]
    for x in outcome.learners[1:]:
        assert len(x.alignment.weights) == len(x.alignment.written)
        assert all(sum(row) == pytest.approx(1.0, abs=0.01) for row in x.alignment.weights)
        assert x.alignment.read[-1] == "</s>"


def test_again_gives_the_same_without_training(outcome, folder):
    heard = []
    again = demo.measure(
        folder, seconds=1, examples=200, tested=5, on_progress=lambda name, step, steps: heard.append((step, steps))
    )
    assert again == outcome
    assert set(heard) == {(0, 5), (5, 5)}


def test_the_same_seed_gives_the_same_models(outcome, tmp_path):
    again = demo.measure(tmp_path, seconds=1, examples=200, tested=5)
    assert [replace(x, seconds=0.0) for x in again.learners] == [replace(x, seconds=0.0) for x in outcome.learners]


def test_the_pictures(outcome):
    figures = demo.draw(outcome)
    accuracy, alignments = figures["accuracy"], figures["alignments"]
    assert [text.get_text() for text in accuracy.axes[0].texts] == list(demo.MODELS)
    assert len(accuracy.axes[0].lines) == 3
    assert [axes.get_title("left").partition(", mean")[0] for axes in alignments.axes] == list(demo.MODELS)[1:]


def test_an_answer_as_iso_writes_it():
    assert demo.plain("1998 - 05 - 03 2001 - 12 - 24") == "1998-05-03 2001-12-24"
