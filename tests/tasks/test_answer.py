import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import clearhead
from clearhead.data import Row, Rows
from clearhead.metrics.calibration import Calibration, fit_calibration
from clearhead.tasks import PassageReader, PassageSpan
from clearhead.tasks.answer import RANK_WEIGHTS, features, fit_weights, merge_spans
from clearhead.tasks.answer_spans import plain
from clearhead.train.recipe import make_recipe
from clearhead.train.run import prepare, train

THINGS = ["lift", "desk", "cafe", "shop", "stairs", "garden", "cloakroom", "office"]
ROOMS = [str(n) for n in range(2, 12)]


def facts(count: int = 600) -> list[dict[str, object]]:
    """Questions about things in rooms; every fourth has no passage with its answer."""
    random = np.random.default_rng(1)
    found: list[dict[str, object]] = []
    for i in range(count):
        things, rooms = random.permutation(THINGS)[:4], random.choice(ROOMS, 4)
        right, *wrong = (f"the {thing} is in room {room}" for thing, room in zip(things, rooms, strict=True))
        context, answer = (wrong.pop(), "") if i % 4 == 3 else (right, f"room {rooms[0]}")
        found.append({"question": f"where is the {things[0]}", "context": context, "answer": answer,
                      "negative": wrong[:2]})  # fmt: skip
    return found


def rows(values: list[dict[str, object]]) -> Rows:
    return Rows(lambda: (Row(value, "rows", i) for i, value in enumerate(values, 1)))


def train_reader(folder: Path, steps: int) -> Path:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in facts()))
    fields = ("question", "context", "answer", "negative")
    recipe = make_recipe(
        {
            "task": "answer",
            "data": {
                "train": {"file": "rows.jsonl", **{name: name for name in fields}},
                "validation_rows": 100,
                "max_len": 32,
            },
            "model": {"width": 32, "num_layers": 2, "num_heads": 2, "ffn_dim": 64, "dropout": 0.0},
            "tokenizer": {"vocab_size": 120},
            "train": {"steps": steps, "batch_examples": 16, "evaluate_every": 100, "metric": "f1",
                      "optimizer": {"lr": 3e-3}, "schedule": {"kind": "linear", "warmup": 10}},
        }
    )  # fmt: skip
    train(prepare(recipe, folder, folder / "run"), shown=False)
    return folder / "run" / "model"


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    return train_reader(tmp_path_factory.mktemp("answer"), 200)


def test_transformers_gives_the_same_scores(trained):
    from transformers import AutoModelForTokenClassification

    loaded = clearhead.load(trained).loaded
    task = PassageReader.from_model(loaded)
    tokens = task.windows(["where is the lift"], ["the lift is in room 3"])
    theirs = AutoModelForTokenClassification.from_pretrained(trained)
    assert list(theirs.config.id2label.values()) == ["start", "end", "relevance"]
    with torch.inference_mode():
        want = theirs(input_ids=tokens.ids[None].long(), token_type_ids=tokens.segments[None].long()).logits[0]
    (ours,) = task.window_scores(loaded.model, tokens)
    torch.testing.assert_close(ours, want, rtol=1e-4, atol=1e-5)


def test_the_loss_by_hand(trained):
    loaded = clearhead.load(trained).loaded
    task = PassageReader.from_model(loaded)
    values = [facts()[0], facts()[3]]  # with an answer, and without one
    columns, skipped = task.encode(rows(values))
    assert not skipped
    batch = task.collate(columns, np.arange(2))
    scores = loaded.model(batch.ids, batch.layout, segments=batch.segments).detach()
    parts = list(batch.layout.split(scores))
    zero = torch.zeros(1)
    want = 0.0
    for question, windows in enumerate((range(3), range(3, 6))):
        some = [parts[w] for w in windows]
        columns_of = [torch.cat([part[:, c] for part in some] + [zero]) for c in (0, 1)]
        columns_of.append(torch.cat([part[:1, 2] for part in some] + [zero]))
        first, last = batch.labels[:, windows[0]].tolist()
        for c, all_scores in enumerate(columns_of):
            target = 0.0 if question == 1 else float(some[0][(first, last, 0)[c], c])
            want += float(torch.logsumexp(all_scores, 0)) - target
    assert batch.labels[:, 1:].sum() == 0, "only the context of the first question has the answer"
    words = batch.ids[batch.layout.rows(0)][batch.labels[0, 0] : batch.labels[1, 0] + 1].tolist()
    assert loaded.require_tokenizer.decode(words) == facts()[0]["answer"]
    assert float(task.loss(loaded.model, batch).detach()) == pytest.approx(want / 3, rel=1e-5)


