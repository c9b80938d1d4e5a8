"""Every task returns through the API what the same model returns in Python."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
import torch

from clearhead.pipeline import Pipeline, load
from tests.serve.models import NAMES

JSON = {"content-type": "application/json"}
TEXTS = ["the old man sees a dog", "one red tree", "her green umbrella in the rain and a house under one tree"]


@pytest.fixture(scope="module")
def apps(folders) -> dict[str, Pipeline]:
    return {name: load(folders[name], dtype="float32") for name in NAMES}


def post(client, path: str, **body):
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def same(a, b, tolerance: float = 1e-5) -> None:
    """Equal except for the last digits of numbers."""
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            same(a[key], b[key], tolerance)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            same(one, other, tolerance)
    elif isinstance(a, float):
        assert a == pytest.approx(b, abs=tolerance)
    else:
        assert a == b


def test_classify(client, apps):
    found = post(client, "/classify", text=TEXTS)
    assert found["model"] == "classify"
    same(found["answers"], [asdict(one) for one in apps["classify"].classify(TEXTS)])
    same(post(client, "/classify", text=TEXTS[0])["answers"], found["answers"][:1])


def test_pair(client, apps):
    found = post(client, "/pair", text=TEXTS, second=TEXTS[::-1])["answers"]
    same(found, [asdict(one) for one in apps["pair"].classify(TEXTS, TEXTS[::-1])])


def test_tag(client, apps):
    same(post(client, "/tag", text=TEXTS)["answers"], [asdict(one) for one in apps["tag"].tag(TEXTS)])


def test_qa(client, apps):
    long = " ".join(TEXTS * 20)
    found = post(client, "/qa", question=["who ?", "a tree ?"], context=[TEXTS[0], long], nbest=4)["answers"]
    expected = [asdict(one) for one in apps["qa"].qa(["who ?", "a tree ?"], [TEXTS[0], long], nbest=4)]
    same(found, [{name: one[name] for name in ("best", "spans", "no_answer_probability")} for one in expected])
    for one, text in zip(found, (TEXTS[0], long), strict=True):
        assert all(text[span["start"] : span["end"]] == span["text"] for span in one["spans"])


def test_translate(client, apps):
    found = post(client, "/translate", text=TEXTS, beam=3, nbest=2, max_len=12, align=True)["answers"]
    for one, expected in zip(
        found, apps["translate"].translate(TEXTS, beam=3, nbest=2, max_len=12, align=True), strict=True
    ):
        assert (one["text"], one["source"], one["tokens"]) == (
            expected.text,
            list(expected.source),
            list(expected.tokens),
        )
        same([other["score"] for other in one["nbest"]], [other.score for other in expected.nbest])
        same(one["alignment"], expected.alignment.tolist())


def test_embed(client, apps):
    found = post(client, "/embed", model="tag", text=TEXTS, normalize=True)
    want = apps["tag"].encode(TEXTS, normalize=True)
    torch.testing.assert_close(torch.tensor(found["vectors"]), want, rtol=0, atol=1e-5)
    assert (
        found["tokens"] == [len(apps["tag"].tokens(text).ids) for text in TEXTS] and found["truncated"] == [False] * 3
    )
    assert post(client, "/embed", model="tag", text=" ".join(TEXTS * 9))["truncated"] == [True]


@pytest.mark.parametrize(
    "how", [{}, {"temperature": 1.0, "seed": 5, "top_k": 40}, {"temperature": 0.7, "top_p": 0.9, "seed": 9}]
)
def test_generate(client, apps, how):
    expected = apps["lm"].generate("the old man", max_new_tokens=20, **how)
    found = post(client, "/generate", prompt="the old man", max_new_tokens=20, **how)
    assert (found["text"], found["tokens"], found["seed"]) == (expected.text, len(expected.ids), expected.seed)
    assert found["finish_reason"] == ("stop" if expected.ended else "length")
    with client.stream(
        "POST", "/generate", json={"prompt": "the old man", "max_new_tokens": 20, "stream": True, **how}
    ) as answer:
        events = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]
    assert "".join(event["text"] for event in events) == expected.text
    assert {key: events[-1][key] for key in ("finish_reason", "tokens", "seed")} == {
        key: found[key] for key in ("finish_reason", "tokens", "seed")
    }


def test_stop_strings(client, apps):
    full = apps["lm"].generate("the old man", max_new_tokens=30, temperature=1.0, seed=1).text
    stop = full[len(full) // 2 : len(full) // 2 + 3]
    found = post(client, "/generate", prompt="the old man", max_new_tokens=30, temperature=1.0, seed=1, stop=[stop])
    assert found["text"] == full[: full.find(stop)] and found["finish_reason"] == "stop"


def test_chat(client, apps):
    dropped_turns, chunks = apps["lm"].chat(TEXTS, max_new_tokens=9, temperature=1.0, seed=2)
    found = post(client, "/chat", turns=TEXTS, max_new_tokens=9, temperature=1.0, seed=2)
    assert found["text"] == "".join(chunk.text for chunk in chunks) and found["dropped_turns"] == dropped_turns
    assert post(client, "/chat", turns=[*TEXTS] * 20, max_new_tokens=9)["dropped_turns"] > 0


@pytest.mark.parametrize(
    ("name", "second"), [("classify", None), ("translate", "a tree"), ("pair", "one dog"), ("lm", None)]
)
def test_attention(client, apps, name, second):
    layer = "decoder.1.cross" if name == "translate" else "decoder.0" if name == "lm" else "encoder.1"
    found = post(client, "/attention", model=name, text=TEXTS[0], second=second, layer=layer)
    assert layer in [one["name"] for one in found["layers"]]
    weights = torch.tensor(found["weights"])  # (H, T, S)
    one = next(one for one in found["layers"] if one["name"] == layer)
    assert weights.shape == (2, len(one["queries"]), len(one["keys"]))
    torch.testing.assert_close(weights.sum(2), torch.ones(weights.shape[:2]), rtol=0, atol=1e-5)
    if name == "classify":
        with apps[name].look() as seen:
            apps[name].encode(TEXTS[0])
        torch.testing.assert_close(weights, seen[layer].heads(0).float(), rtol=0, atol=1e-5)
    page = client.get(found["page"])
    assert page.status_code == 200 and "clearhead" in page.text
    assert client.get(found["page"] + "scene").json()
    without = client.post(found["page"] + "ablate", json={"sequence": 0, "heads": {layer: [0]}})
    assert without.status_code == 200, without.text


def test_errors_name_the_reason(client):
    for path, body, status, words in (
        (
            "/classify",
            {"text": "a", "model": "nobody"},
            404,
            "no model is named 'nobody'; served models: classify, pair",
        ),
        (
            "/classify",
            {"text": "a", "model": "lm"},
            404,
            "model 'lm' does not support 'classify' (it supports: generate, chat, embed); use one of: classify",
        ),
        (
            "/attention",
            {"text": "a dog", "layer": "encoder.9"},
            422,
            "no layer is named 'encoder.9'; layers: encoder.0",
        ),
        ("/attention", {"text": "a dog", "layer": "encoder.0", "head": 7}, 422, "head 7 does not exist: give 0 to 1"),
        ("/generate", {"prompt": "a", "max_new_tokens": 1000}, 422, "1000 new tokens after"),
        ("/generate", {"prompt": "tree " * 200}, 422, "the model has 128 positions"),
        ("/pair", {"text": ["a", "b"], "second": ["c"]}, 422, "2 in text, 1 in second"),
        ("/classify", {"text": "  "}, 422, "the text is empty"),
        ("/classify", {"text": "a", "labels": 3}, 422, "labels: Extra inputs are not permitted"),
        ("/classify", {"text": ["a", 3]}, 422, "text.1: Input should be a valid string"),
        ("/reload", {"model": "nobody"}, 404, "no model is named 'nobody'"),
    ):
        answer = client.post(path, json=body)
        assert answer.status_code == status, answer.text
        error = answer.json()["error"]
        assert words in error["message"], error
    for answer, status, words in (
        (client.get("/nowhere"), 404, "this path does not exist: see /docs"),
        (client.get("/classify"), 405, "GET is not allowed for this route: use POST"),
        (client.post("/classify", content=b"{nonsense", headers=JSON), 422, "the body is not valid JSON: "),
        (client.post("/classify", content=b'{"text": "a"}'), 422, "the header Content-Type: application/json"),
        (client.post("/classify", json=[1]), 422, "send a JSON object"),
        *(
            (
                client.post(path, content=body, headers=JSON),
                422,
                "an unpaired surrogate, which cannot be tokenized",
            )
            for path, body in (
                ("/classify", rb'{"text": ["a", "the \ud800 man"]}'),
                ("/classify", rb'{"text": "a", "\ud800": "b"}'),
                ("/generate", rb'{"prompt": "\udfff", "max_new_tokens": 3}'),
                ("/v1/chat/completions", rb'{"model": "lm", "messages": [{"role": "user", "content": "\ud800"}]}'),
            )
        ),
    ):
        assert answer.status_code == status and words in answer.json()["error"]["message"], answer.text


def test_health_models_and_metrics(client):
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/ready").json()["status"] == "ready"
    assert [one["name"] for one in client.get("/models").json()["models"]] == list(NAMES)
    counted = client.get("/metrics").text
    assert 'clearhead_requests_total{route="/health",status="200"}' in counted
    assert "clearhead_batch_tokens_bucket" in counted


def test_the_card_of_a_model_is_text(client, folders):
    answer = client.get("/models/classify/card")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.text == (folders["classify"] / "README.md").read_text(encoding="utf-8")
    assert "BertForSequenceClassification" in answer.text
    unknown = client.get("/models/nothing/card")
    assert unknown.status_code == 404 and unknown.json()["error"]["code"] == "model_not_found"


def test_every_route_has_an_example_that_works(client):
    described = client.get("/openapi.json").json()
    tried = 0
    for path, methods in described["paths"].items():
        if "post" not in methods or path == "/reload":
            continue
        name = methods["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        for example in described["components"]["schemas"][name]["examples"]:
            if "model" in example:
                example["model"] = "lm"
            answer = client.post(path, json=example)
            assert answer.status_code == 200, (path, answer.text)
            tried += 1
    assert tried == 13


def test_a_model_is_reloaded_under_load(client, server):
    """Requests in progress finish with the model they started with; none is lost."""
    import threading

    answers: list[int] = []
    stop = threading.Event()

    def ask() -> None:
        with server.client() as own:
            while not stop.is_set():
                answers.append(own.post("/generate", json={"prompt": "the old man", "max_new_tokens": 10}).status_code)
                answers.append(own.post("/classify", json={"text": TEXTS}).status_code)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        assert client.post("/reload", json={}).json()["models"] == list(NAMES)
    assert client.post("/reload", json={"model": "lm"}).json()["models"] == ["lm"]
    stop.set()
    for thread in threads:
        thread.join()
    assert len(answers) > 20 and set(answers) == {200}
