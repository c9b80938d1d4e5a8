"""The page of an audit: every value with its interval and its mark, everything escaped, no script."""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser

import pytest

from clearhead.audit.audit_page import MAX_EXAMPLES, OWN_TEXTS, audit_page
from clearhead.audit.estimate_table import estimate_table, shown_p
from tests.audit.made_up_results import CLEAR, EXACT, HOSTILE, NEAR, OTHER, RESULT, SMALL, head, heads_on, hostile


class Rows(HTMLParser):
    """The text of the cells of each table row, and the attributes of all elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.inside = False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.attributes.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


def test_each_estimate_has_its_interval_ideal_value_and_mark():
    rows = {row[0]: row for row in Rows(audit_page([RESULT], "T")).rows}
    assert rows["flagged"] == ["flagged", "71.00", "64.00 to 78.00", "", "50", "140", "<0.001"]
    assert rows["near the mark"][-1] == "1.000"
    assert rows["small"][-2:] == ["5", "too few"]
    assert rows["exact"][-1] == "0.012 (few)"
    assert rows["share"] == ["share", "3.00", "2.00 to 4.00", "", "", "140", ""]
    page = audit_page([RESULT], "T")
    assert '<span class="flag">flagged</span>' in page and '<span class="flag">near' not in page
    assert "2 of 3 tested values differ" in page


@pytest.mark.parametrize(("estimate", "text"), [
    (CLEAR, "<0.001"), (NEAR, "1.000"), (SMALL, "too few"), (EXACT, "0.012 (few)"), (OTHER, ""),
])  # fmt: skip
def test_p_values_as_text(estimate, text):
    assert shown_p(estimate) == text


def test_the_mark_is_at_the_ideal_value_of_a_common_axis():
    found = Rows(estimate_table([CLEAR, NEAR, SMALL], "%", "rows"))
    assert found.rows[0][3] == "45" + "99"  # the ends of the axis
    lines = [values for tag, values in found.attributes if tag == "line"]
    ideals = {values["x1"] for values in lines if values["class"] == "ideal"}
    assert ideals == {f"{100 * (50 - 45) / (99 - 45):.2f}%"}
    bars = [(values["x1"], values["x2"]) for values in lines if values["class"] == "bar"]
    assert bars[0] == (f"{100 * (64 - 45) / 54:.2f}%", f"{100 * (78 - 45) / 54:.2f}%")


def test_values_without_an_ideal_one_have_an_axis_of_their_own():
    page = audit_page([RESULT], "T")
    assert page.count("<table>") == 2
    assert Rows(page).rows[5][3] == "24"  # from 2 to 4, though the others go from 45 to 99


def test_the_largest_examples_are_shown_with_their_direction():
    page = audit_page([RESULT], "T")
    shown = re.findall(r"<p>first (\d+)</p><p>second \1</p><p class=\"dim\">age · ([+-]\d+\.\d\d)", page)
    assert shown == [(str(i), f"{(-1) ** i * i:+.2f}") for i in range(59, 59 - MAX_EXAMPLES, -1)]
    assert OWN_TEXTS not in page
    assert OWN_TEXTS in audit_page([replace(RESULT, own_texts=True)], "T")


def test_nothing_hostile_is_code():
    heads = heads_on([], [head(HOSTILE, 0, [1.0])])
    page = audit_page([hostile(RESULT)], HOSTILE, heads=heads, why='"><b>.html', left_out=[HOSTILE])
    assert "<script" not in page and page.count(escape(HOSTILE)) >= 12
    tags = {tag for tag, _ in Rows(page).attributes}
    assert tags <= {
        "html", "meta", "title", "style", "main", "h1", "h2", "h3", "p", "span", "ul", "li", "a", "table", "tr", "th",
        "td", "svg", "line", "circle",
    }  # fmt: skip
    policy = next(values for tag, values in Rows(page).attributes if "http-equiv" in values)["content"]
    assert policy is not None and policy.startswith("default-src 'none'; style-src 'sha256-")
    assert not any(name.startswith("on") or name == "style" for _, values in Rows(page).attributes for name in values)


def test_the_identity_of_the_data_and_what_is_left_out_are_on_the_page():
    page = audit_page([RESULT], "T", left_out=["the suite continuations is left out: no judge"])
    assert "suite crows_pairs, version 7, seed 3, data abababababab" in page
    assert "<li>the suite continuations is left out: no judge</li>" in page and "<li>a note</li>" in page
    assert 'id="heads"' not in page


def test_the_heads_link_to_their_page():
    heads = heads_on(list(RESULT.examples[:2]), [head("encoder.0", 1, [2.0, 1.0]), head("encoder.0", 0, [0.0, 0.1])])
    page = audit_page([RESULT], "T", heads=heads, why="why.html")
    assert '<a href="why.html">' in page
    rows = Rows(page).rows[-2:]
    assert [row[0] for row in rows] == ["encoder.0 head 1", "encoder.0 head 0"]
    assert rows[0][1:3] == ["1.50", "0.50 to 2.50"] and rows[0][-1] == "-0.50"
