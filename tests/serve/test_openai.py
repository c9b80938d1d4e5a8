"""OpenAI's own client works against this server."""

from __future__ import annotations

import base64

import numpy as np
import openai
import pytest

from clearhead.pipeline import load
from tests.serve.models import NAMES


@pytest.fixture(scope="module")
def api(server):
    with openai.OpenAI(base_url=server.address + "v1", api_key="none", max_retries=0) as api:
        yield api


@pytest.fixture(scope="module")
def lm(folders):
    return load(folders["lm"], dtype="float32")


def test_models(api):
    names = [one.id for one in api.models.list().data]
    assert names == list(NAMES) and api.models.retrieve("lm").id == "lm"
    with pytest.raises(openai.NotFoundError, match="no model is named 'gpt-9'"):
        api.models.retrieve("gpt-9")


def test_embeddings(api, folders):
    texts = ["the old man", "one red tree and a dog"]
    found = api.embeddings.create(model="tag", input=texts)  # the client asks for base64 by itself
    want = load(folders["tag"], dtype="float32").encode(texts).numpy()
    np.testing.assert_allclose(np.array([one.embedding for one in found.data]), want, atol=1e-5)
    plain = api.embeddings.create(model="tag", input=texts[0], encoding_format="float")
    np.testing.assert_allclose(plain.data[0].embedding, want[0], atol=1e-5)
    assert found.usage.prompt_tokens == 13 and found.usage.total_tokens == 13
    raw = api.embeddings.with_raw_response.create(model="tag", input=texts[0], encoding_format="base64")
    content = raw.http_response.json()["data"][0]["embedding"]
    np.testing.assert_allclose(np.frombuffer(base64.b64decode(content), "<f4"), want[0], atol=1e-5)
    with pytest.raises(openai.UnprocessableEntityError, match="have 32"):
        api.embeddings.create(model="tag", input=texts, dimensions=5)


def test_completions(api, lm):
    expected = lm.generate("the old man", max_new_tokens=12, temperature=0.9, seed=4)
    found = api.completions.create(model="lm", prompt="the old man", max_tokens=12, temperature=0.9, seed=4)
    assert found.choices[0].text == expected.text and found.choices[0].finish_reason in ("stop", "length")
    assert found.usage.completion_tokens == len(expected.ids)
    stream = api.completions.create(
        model="lm", prompt="the old man", max_tokens=12, temperature=0.9, seed=4, stream=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    chunks = list(stream)
    assert "".join(one.choices[0].text for one in chunks if one.choices) == expected.text
    assert [one.choices[0].finish_reason for one in chunks if one.choices][-1] == found.choices[0].finish_reason
    assert chunks[-1].usage.completion_tokens == len(expected.ids)


def test_several_prompts_and_answers(api, lm):
    found = api.completions.create(model="lm", prompt=["the", "a dog"], n=3, max_tokens=6, temperature=1, seed=7)
    expected = [
        lm.generate(p, max_new_tokens=6, temperature=1.0, seed=7 + i).text for p in ("the", "a dog") for i in range(3)
    ]
    assert [one.text for one in found.choices] == expected


def test_chat(api, lm):
    turns = ["the old man", "a tree", "under one red house"]
    expected = "".join(piece.text for piece in lm.chat(turns, max_new_tokens=10, temperature=0.8, seed=1)[1])
    messages = [
        {"role": role, "content": text} for role, text in zip(("user", "assistant", "user"), turns, strict=True)
    ]
    asked = {"model": "lm", "messages": messages, "max_tokens": 10, "temperature": 0.8, "seed": 1}
    found = api.chat.completions.create(**asked)
    assert found.choices[0].message.content == expected and found.choices[0].message.role == "assistant"
    chunks = list(api.chat.completions.create(**asked, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(one.choices[0].delta.content or "" for one in chunks) == expected
    assert chunks[-1].choices[0].finish_reason == found.choices[0].finish_reason


def test_errors(api):
    with pytest.raises(openai.UnprocessableEntityError, match="temperature") as raised:
        api.completions.create(model="lm", prompt="a", temperature=-1)
    body = raised.value.body
    assert isinstance(body, dict) and body["param"] == "temperature"
    with pytest.raises(openai.NotFoundError, match="model 'qa' does not support 'generate'"):
        api.completions.create(model="qa", prompt="a")
