"""The server of an index: answers with evidence, feedback as training rows, new versions, and no text in the log."""

import json
import logging
import time

import pytest
from starlette.testclient import TestClient

pytest.importorskip("lance")

from clearhead.search import Answerer, Document, Index, IndexConfig
from clearhead.search.translated_questions import TranslatedQuestion
from clearhead.serve.middleware import SecurityConfig
from clearhead.serve.search_app import MAX_WAITING, REFRESH_S, SearchService, make_search_app
from tests.search.test_ask import DOCUMENTS, reader, uri  # noqa: F401  (fixtures)


@pytest.fixture
def service(uri, tmp_path):  # noqa: F811
    index = Index.open(uri)
    return SearchService(index, Answerer(index), tmp_path / "feedback.jsonl")


@pytest.fixture
def client(service):
    app = make_search_app(service, security=SecurityConfig(hosts=("testserver",)))
    with TestClient(app, raise_server_exceptions=False) as client:  # pyright: ignore[reportArgumentType]
        yield client


def test_ask_and_search(client):
    texts = {document.source: document.text for document in DOCUMENTS}
    info = client.get("/index").json()
    assert info == {
        "passages": info["passages"], "version": info["version"], "vectors": False, "answers": True, "feedback": True,
    }  # fmt: skip
    found = client.post("/search", json={"query": "where is the lift", "k": 3}).json()
    assert found["version"] == info["version"]
    assert len(found["results"]) == 3
    for result in found["results"]:
        assert texts[result["source"]][result["start"] : result["end"]] == result["text"]
    asked = client.post("/ask", json={"question": "where is the lift"}).json()
    for candidate in asked["candidates"]:
        assert texts[candidate["source"]][candidate["start"] : candidate["end"]] == candidate["text"]
    source = client.post("/source", json={"source": "lift.md"}).json()
    assert "".join(p["text"] for p in source["passages"]).count("the lift is in room") == 1
    tools = client.get("/tools").json()["tools"]
    assert [tool["function"]["name"] for tool in tools] == ["search", "ask"]
    assert tools[1]["function"]["parameters"]["required"] == ["question"]
    assert "/ask" in client.get("/openapi.json").json()["paths"]
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/ready").status_code == 200
    assert "clearhead_requests_total" in client.get("/metrics").text
    page = client.get("/")
    assert "search.js" in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
    for name in ("/search.js", "/search.css", "/shared.js", "/docs"):
        assert client.get(name).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "word"),
    [
        ("/ask", {"question": " "}, 422, "empty"),
        ("/ask", {"question": "x" * 2001}, 422, "2000"),
        ("/ask", {"question": "x", "nbest": 0}, 422, "nbest"),
        ("/ask", {"question": "x", "k": 3}, 422, "k"),
        ("/search", {"query": "x", "mode": "vectors"}, 422, "no vectors"),
        ("/search", {"query": "x", "k": 10**9}, 422, "k"),
        ("/source", {"source": "no' OR '1'='1"}, 404, "no such document"),
        ("/feedback", {"question": "x", "source": "lift.md", "start": 0, "end": 9999, "right": True}, 404, "passage"),
    ],
)
def test_wrong_requests_say_what_is_wrong(client, path, body, status, word):
    response = client.post(path, json=body)
    assert response.status_code == status
    assert word in response.json()["error"]["message"]


def test_feedback_becomes_training_rows(client, service):
    text = next(d.text for d in DOCUMENTS if d.source == "lift.md")
    start = text.index("room")
    body = {"question": "where is the lift", "source": "lift.md", "start": start, "end": start + 6}
    assert client.post("/feedback", json={**body, "right": True}).json() == {"rows": 1}
    assert client.post("/feedback", json={**body, "right": False}).json() == {"rows": 2}
    right, wrong = (json.loads(line) for line in service.feedback.read_text().splitlines())
    assert right["answer"] == text[start : start + 6]
    assert right["answer"] in right["context"]
    assert wrong["answer"] == ""
    assert right["question"] == wrong["question"] == "where is the lift"
    service.feedback = None
    assert client.post("/feedback", json={**body, "right": True}).status_code == 404


def test_a_new_version_is_served_without_a_restart(tmp_path):
    index = Index.create(str(tmp_path / "index"), IndexConfig())
    index.update([Document("a.txt", "The museum opens at ten.")])
    service = SearchService(Index.open(str(tmp_path / "index")), None, None)
    app = make_search_app(service, security=SecurityConfig(hosts=("testserver",)))
    with TestClient(app) as client:  # pyright: ignore[reportArgumentType]
        assert client.post("/search", json={"query": "cats"}).json()["results"] == []
        assert client.post("/ask", json={"question": "cats"}).status_code == 404
        index.update([Document("a.txt", "Cats sleep in the museum.")])
        service._checked = time.monotonic() - REFRESH_S - 1
        assert (
            client.post("/search", json={"query": "cats"}).json()["results"][0]["text"] == "Cats sleep in the museum."
        )


def test_overload_is_refused(client, service):
    service._waiting = MAX_WAITING
    response = client.post("/search", json={"query": "lift"})
    assert response.status_code == 429
    assert response.headers["retry-after"] == "1"
    service._waiting = 0


def test_no_text_in_the_log(client, caplog):
    log = logging.getLogger("clearhead.serve")
    log.propagate = True
    try:
        with caplog.at_level(logging.INFO, "clearhead.serve"):
            client.post("/ask", json={"question": "where is the zanzibar"})
            client.post("/source", json={"source": "zanzibar"})
    finally:
        log.propagate = False
    lines = [json.dumps(getattr(r, "fields", {})) + r.getMessage() for r in caplog.records]
    assert len(lines) >= 2
    assert not any("zanzibar" in line or "room" in line for line in lines)


def test_a_question_in_another_language_is_translated(service, client):
    text = "Where is the lift?"
    service.translate = lambda questions: [TranslatedQuestion(text, text) for _ in questions]
    asked = client.post("/ask", json={"question": "Wo ist der Aufzug?"}).json()
    assert asked == client.post("/ask", json={"question": "Where is the lift?"}).json()
    assert asked["question"] == "Where is the lift?"
    found = client.post("/search", json={"query": "Aufzug", "k": 1}).json()
    assert "lift" in found["results"][0]["text"]
