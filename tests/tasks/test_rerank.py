import json
from pathlib import Path

import numpy as np
import pytest
import torch

import clearhead
from clearhead.data import Row, Rows
from clearhead.layers.vector_losses import LossConfig
from clearhead.tasks import Rerank, TaskConfig
from clearhead.tasks.two_stages import evaluate_two_stages
from clearhead.text import Tokenizer
from clearhead.train.recipe import make_recipe
from clearhead.train.run import prepare, train
from tests.tasks.test_embed import TOPICS, pairs, rows


def triplets() -> list[dict[str, object]]:
    documents = [row["positive"] for row in pairs()]
    return [
        {**row, "negative": [documents[(i * 7 + 3) % len(documents)], documents[(i * 5 + 11) % len(documents)]]}
        for i, row in enumerate(pairs())
    ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("rerank")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in triplets()))
    recipe = make_recipe(
        {
            "task": "rerank",
            "data": {
                "train": {
                    "file": "rows.jsonl", "anchor": "anchor", "positive": "positive", "negative": "negative",
                },
                "validation_rows": 12,
                "max_len": 48,
            },
            "model": {"width": 32, "num_layers": 1, "num_heads": 2, "ffn_dim": 64},
            "tokenizer": {"vocab_size": 200},
            "loss": {"kind": "listwise"},
            "train": {"steps": 8, "batch_examples": 8, "evaluate_every": 8, "metric": "mrr"},
        }
    )  # fmt: skip
    train(prepare(recipe, folder, folder / "run"), shown=False)
    return folder / "run" / "model"


def test_cross_encoder_gives_the_same_scores(trained):
    library = pytest.importorskip("sentence_transformers")
    documents = [f"{topic} in room 3" for topic in TOPICS]
    theirs = library.CrossEncoder(str(trained), device="cpu").predict([("where is the lift", d) for d in documents])
    ours = clearhead.load(trained).rerank("where is the lift", documents)
    assert [found.text for found in ours] == [documents[found.index] for found in ours]
    assert [found.score for found in ours] == sorted((found.score for found in ours), reverse=True)
    for found in ours:
        assert found.score == pytest.approx(float(theirs[found.index]), abs=1e-5)


def test_the_losses_by_hand(trained):
    loaded = clearhead.load(trained).loaded
    tokenizer, values = loaded.require_tokenizer, triplets()[:3]
    for kind in ("binary", "listwise"):
        task = Rerank(tokenizer, TaskConfig(max_len=48, segments=True, loss=LossConfig(kind=kind)))
        columns, _ = task.encode(rows(values))

        batch = task.collate(columns, np.arange(3))
        scores = task.scores(loaded.model, batch).view(3, 3)
        if kind == "listwise":
            want = -torch.log_softmax(scores, 1)[:, 0].sum()
        else:
            signs = torch.tensor([1.0, -1.0, -1.0])
            want = -torch.nn.functional.logsigmoid(scores * signs).mean(1).sum()
        torch.testing.assert_close(task.loss(loaded.model, batch), want)


def test_a_relevance_outside_0_to_1_is_skipped_and_reported():
    values = [
        {"text": "a", "second": "b", "number": "0.5"},
        {"text": "a", "second": "c", "number": "3"},
    ]
    task = Rerank(_tokenizer(), TaskConfig(max_len=16))
    columns, (skipped,) = task.encode(rows(values))
    assert len(columns["ids"]) == 1 and skipped.count == 1 and "from 0 to 1" in skipped.reason


def _tokenizer():
    vocab = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c"])}
    return Tokenizer(
        {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
            "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"},
        }
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "columns"), [("cosent", ()), ("listwise", ("text", "second", "number"))])
def test_a_loss_of_another_task_is_refused(kind, columns):
    with pytest.raises(ValueError, match=r"loss\.kind"):
        Rerank(None, TaskConfig(columns=columns, loss=LossConfig(kind=kind)))  # pyright: ignore[reportArgumentType]


def test_predict_and_serve(trained, tmp_path):
    from typer.testing import CliRunner

    from clearhead.cli import app
    from clearhead.serve.model_registry import supported_tasks

    assert supported_tasks(clearhead.load(trained)) == ("pair", "embed")
    (tmp_path / "pairs.csv").write_text("text,second\nwhere is the lift,lift stairs floor in room 0\n")
    result = CliRunner().invoke(app, ["predict", str(trained), str(tmp_path / "pairs.csv")])
    header, line = result.stdout.splitlines()
    (found,) = clearhead.load(trained, dtype="auto").rerank("where is the lift", ["lift stairs floor in room 0"])
    assert header.split("\t") == ["row", "relevance", "error"]
    assert float(line.split("\t")[1]) == pytest.approx(found.score, rel=1e-4)
    refused = CliRunner().invoke(app, ["error-analysis", str(trained), str(tmp_path / "pairs.csv")])
    assert refused.exit_code and "clearhead eval" in refused.stderr


def test_two_stages_rank_what_the_retriever_found(minilm, trained, monkeypatch):
    """With a reranker that prefers long documents, the metrics follow its order among the retrieved ones."""
    examples = [
        {"anchor": "Where is the cat?", "positive": "The cat is here."},
        {"anchor": "Who eats fish?", "positive": "The cat and the dog eat fish every single day of the week."},
        {"anchor": "When does it rain?", "positive": "It rains in winter."},
    ]
    given = Rows(lambda: iter(Row(e, "x", i + 1) for i, e in enumerate(examples)))
    reranker = clearhead.load(trained).loaded
    monkeypatch.setattr(Rerank, "relevance", lambda self, loaded, pairs: [len(d) / 1000 for _, d in pairs])
    all_three = evaluate_two_stages(minilm.loaded, reranker, given, 3)[1].scores()
    assert all_three["recall_1"] == pytest.approx(100 / 3), "the longest document is first for every query"
    assert all_three["recall_5"] == 100.0
    before, after = evaluate_two_stages(minilm.loaded, reranker, given, 1)
    one = after.scores()
    assert before.scores() == one, "a single document cannot move"
    assert one["recall_5"] == one["recall_1"] == 100.0, "the nearest document is the right one here"


def test_what_was_not_retrieved_is_missed(minilm, trained):
    examples = [{"anchor": "Where is the cat?", "positive": "Stocks fell on Monday."}]
    examples += [{"anchor": "Who buys stocks?", "positive": "The cat is here."}]
    given = Rows(lambda: iter(Row(e, "x", i + 1) for i, e in enumerate(examples)))
    found = evaluate_two_stages(minilm.loaded, clearhead.load(trained).loaded, given, 1)[1].scores()
    assert found["recall_20"] == found["mrr"] == 0.0


def test_a_sample_of_queries_is_ranked_among_all_documents(minilm, trained):
    examples = [{"anchor": f"Who has {i} cats?", "positive": f"Neighbour {i} has {i} cats."} for i in range(9)]
    given = Rows(lambda: iter(Row(e, "x", i + 1) for i, e in enumerate(examples)))
    before, after = evaluate_two_stages(minilm.loaded, clearhead.load(trained).loaded, given, 9, max_queries=4)
    assert before.count == after.count == 4
    assert after.scores()["recall_20"] == 100.0
    assert before.ranking is not None
    assert len(before.ranking.recall) == 9, "documents of the other rows are candidates too"