def test_the_gradient_is_finite_without_any_answer(trained):
    loaded = clearhead.load(trained).loaded
    task = PassageReader.from_model(loaded)
    columns, _ = task.encode(rows([facts()[3]]))
    loaded.model.zero_grad()
    task.loss(loaded.model, task.collate(columns, np.arange(1))).backward()
    assert all(torch.isfinite(p.grad).all() for p in loaded.model.parameters() if p.grad is not None)


def test_it_learns_where_the_answer_is_and_that_there_is_none(trained):
    loaded = clearhead.load(trained).loaded
    task = PassageReader.from_model(loaded)
    scores = task.evaluate(loaded, rows(facts()[:200])).scores()
    assert scores["exact"] > 80, scores
    passages = ["the desk is in room 4", "the lift is in room 9", "the shop is in room 2"]
    (result,) = task.answer(loaded, [("where is the lift", passages)])
    assert result.best is not None
    assert (result.best.text, result.best.passage) == ("room 9", 1)
    assert passages[1][result.best.start : result.best.end] == result.best.text
    assert max(range(3), key=lambda i: result.relevance[i]) == 1
    (none,) = task.answer(loaded, [("where is the lift", [passages[0], passages[2]])])
    assert none.best is None
    assert none.probability < result.probability
    assert [r.text for r in task.answer(loaded, [("where is the lift", [])])] == [""]


TEXTS = ["the Lift", "lift", "a desk", "room 3"]


@st.composite
def span(draw: st.DrawFn) -> PassageSpan:
    start, end, passage = draw(st.integers(0, 9)), draw(st.integers(10, 20)), draw(st.integers(0, 2))
    text = TEXTS[(start + end + passage) % len(TEXTS)]  # one text at one place
    return PassageSpan(text, start, end, draw(st.floats(-8, 8)), passage=passage)


spans = st.lists(span(), max_size=12)


@settings(max_examples=60)
@given(
    spans, st.lists(st.floats(-4, 4), min_size=3, max_size=3), st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 2.0])
)
def test_equal_texts_are_one_candidate_and_shares_add_up(found, relevance, weight, rank_weight):
    merged = merge_spans(found, relevance, (weight, rank_weight))
    assert len({plain(s.text) for s in merged}) == len(merged)
    assert {plain(s.text) for s in merged} == {plain(s.text) for s in found}
    places: dict[tuple[int, int, int], float] = {}
    for s in found:
        place = (s.passage, s.start, s.end)
        score = s.score + weight * relevance[s.passage] - rank_weight * math.log(1 + s.passage)
        places[place] = max(places.get(place, -math.inf), score)
    masses = [math.exp(score) for score in places.values()]
    total = sum(masses) + 1.0  # no answer has the score 0
    assert sum(s.probability for s in merged) == pytest.approx(1 - 1 / total)
    assert [s.probability for s in merged] == sorted((s.probability for s in merged), reverse=True)
    assert all(math.isfinite(x) for x in features(merged, relevance))


def test_weights_are_those_with_the_most_right_answers():
    def read(first: float, second: float, relevance: list[float]):
        return [PassageSpan("x", 0, 1, first, passage=0), PassageSpan("y", 0, 1, second, passage=1)], relevance

    by_rank = [read(0.0, 1.0, [0.0, 0.0])] * 3  # the first passage is right, though the second scores higher
    assert fit_weights(by_rank, [["x"]] * 3) == (1.0, 0.0), "without a search, ranks do not count"
    assert fit_weights(by_rank, [["x"]] * 3, RANK_WEIGHTS) == (1.0, 1.5), "1 * log 2 is not enough"
    assert fit_weights(by_rank, [["y"]] * 3, RANK_WEIGHTS) == (1.0, 0.0)
    by_relevance = [read(0.0, 1.0, [3.0, 0.0]), read(0.0, 1.0, [0.6, 0.0])]
    assert fit_weights(by_relevance, [["x"], ["y"]]) == (1.0, 0.0)
    assert fit_weights(by_relevance, [["x"], ["x"]]) == (2.0, 0.0)


def test_calibration_recovers_known_odds():
    random = np.random.default_rng(1)
    x = random.normal(size=(4000, 3))
    p = 1 / (1 + np.exp(-(2 * x[:, 0] - x[:, 2] + 0.5)))
    fitted = fit_calibration(x.tolist(), (random.random(4000) < p).astype(float).tolist())
    assert np.allclose(fitted.weights, [2, 0, -1], atol=0.25)
    assert fitted.bias == pytest.approx(0.5, abs=0.2)
    assert Calibration(**json.loads(json.dumps(fitted.to_dict()))).probability([0, 0, 0]) == fitted.probability([0] * 3)
    assert fit_calibration(x[:30].tolist(), [1.0] * 30) == Calibration()
    assert Calibration().probability([800.0]) == 1.0
    assert Calibration().probability([-800.0]) == 0.0
