import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import clearhead
from clearhead.data import Rows
from clearhead.data.rows import Row
from clearhead.hub.sentence import SentenceConfig, read_sentence, sentence_files
from clearhead.layers.vector_losses import LossConfig
from clearhead.metrics.retrieval import evaluate_ranking, nearest
from clearhead.tasks import Embed, TaskConfig
from clearhead.tasks.hard_negatives import MiningConfig, mine_negatives
from clearhead.train import Recipe
from clearhead.train.recipe import make_recipe
from clearhead.train.run import prepare, train
from tests.real import MINILM

TOPICS = ("lift stairs floor", "soup bread cake", "ticket price euro", "garden winter gate", "coat umbrella desk")


def pairs() -> list[dict[str, str]]:
    return [
        {"anchor": f"where is the {word} number {i}", "positive": f"{topic} in room {i}"}
        for i, topic in enumerate(TOPICS * 4)
        for word in topic.split()
    ]


def rows(values) -> Rows:
    return Rows(lambda: (Row(v, "rows", i) for i, v in enumerate(values, 1)))


def embed_recipe(folder: Path, **changes) -> Recipe:
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs()))
    values = {
        "task": "embed",
        "data": {
            "train": {"file": "pairs.jsonl", "anchor": "anchor", "positive": "positive"},
            "validation_rows": 12,
            "max_len": 32,
        },
        "model": {"width": 32, "num_layers": 1, "num_heads": 2, "ffn_dim": 64},
        "tokenizer": {"vocab_size": 200},
        "train": {"steps": 12, "batch_examples": 8, "evaluate_every": 6, "save_every": 6, "metric": "mrr", "keep": 2},
    }
    return make_recipe({**values, **changes})


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("embed")
    prompts = {"embedding": {"query_prompt": "where ", "document_prompt": "room "}}
    run = prepare(embed_recipe(folder, **prompts), folder, folder / "run")
    train(run, shown=False)
    return folder / "run" / "model"


def test_sentence_transformers_gives_the_same_vectors(trained):
    library = pytest.importorskip("sentence_transformers")
    theirs = library.SentenceTransformer(str(trained), device="cpu")
    ours = clearhead.load(trained)
    texts = [row["anchor"] for row in pairs()][:9]
    for prompt in ("query", "document"):
        want = torch.from_numpy(theirs.encode(texts, prompt_name=prompt))
        torch.testing.assert_close(ours.encode(texts, prompt=prompt), want, atol=1e-5, rtol=0)
    torch.testing.assert_close(ours.encode(texts), torch.from_numpy(theirs.encode(texts)), atol=1e-5, rtol=0)
    assert not torch.allclose(ours.encode(texts, prompt="query"), ours.encode(texts, prompt="document"), atol=1e-3)


def test_a_run_learns_and_its_folder_evaluates(trained):
    results = json.loads((trained.parent / "results.json").read_text())
    assert results["steps"] == 12
    loaded = clearhead.load(trained).loaded
    scores = Embed.from_model(loaded).evaluate(loaded, rows(pairs())).scores()
    assert set(scores) == {"mrr", "ndcg", "recall_1", "recall_5", "recall_20"}
    assert 0 < scores["recall_1"] <= scores["recall_5"] <= scores["recall_20"] <= 100


@pytest.mark.parametrize("kind", ["mean", "first", "last", "max"])
@pytest.mark.parametrize("normalize", [True, False])
def test_sentence_files_are_read_as_written(kind, normalize):
    prompts = {"query": "query: ", "document": "passage: "}
    config = SentenceConfig(pool=kind, normalize=normalize, max_len=77, prompts=prompts)
    assert read_sentence(sentence_files(config, 384)) == config


def test_an_unknown_prompt_is_refused_and_query_and_document_are_optional():
    config = SentenceConfig(prompts={"web": "web: "}, default_prompt="web")
    assert config.prompt() == config.prompt("web") == "web: " and config.prompt("query") == ""
    with pytest.raises(ValueError, match=r"no prompt 'wob': the model has web"):
        config.prompt("wob")


