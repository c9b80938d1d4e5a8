"""scikit-learn estimators: in pipelines, cloned, pickled, and checked by scikit-learn itself."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from clearhead.integrations.sklearn import ClearheadClassifier, ClearheadVectorizer
from tests.real import MINILM

pytestmark = pytest.mark.skipif(MINILM is None, reason="MiniLM is not installed")

TEXTS = [f"{verb} the {thing} {when}." for verb in ("Buy", "Sell") for thing in ("cat", "boat") for when in "ab"]
TEXTS += [f"The {thing} is {how} {when}." for thing in ("rain", "wind") for how in ("cold", "warm") for when in "ab"]
LABELS = np.array(["trade"] * 8 + ["weather"] * 8)


def vectorizer() -> ClearheadVectorizer:
    return ClearheadVectorizer(str(MINILM))


def test_vectors_are_those_of_encode(minilm):
    found = vectorizer().fit_transform(TEXTS)
    np.testing.assert_allclose(found, minilm.encode(TEXTS).numpy(), atol=1e-6)
    assert len(vectorizer().fit(TEXTS).get_feature_names_out()) == 384


def test_in_a_pipeline_and_pickled():
    model: Any = make_pipeline(vectorizer(), LogisticRegression())
    model.fit(TEXTS[::2], LABELS[::2])
    assert model.score(TEXTS[1::2], LABELS[1::2]) == 1.0
    other = pickle.loads(pickle.dumps(model))
    assert np.array_equal(other.predict(TEXTS), model.predict(TEXTS))
    assert len(pickle.dumps(model)) < 100_000, "the weights stay in their folder"


def test_a_classifier_is_fine_tuned():
    model = ClearheadClassifier(str(MINILM), epochs=6, lr=3e-4, batch_size=8, max_len=16)
    copied: Any = clone(model)
    found = copied.fit(TEXTS, LABELS)
    assert list(found.classes_) == ["trade", "weather"]
    assert found.score(TEXTS, LABELS) >= 0.9
    probabilities = found.predict_proba(TEXTS)
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)
    assert probabilities.shape == (16, 2)


def test_labels_of_any_type_come_back():
    model = ClearheadClassifier(str(MINILM), epochs=1, batch_size=8, max_len=16)
    found = model.fit(TEXTS, (LABELS == "weather").astype(int) * 7)
    assert set(found.predict(TEXTS).tolist()) <= {0, 7}


@pytest.mark.parametrize(
    "estimator", [vectorizer(), ClearheadClassifier(str(MINILM))], ids=["vectorizer", "classifier"]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")  # its checks on arrays of numbers
def test_scikit_learn_accepts_them(estimator):
    check_estimator(estimator, on_skip=None)


def test_wrong_input_is_refused():
    with pytest.raises(NotFittedError):
        vectorizer().transform(TEXTS)
    with pytest.raises(TypeError, match="row 1 is float"):
        vectorizer().fit(["a", 1.0])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="needs two"):
        ClearheadClassifier(str(MINILM)).fit(["a", "b"], ["x", "x"])
    with pytest.raises(ValueError, match="2 texts and 1 labels"):
        ClearheadClassifier(str(MINILM)).fit(["a", "b"], ["x"])
