"""Pages of sentence vectors: the projection and the data of the map."""

import base64
import json

import numpy as np
import pytest
import torch

from clearhead.metrics.retrieval import Retrieval, evaluate_retrieval
from clearhead.viz.evaluation_plots import evaluation_figures
from clearhead.viz.vector_page import MAX_POINTS, map_page, project


def evaluation(count: int = 30):
    torch.manual_seed(0)
    documents = torch.nn.functional.normalize(torch.randn(count, 6), dim=1)
    queries = torch.nn.functional.normalize(documents + 0.3 * torch.randn(count, 6), dim=1)
    relevant = {f"question {i}": {i} for i in range(count)}
    return evaluate_retrieval(Retrieval(queries, documents, relevant, [f"text </script> {i}" for i in range(count)]))


def data_of(page: str) -> dict:
    return json.loads(page.split('id="scene">')[1].split("</script>")[0])


def test_projection_keeps_the_main_directions():
    draw = np.random.default_rng(1)
    x = draw.normal(size=(50, 5)) * [1, 9, 1, 4, 1]
    places = project(x)
    assert abs(np.corrcoef(places[:, 0], x[:, 1])[0, 1]) > 0.98
    assert abs(np.corrcoef(places[:, 1], x[:, 3])[0, 1]) > 0.95
    assert np.array_equal(places, project(x))
    assert project(x[:1]).tolist() == [[0, 0]]


def test_the_map_has_every_point_and_escapes_texts():
    found = evaluation()
    assert found.ranking is not None
    page = map_page(found.ranking, "a <b>title</b>")
    data = data_of(page)
    assert len(data["documents"]) == len(data["queries"]) == 30
    assert len(np.frombuffer(base64.b64decode(data["places"]), "<f4")) == 120
    assert data["pairs"] == [[i, i] for i in range(30)]
    assert "<b>title" not in page
    assert page.count("</script>") == 2


def test_a_large_corpus_is_thinned_and_pairs_follow():
    found = evaluation(MAX_POINTS + 500)
    assert found.ranking is not None
    data = data_of(map_page(found.ranking, "large"))
    assert len(data["documents"]) == MAX_POINTS
    assert all(data["queries"][q].split()[-1] == data["documents"][d].split()[-1] for q, d in data["pairs"])


def test_recall_and_histograms_are_those_of_the_ranking():
    found = evaluation()
    ranking = found.ranking
    assert ranking is not None
    scores = found.scores()
    for k in (1, 5, 20):
        assert ranking.recall[k - 1] == pytest.approx(scores[f"recall_{k}"])
    assert ranking.recall[-1] == 100.0
    assert len(ranking.relevant_scores) == 30
    assert len(ranking.other_scores) == 30 * 29
    assert ranking.relevant_scores.mean() > ranking.other_scores.mean() + 0.5
    assert [name for name, _ in evaluation_figures(found, "title")] == ["recall", "scores"]
