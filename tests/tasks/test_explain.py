"""Explanations: the contributions of tokens sum to the score, for cosines exactly and for relevances to a tolerance."""

import json
from dataclasses import replace

import pytest
import torch

from clearhead import Pipeline, load
from clearhead.tasks.explain import TOLERANCE
from clearhead.viz.vector_page import explanation_page
from tests.real import MINILM

FIRST, SECOND = "Where does it rain?", "The coast is wet in winter, and the <b>hills</b> are dry."

pytestmark = pytest.mark.skipif(MINILM is None, reason="MiniLM is not installed")


@pytest.fixture(scope="module")
def reranker() -> Pipeline:
    torch.manual_seed(2)
    assert MINILM is not None
    model = load(MINILM, head="sequence", labels=["LABEL_0"])
    assert model.model.head is not None
    with torch.no_grad():
        for parameter in model.model.head.parameters():
            parameter.normal_(std=0.2)
    return model


def test_the_pairs_of_a_cosine_sum_to_it(minilm):
    found = minilm.explain(FIRST, SECOND)
    a, b = minilm.encode([FIRST, SECOND])
    cosine = float(torch.dot(a, b) / a.norm() / b.norm())
    assert found.score == pytest.approx(cosine, abs=1e-6)
    assert found.total == pytest.approx(cosine, abs=1e-6)
    assert float(found.first_values.sum()) == pytest.approx(cosine, abs=1e-6)
    assert float(found.second_values.sum()) == pytest.approx(cosine, abs=1e-6)
    assert found.pairs is not None
    assert found.pairs.shape == (len(found.first), len(found.second))
    assert found.first[0] == "[CLS]"


def test_the_words_that_match_add_most(minilm):
    found = minilm.explain("The cat sleeps.", "A cat is asleep on the chair.")
    words = [pair[:2] for pair in found.top(3)]
    assert ("cat", "cat") in words
    assert found.top(1)[0][2] == pytest.approx(float(found.pairs.max()))


def test_a_text_with_itself_has_a_symmetric_explanation(minilm):
    found = minilm.explain(FIRST, FIRST)
    torch.testing.assert_close(found.pairs, found.pairs.t())
    assert found.total == pytest.approx(1.0, abs=1e-5)


def test_prompts_are_read_as_encode_reads_them(minilm):
    other = Pipeline(minilm.loaded)
    other.sentence = replace(minilm.sentence, prompts={"query": "query: "}, default_prompt="query")
    a, b = other.encode([FIRST, SECOND])
    assert other.explain(FIRST, SECOND).total == pytest.approx(float(torch.dot(a, b) / a.norm() / b.norm()), abs=1e-6)


def test_only_a_mean_is_a_sum(minilm):
    other = Pipeline(minilm.loaded)
    other.sentence = replace(minilm.sentence, pool="first")
    with pytest.raises(ValueError, match="only the cosine of a mean"):
        other.explain(FIRST, SECOND)


def test_integrated_gradients_sum_to_the_relevance(reranker):
    found = reranker.explain(FIRST, SECOND)
    (ranked,) = reranker.rerank(FIRST, [SECOND])
    assert found.score == pytest.approx(ranked.score, abs=1e-5)
    assert abs(found.score - found.baseline) > 0.01, "the tokens must matter for this to say anything"
    assert found.total == pytest.approx(found.score, abs=2 * TOLERANCE)
    assert found.pairs is None
    assert "[CLS]" not in found.first
    assert found.second[0] == "the"
    with pytest.raises(ValueError, match="no pairs"):
        found.top()


def test_masked_tokens_add_nothing(reranker):
    found = reranker.explain("[MASK]", "")
    assert found.second == ()
    assert found.total == pytest.approx(found.score, abs=2 * TOLERANCE)


def test_the_page_holds_the_numbers_and_no_markup_of_the_texts(minilm):
    page = explanation_page(minilm.explain(FIRST, SECOND))
    text = page.split('id="scene">')[1].split("</script>")[0]
    data = json.loads(text)
    assert data["kind"] == "explanation"
    assert len(data["pairs"]) == len(data["first"])
    assert "<b>" not in text
    assert "default-src 'none'" in page.replace("&#x27;", "'")
