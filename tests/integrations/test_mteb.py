"""The MTEB adapter: `mteb` evaluates it on tasks made of local data, and finds what sentence-transformers would."""

from typing import Any

import datasets
import mteb
import numpy as np
import pytest
from mteb.abstasks.sts import AbsTaskSTS
from mteb.types import PromptType

from clearhead.hub.sentence import SentenceConfig
from clearhead.integrations.mteb import MtebEncoder
from clearhead.pipeline import Pipeline

PAIRS = [
    ("A cat sleeps.", "A cat is asleep.", 5.0),
    ("A dog runs in the park.", "A dog is running outside.", 4.0),
    ("It rains on the coast.", "The hills are dry.", 1.5),
    ("Stocks fell on Monday.", "A cat sleeps.", 0.0),
    ("The museum opens at ten.", "The museum is open from ten.", 4.8),
    ("He plays the violin.", "She buys bread.", 0.5),
]


class LocalSTS(AbsTaskSTS):
    """Sentence similarity on the rows above."""

    metadata = mteb.TaskMetadata(
        name="LocalSTS", description="rows of this test", reference=None, type="STS", category="t2t",
        modalities=["text"], eval_splits=["test"], eval_langs=["eng-Latn"], main_score="cosine_spearman",
        dataset={"path": "local", "revision": "1"}, date=None, domains=None, task_subtypes=None, license=None,
        annotations_creators=None, dialect=None, sample_creation=None, bibtex_citation=None,
    )  # fmt: skip
    min_score, max_score = 0, 5

    def load_data(self, *args, **kwargs):
        first, second, scores = (list(column) for column in zip(*PAIRS, strict=True))
        rows = {"sentence1": first, "sentence2": second, "score": scores}
        self.dataset: Any = datasets.DatasetDict({"test": datasets.Dataset.from_dict(rows)})
        self.data_loaded = True


@pytest.mark.filterwarnings("ignore")
def test_mteb_runs_it_as_it_is(minilm, tmp_path):
    encoder: Any = MtebEncoder(minilm)  # its protocol also describes how `mteb run` would construct it
    result = mteb.evaluate(encoder, LocalSTS(), cache=None, overwrite_strategy="always")
    (scores,) = result.task_results[0].scores["test"]
    first, second, expected = zip(*PAIRS, strict=True)
    cosines = (minilm.encode(first) * minilm.encode(second)).sum(1).numpy()
    ranks = [np.argsort(np.argsort(x)) for x in (cosines, np.array(expected))]
    assert scores["main_score"] == pytest.approx(float(np.corrcoef(ranks[0], ranks[1])[0, 1]), abs=1e-6)
    assert scores["main_score"] > 0.8


def test_queries_and_documents_get_their_prompts(minilm):
    pipeline = Pipeline(minilm.loaded)
    pipeline.sentence = SentenceConfig(normalize=True, prompts={"query": "query: ", "document": "passage: "})
    encoder = MtebEncoder(pipeline)
    batch = [{"text": ["It rains."]}, {"text": ["It is dry."]}]
    found = {kind: encoder.encode(batch, prompt_type=kind) for kind in (None, PromptType.query, PromptType.document)}
    assert found[None].shape == (2, 384)
    expected = pipeline.encode(["query: It rains.", "query: It is dry."])
    np.testing.assert_allclose(found[PromptType.query], expected, atol=1e-6)
    assert abs(found[PromptType.document] - found[PromptType.query]).max() > 1e-3


def test_similarities_are_cosines(minilm):
    encoder = MtebEncoder(minilm)
    a, b = np.array([[3.0, 0.0], [1.0, 1.0]]), np.array([[1.0, 0.0], [0.0, 2.0]])
    np.testing.assert_allclose(encoder.similarity(a, b), [[1, 0], [0.5**0.5, 0.5**0.5]], atol=1e-6)
    np.testing.assert_allclose(encoder.similarity_pairwise(a, b), [1, 0.5**0.5], atol=1e-6)
    assert encoder.mteb_model_meta.embed_dim == 384
