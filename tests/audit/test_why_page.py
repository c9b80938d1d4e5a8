"""The page behind --why: ranked heads and limits, and the attention of both sentences of each pair."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import escape

import pytest

from clearhead.audit.estimates import AuditedExample
from clearhead.audit.head_effects import head_effects
from clearhead.audit.why_page import LIMITS, NUM_SHOWN, heads_table, why_page
from tests.audit.made_up_people import FIRST, SECOND, sentences, train_on
from tests.audit.made_up_results import HOSTILE, head, heads_on
from tests.browser import wait_until

HEADS = [head("encoder.0", 1, [2.0, -0.1]), head("encoder.0", 0, [0.5, 0.4])]


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    return train_on(sentences(0.9, 0), tmp_path_factory.mktemp("why"), "masked_lm", steps=2)


def examples(count: int) -> list[AuditedExample]:
    return [
        AuditedExample(texts=(f"{a} is lazy.", f"{b} is lazy."), effect=float((-1) ** i * (9 - i)), group="group")
        for i, (a, b) in enumerate(zip(FIRST[:count], SECOND[:count], strict=True))
    ]


def scene(page: str) -> dict:
    match = re.search(r'<script type="application/json" id="scene">(.*?)</script>', page, re.S)
    assert match is not None
    return json.loads(match[1])


def test_both_sentences_of_each_pair_are_in_the_viewer(masked):
    page = why_page(masked, heads_on(examples(2), HEADS), "Heads")
    found = scene(page)
    assert [s["label"] for s in found["sequences"]] == [
        "1a: bano is lazy .", "1b: dano is lazy .", "2a: fano is lazy .", "2b: gano is lazy .",
    ]  # fmt: skip
    assert found["title"] == "Attention of both sentences" and found["sequences"][0]["maps"][0]["heads"] == 2
    assert "1a: bano is lazy." in page and "group: a is more likely, by 9.00" in page
    assert "group: b is more likely, by 8.00" in page
    assert all(escape(limit) in page for limit in LIMITS)


def test_links_select_the_head_on_both_sentences(masked):
    page = why_page(masked, heads_on(examples(2), HEADS), "Heads")
    assert 'data-start="#lines.0.0.1.words.nospecial.vs1-0-1"' in page  # the first head, on the first pair
    table, pairs = page[page.index("<table>") : page.index("</table>")], page[page.index("</table>") :]
    assert re.findall(r'href="#([^"]*)">([^<]*)', table) == [
        ("lines.0.0.1.words.nospecial.vs1-0-1", "encoder.0 head 1"),
        ("lines.0.0.0.words.nospecial.vs1-0-0", "encoder.0 head 0"),
    ]
    assert re.findall(r'href="#([^"]*)">([^<]*)', pairs)[2:4] == [
        ("lines.2.0.0.words.nospecial.vs3-0-0", "encoder.0 head 0 (+0.40)"),
        ("lines.2.0.1.words.nospecial.vs3-0-1", "encoder.0 head 1 (-0.10)"),
    ]


def test_of_many_pairs_the_first_are_shown(masked):
    heads = [head("encoder.0", 0, [1.0] * 12)]
    page = why_page(masked, heads_on(examples(12), heads), "Heads")
    assert len(scene(page)["sequences"]) == 2 * NUM_SHOWN
    assert "The mean preference of the 12 sentence pairs" in page and "<p>9a:" not in page


def test_pairs_that_are_too_long_have_no_attention(masked, monkeypatch):
    limit = 2 * 2 * 6 * 6  # two heads, both sentences of six tokens
    monkeypatch.setattr("clearhead.audit.why_page.MAX_WEIGHTS", limit)
    assert len(scene(why_page(masked, heads_on(examples(2), HEADS), "Heads"))["sequences"]) == 2
    monkeypatch.setattr("clearhead.audit.why_page.MAX_WEIGHTS", limit - 1)
    page = why_page(masked, heads_on(examples(2), HEADS), "Heads")
    assert "<script" not in page and "#lines" not in page
    assert "too long for their attention to be shown" in page and "encoder.0 head 1" in page


def test_texts_and_titles_are_not_code(masked):
    pair = AuditedExample(texts=(f"{HOSTILE} is lazy.", f"{HOSTILE} is kind."), effect=1.0, group=HOSTILE)
    page = why_page(masked, heads_on([pair], [replace(one, by_pair=(1.0,)) for one in HEADS]), HOSTILE)
    assert "<script>alert" not in page and page.count(escape(HOSTILE)) >= 4
    assert page.count("<script") == 2  # the data and the viewer


def test_the_table_is_limited_and_ranked():
    table = heads_table(heads_on(examples(2), HEADS), 1)
    assert "encoder.0 head 1" in table and "encoder.0 head 0" not in table and "both sentences" in table


def test_a_causal_model_is_shown_too(tmp_path):
    causal = train_on(sentences(0.9, 0), tmp_path, "language_model", steps=2)
    pairs = examples(2)
    page = why_page(causal, head_effects(causal, pairs), "Heads")
    assert [m["name"] for m in scene(page)["sequences"][0]["maps"]] == ["decoder.0"]


def test_the_page_in_a_browser(masked, tab, tmp_path):
    """The head of a link is shown on both sentences, side by side; nothing is requested and nothing is refused."""
    (tmp_path / "why.html").write_text(why_page(masked, heads_on(examples(2), HEADS), "Heads"))
    tab.goto((tmp_path / "why.html").as_uri())
    tab.wait_for_selector("main.two")
    tab.click("text=encoder.0 head 0 (+0.40)")
    wait_until(tab, "document.querySelector('.from .word')?.textContent === 'fano'")
    assert [s.get_attribute("aria-label") for s in tab.locator("section.panel").all()] == ["encoder.0, head 0"] * 2
    assert tab.locator(".from").nth(1).locator(".word").first.text_content() == "gano"