@pytest.mark.parametrize(
    ("columns", "kind", "message"),
    [
        (("anchor", "positive"), "triplet", "needs the column negative"),
        (("anchor", "positive"), "cosent", "needs the column number"),
        (("anchor", "positive", "negative"), "margin_mse", "negative and number"),
        (("anchor", "positive"), "binary", "the task embed has"),
    ],
)
def test_a_loss_that_the_columns_cannot_feed_is_refused(columns, kind, message):
    with pytest.raises(ValueError, match=message):
        Embed(None, TaskConfig(columns=columns, loss=LossConfig(kind=kind)))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        (("anchor", "positive"), "multiple_negatives"),
        (("anchor", "positive", "negative"), "multiple_negatives"),
        (("text", "second", "number"), "cosent"),
        (("anchor", "positive", "negative", "number"), "margin_mse"),
    ],
)
def test_the_loss_follows_from_the_columns(columns, kind):
    task = Embed(None, TaskConfig(columns=columns))  # pyright: ignore[reportArgumentType]
    assert task.loss_kind == kind


def test_ranking_metrics_by_hand():
    ranked = [[2, 0, 1], [1, 0, 2]]
    evaluation = evaluate_ranking(ranked, [[0.9, 0.5, 0.1], [0.8, 0.4, 0.2]], [{0}, {1}])
    found = evaluation.scores()
    assert found["mrr"] == pytest.approx(100 * (1 / 2 + 1) / 2)
    assert found["recall_1"] == pytest.approx(50) and found["recall_5"] == pytest.approx(100)
    assert found["ndcg"] == pytest.approx(100 * (1 / np.log2(3) + 1) / 2)
    assert evaluation.ranking is not None
    assert evaluation.ranking.recall.tolist() == [50, 100, 100]
    assert evaluation.ranking.relevant_scores.tolist() == [0.5, 0.8]


def test_nearest_is_exact_and_takes_no_more_than_there_is():
    torch.manual_seed(0)
    queries, documents = torch.randn(5, 4), torch.randn(7, 4)
    scores, numbers = nearest(queries, documents, 20)
    assert numbers.shape == (5, 7)
    torch.testing.assert_close(scores, (queries @ documents.t()).gather(1, numbers))
    assert bool((scores[:, 1:] <= scores[:, :-1]).all())


@pytest.mark.skipif(MINILM is None, reason="MiniLM is not installed")
def test_mined_negatives_are_near_but_never_right(minilm):
    values = [
        {"anchor": "Is there a lift?", "positive": "The lift goes to the upper floor."},
        {"anchor": "Is there a lift?", "positive": "Take the lift beside the stairs."},
        {"anchor": "What is for lunch?", "positive": "The kitchen serves soup at noon."},
        {"anchor": "Where are the stairs?", "positive": "The stairs lead to the upper floor."},
    ]
    found = list(mine_negatives(minilm.loaded, values, MiningConfig(num_negatives=1, margin=1.0)))
    assert found[0]["negative"] == ["The stairs lead to the upper floor."]
    right = {row["positive"] for row in values if row["anchor"] == "Is there a lift?"}
    assert not right & {text for row in found[:2] for text in row["negative"]}
    strict = list(mine_negatives(minilm.loaded, values, MiningConfig(num_negatives=3, margin=0.3)))
    assert all("stairs lead" not in text for row in strict[:1] for text in row["negative"])
    many = [{"anchor": f"question {i}", "positive": f"Text number {i} about the lift."} for i in range(9)]
    top, spread = (
        list(mine_negatives(minilm.loaded, many, MiningConfig(num_negatives=2, margin=1.0, sampling=kind, depth=9)))
        for kind in ("top", "spread")
    )
    for nearest_row, row in zip(top, spread, strict=True):
        assert row["negative"][0] == nearest_row["negative"][0], "the nearest is one of them"
        assert len(set(row["negative"])) == len(row["negative"])
    assert any(row["negative"] != nearest_row["negative"] for nearest_row, row in zip(top, spread, strict=True))


def test_stopped_and_resumed_to_the_same_bits(tmp_path):
    """Cached gradients over parts, dropout and batches without repeated texts continue where they stopped."""
    changes = {"train": {"steps": 12, "batch_examples": 6, "gradient_accumulation": 2, "save_every": 4}}
    recipes = [embed_recipe(tmp_path, **changes) for _ in range(3)]

    def stop(step, numbers):
        if step == 6:
            raise KeyboardInterrupt

    train(prepare(recipes[0], tmp_path, tmp_path / "whole"), shown=False)
    with pytest.raises(KeyboardInterrupt):
        train(prepare(recipes[1], tmp_path, tmp_path / "stopped"), trackers=[stop], shown=False)
    train(prepare(recipes[2], tmp_path, tmp_path / "stopped"), shown=False)
    a, b = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "stopped"))
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
