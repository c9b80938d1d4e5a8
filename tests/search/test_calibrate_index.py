"""What is fitted to an index: the fusion, the probabilities, and that both are kept with it."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from clearhead.cli import app
from clearhead.metrics.calibration import Calibration
from clearhead.search import Answerer, Document, Index, IndexCalibration, IndexConfig, PassageConfig, calibrate_index
from clearhead.search.index import RRF, fuse
from clearhead.search.index_calibration import CoveragePoint, ReaderCalibration, coverage_curve, threshold_for
from tests.search.test_ask import DOCUMENTS
from tests.tasks.test_answer import ROOMS, THINGS, train_reader

ranks = st.lists(st.sampled_from("abcdefghij"), unique=True).map(lambda ids: {id: i for i, id in enumerate(ids, 1)})
QUESTIONS = [
    {"question": f"where is the {thing}", "answers": [f"room {ROOMS[i]}"]} for i, thing in enumerate(THINGS)
] + [{"question": f"where is the key of the {thing}", "answers": []} for thing in THINGS]


@given(ranks, ranks, st.floats(0, 1))
def test_fusion_adds_weighted_reciprocal_ranks(by_text, by_vector, weight):
    fused = fuse(by_text, by_vector, weight)
    scores = dict(fused)
    assert [id for id, _ in fused] == sorted(scores, key=lambda id: (-scores[id], id))
    for id in {*by_text, *by_vector}:
        parts = [(by_text, 2 * (1 - weight)), (by_vector, 2 * weight)]
        expected = sum(w / (RRF + ranking[id]) for ranking, w in parts if id in ranking)
        assert scores.get(id, 0.0) == pytest.approx(expected)
    assert [id for id, _ in fuse(by_text, by_vector, 0.0)] == list(by_text)
    assert [id for id, _ in fuse(by_text, by_vector, 1.0)] == list(by_vector)


def test_the_curve_and_the_threshold_by_hand():
    p, right = [0.9, 0.1, 0.8, 0.4, 0.7], [1, 0, 1, 1, 0]
    curve = {round(point.coverage, 1): point for point in coverage_curve(p, right)}
    assert curve[0.2] == CoveragePoint(0.2, 1.0, 0.9)
    assert curve[0.6] == CoveragePoint(0.6, 2 / 3, 0.7)
    assert curve[1.0] == CoveragePoint(1.0, 0.6, 0.1)
    assert threshold_for(p, right, 1.0) == 0.8
    assert threshold_for(p, right, 0.75) == 0.4, "the lowest one, though the share was lower before it"
    assert threshold_for(p, [0] * 5, 0.5) == 1.0
    assert coverage_curve([], []) == ()


def test_it_is_kept_with_the_index(address):
    index = Index.create(address, IndexConfig(passages=PassageConfig(max_words=12, overlap=0)))
    index.update(DOCUMENTS)
    other = Index.open(address)
    reader = ReaderCalibration(
        reader="a", relevance_weight=2.0, calibration=Calibration((1.0, 0.5, 0.1), -1.0), threshold=0.7,
        curve=(CoveragePoint(0.5, 0.9, 0.6),),
    )  # fmt: skip
    kept = IndexCalibration(questions=50, vector_weight=0.3, readers=(reader,))
    version = index.version
    index.keep_calibration(kept)
    assert index.version > version
    assert index.calibration is not None and index.calibration == kept == Index.open(address).calibration
    assert index.calibration.of("a") == reader and index.calibration.of("b") is None
    other.refresh()
    assert other.vector_weight == 0.3
    index.update([*DOCUMENTS, Document("new.txt", "The whale is in the hall.")])
    again = Index.open(address)
    assert again.calibration == kept, "an update leaves it as it is"
    assert again.search("whale hall")[0].source == "new.txt"


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    return [train_reader(tmp_path_factory.mktemp("calibrated"), steps) for steps in (200, 10)]


@pytest.fixture
def index(tmp_path, readers):
    uri = str(tmp_path / "index")
    config = IndexConfig(reader=str(readers[0]), passages=PassageConfig(max_words=12, overlap=0))
    Index.create(uri, config).update(DOCUMENTS)
    return uri


def test_probabilities_are_fitted_and_used(index, readers):
    opened = Index.open(index)
    answerer = Answerer(opened)
    questions = QUESTIONS * (1 + 60 // len(QUESTIONS))
    before = [answerer.ask(row["question"]).probability for row in questions]
    fitted = calibrate_index(opened, answerer, questions, precision=0.9)
    mine = fitted.of(answerer.fingerprint)
    assert mine is not None and len(mine.curve) == 10
    again = Answerer(Index.open(index))
    results = [again.ask(row["question"]) for row in questions]
    p = np.array([result.probability for result in results])
    assert not np.allclose(p, before)
    pairs = zip(results, questions, strict=True)
    right = np.array([result.candidates[0].text in row["answers"] for result, row in pairs])
    assert 0.1 < right.mean() < 0.8
    assert abs(p.mean() - right.mean()) < 0.1
    for result in results:
        assert (result.answer is not None) == (result.probability >= mine.threshold)
    other = Answerer(Index.open(index), str(readers[1]))
    assert other.fingerprint != again.fingerprint
    assert fitted.of(other.fingerprint) is None
    both = calibrate_index(other.index, other, questions)
    assert both.of(answerer.fingerprint) == mine and both.of(other.fingerprint) is not None


def test_too_few_questions_are_refused(index):
    opened = Index.open(index)
    with pytest.raises(ValueError, match="too few"):
        calibrate_index(opened, None, QUESTIONS[:10])
    assert Index.open(index).calibration is None


def test_the_command(index, tmp_path):
    file = tmp_path / "questions.jsonl"
    rows = [{"question": q["question"], "answers": q["answers"]} for q in QUESTIONS * (1 + 60 // len(QUESTIONS))]
    file.write_text("\n".join(json.dumps(row) for row in rows))
    result = CliRunner().invoke(app, ["calibrate", index, str(file)])
    assert result.exit_code == 0, result.output
    assert "answers are given from a probability of 0.50 on" in result.output
    assert "100%" in result.output
    printed = CliRunner().invoke(app, ["calibrate", index, str(file), "--json", "--max-queries", "50"])
    values = json.loads(printed.stdout)
    assert values["questions"] == 50
    assert IndexCalibration.from_dict(values) == Index.open(index).calibration
