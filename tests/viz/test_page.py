"""The page in Chromium, from a file, with the network off."""

from __future__ import annotations

import csv
import io
import re

import pytest
import torch

from clearhead.attention.kernels import reference
from clearhead.viz import Precomputed, Scene, SceneAxis, SceneInput, SceneLayer, TokenLabels, show
from clearhead.viz.page import Preface, page, static_page
from tests.browser import wait_until

pytestmark = pytest.mark.usefixtures("chromium")


@pytest.fixture
def opened(tab, animals, tmp_path):
    """Open the page of two sentences."""
    tab.context.set_offline(True)
    tab.goto(show(animals, tmp_path / "page.html") + "#lines.0.3.1")
    tab.wait_for_selector(".lines .word")
    return tab


def exact(scene, layer, head, sequence=0):
    """Return the weights of the reference kernel."""
    record = scene.inputs[sequence].layer(layer).attention
    return reference.rows(record.view.inputs, record.sequence, head, slice(None)).double()


def choose(tab, name, value):
    tab.select_option(f"select[data-keep={name}]", str(value))
    tab.wait_for_selector("main:not([aria-busy])")
    tab.evaluate("document.activeElement.blur()")  # a chooser that has the focus keeps the keys for itself


def test_every_weight_is_that_of_the_reference(opened, animals):
    for layer, head in ((0, 0), (3, 1), (5, 11)):
        choose(opened, "layer", layer)
        choose(opened, "head", head)
        want = exact(animals, layer, head)
        for query in range(len(want)):
            opened.hover(f".from .word >> nth={query}")
            shown = opened.eval_on_selector_all(".to .word", "words => words.map(w => Number(w.dataset.weight))")
            assert (torch.tensor(shown, dtype=torch.float64) - want[query]).abs().max() < 1e-6


def test_the_numbers_of_the_steps_are_those_of_the_reference(opened, animals):
    choose(opened, "layer", 5)
    opened.keyboard.press("4")
    opened.wait_for_selector("table.steps")
    opened.select_option(".dropdown select >> nth=-1", "3")
    wait_until(opened, "document.querySelector('.intro b').textContent === 'did'")
    rows = opened.eval_on_selector_all(
        "table.steps tbody tr",
        "rows => rows.map(r => [...r.querySelectorAll('[data-value]')].map(c => +c.dataset.value))",
    )
    found = torch.tensor(rows, dtype=torch.float64)  # q·k, divided, weight
    q, k, _, scale = animals.inputs[0].layer(5).attention.vectors(1)
    want = k.double() @ q[3].double()
    assert (found[:, 0] - want).abs().max() < 1e-6 * want.abs().max()
    assert (found[:, 1] - want * scale).abs().max() < 1e-6 * want.abs().max()
    assert (found[:, 2] - exact(animals, 5, 1)[3]).abs().max() < 1e-6
    assert "÷ √32" in opened.text_content("table.steps thead")
    total = float(opened.get_attribute("table.steps tfoot [data-value]", "data-value"))
    assert total == pytest.approx(1, abs=1e-6)


def test_hovering_shows_one_word_s_links_alone(opened):
    opened.hover(".from .word >> nth=9")
    assert opened.text_content("output.status").startswith("it → animal 0.6879")
    assert opened.locator(".from .word.active").count() == 1
    before = opened.locator(".lines canvas").screenshot()
    opened.hover(".from .word >> nth=1")
    opened.wait_for_timeout(60)
    assert opened.locator(".lines canvas").screenshot() != before


def test_choosing_layer_head_and_input(opened):
    choose(opened, "layer", 2)
    choose(opened, "head", 7)
    assert opened.url.endswith("#lines.0.2.7")
    choose(opened, "sequence", 1)
    assert "untrained" in " ".join(opened.locator(".from .word").all_text_contents()).replace(" ", "")
    opened.reload()
    opened.wait_for_selector(".lines .word")
    assert opened.url.endswith("#lines.1.2.7")


def test_words_and_special_tokens(opened, animals):
    choose(opened, "sequence", 1)
    pieces = opened.locator(".from .word").count()
    opened.click("[data-keep=mergeSubwords]")
    wait_until(opened, f"document.querySelectorAll('.from .word').length < {pieces}")
    words = opened.locator(".from .word").all_text_contents()
    assert "unbelievably" in words and "untrained" in words
    opened.click("[data-keep=hideSpecial]")
    wait_until(opened, "document.querySelector('.notes').textContent.includes('renormalized to sum to 1')")
    assert "[CLS]" not in opened.locator(".from .word").all_text_contents()
    opened.hover(".from .word >> nth=2")
    shown = opened.eval_on_selector_all(".to .word", "words => words.map(w => Number(w.dataset.weight))")
    assert sum(shown) == pytest.approx(1, abs=1e-5)


def test_value_weighted(opened, animals):
    opened.click("[data-keep=valueWeighted]")
    wait_until(opened, "document.querySelector('.notes').textContent.includes('no longer sum to 1')")
    opened.hover(".from .word >> nth=9")
    shown = opened.eval_on_selector_all(".to .word", "words => words.map(w => Number(w.dataset.weight))")
    want = exact(animals, 3, 1)[9] * animals.inputs[0].layer(3).attention.norms(1).double()
    assert (torch.tensor(shown, dtype=torch.float64) - want).abs().max() < 1e-6 * want.max() + 1e-7


def test_comparing_two_heads(opened):
    opened.click("[data-keep=compare]")
    opened.wait_for_selector("main.two")
    assert opened.locator("section.panel").count() == 2
    assert opened.locator("section.panel").nth(0).get_attribute("aria-label") == "encoder.3, head 1"
    opened.locator("h2 select").nth(0).select_option("0")  # the second panel's input
    wait_until(opened, "document.querySelectorAll('section.panel')[1].querySelectorAll('.from .word').length === 15")


def test_the_matrix_is_read_cell_by_cell_and_zoomed(opened, animals):
    opened.keyboard.press("2")
    opened.wait_for_selector(".matrix canvas")
    opened.focus(".matrix canvas")
    want = exact(animals, 3, 1)
    for _ in range(9):
        opened.keyboard.press("ArrowDown")
    for _ in range(2):
        opened.keyboard.press("ArrowRight")
    status = opened.text_content("output.status")
    assert status.startswith("it → animal: ")
    assert float(status.split(": ")[1]) == pytest.approx(float(want[9, 2]), abs=1e-6)
    small = opened.locator(".matrix canvas").screenshot()
    opened.keyboard.press("+")
    opened.keyboard.press("+")
    opened.wait_for_timeout(80)
    assert opened.locator(".matrix canvas").screenshot() != small
    opened.keyboard.press("0")
    box = opened.locator(".matrix canvas").bounding_box()
    opened.mouse.move(box["x"] + 300, box["y"] + 300)
    opened.mouse.wheel(0, -400)
    opened.wait_for_timeout(80)
    assert " → " in opened.text_content("output.status")


def test_model_view(opened):
    opened.keyboard.press("3")
    opened.wait_for_selector(".model .thumb")
    assert opened.locator(".model .layer").count() == 6
    assert opened.locator(".model .thumb").count() == 72
    label = opened.locator(".thumb").nth(14).get_attribute("aria-label")
    assert re.match(r"encoder.1, head 2, entropy \d\.\d\d, mean distance \d+\.\d tokens", label)
    opened.locator(".thumb").nth(14).click()
    opened.wait_for_selector(".matrix canvas")
    assert opened.url.endswith("#matrix.0.1.2")


def test_saving(opened, animals):
    want = exact(animals, 3, 1)
    with opened.expect_download() as got:
        opened.click(".files button >> text=CSV")
    with open(got.value.path(), encoding="utf-8", newline="") as file:
        rows = list(csv.reader(io.StringIO(file.read())))
    assert got.value.suggested_filename == "encoder.3-head-1.csv"
    assert rows[10][0] == "it"
    values = torch.tensor([[float(x) for x in row[1:]] for row in rows[1:]], dtype=torch.float64)
    assert (values - want).abs().max() < 1e-6
    with opened.expect_download() as got:
        opened.click(".files button >> text=SVG")
    svg = got.value.path().read_text()
    assert svg.startswith("<svg") and ">animal</text>" in svg
    for view in ("1", "2"):
        opened.keyboard.press(view)
        opened.wait_for_selector("main:not([aria-busy])")
        with opened.expect_download() as got:
            opened.click(".files button >> text=PNG")
        assert got.value.path().read_bytes().startswith(b"\x89PNG")


def test_with_the_keyboard_alone(opened):
    for key, hash in (("]", "#lines.0.3.2"), ("[", "#lines.0.3.1"), ("}", "#lines.0.4.1"), ("{", "#lines.0.3.1"),
                      ("w", "#lines.0.3.1.words"), ("w", "#lines.0.3.1"), ("h", "#lines.0.3.1.nospecial"), ("h", "#lines.0.3.1"),
                      ("4", "#steps.0.3.1"), ("1", "#lines.0.3.1")):  # fmt: skip
        opened.locator("#clearhead [data-keep=lines]").focus()
        opened.keyboard.press(key)
        wait_until(opened, f"location.hash === '{hash}'")
    for _ in range(40):  # to the first word
        opened.keyboard.press("Tab")
        if opened.evaluate("document.activeElement.className.includes('word')"):
            break
    opened.keyboard.press("ArrowDown")
    opened.keyboard.press("ArrowDown")
    assert opened.text_content("output.status").startswith("animal → ")
    opened.keyboard.press("Enter")
    assert opened.locator(".from .word[aria-selected=true]").text_content() == "animal"
    unnamed = opened.evaluate(
        "[...document.querySelectorAll('canvas, button, select')].filter(e => "
        "!(e.getAttribute('aria-label') || e.textContent || e.closest('label'))).length"
    )
    assert unnamed == 0


PAYLOADS = (
    "<script>window.hit=1</script>", "<img src=x onerror=window.hit=1>", "\"><svg onload=window.hit=1>", "</script><b>",
    "javascript:window.hit=1", "{{constructor.constructor('window.hit=1')()}}", "<iframe srcdoc='<script>1</script>'>",
    "';window.hit=1;//", "</style><script>window.hit=1</script>", "<a href=javascript:window.hit=1>x</a>",
    "\u2028window.hit=1", "<!--<script>", "]]><script>window.hit=1</script>", "<math><mi xlink:href='data:x,<script>1'>",
    "%3Cscript%3Ewindow.hit=1%3C/script%3E", "<style>@import 'http://127.0.0.1:1/x'</style>", "\\u003cscript\\u003e",
    "<base href=http://127.0.0.1:1/>", "<form action=http://127.0.0.1:1/><input autofocus onfocus=window.hit=1>", "${hit}",
)  # fmt: skip


def test_tokens_and_labels_are_never_code(tab, tmp_path):
    words = tuple(f"{PAYLOADS[i % len(PAYLOADS)]}{i}" for i in range(500))
    violated = []
    tab.expose_function("violated", lambda what: violated.append(what))
    tab.add_init_script("addEventListener('securitypolicyviolation', e => violated(e.violatedDirective))")
    inputs = []
    for begin in range(0, 500, 50):
        part = words[begin : begin + 50]
        names = TokenLabels(part, (False,) * 50, (False,) * 50)
        layers = tuple(SceneLayer(w, "self", 0, 0, Precomputed(torch.eye(50)[None])) for w in part[:4])
        inputs.append(SceneInput(part[0], (SceneAxis(part[1], names),), layers))
    scene = Scene(tuple(inputs), title=PAYLOADS[0], model=PAYLOADS[1])
    tab.goto(show(scene, tmp_path / "xss.html"))
    for sequence in range(10):
        choose(tab, "sequence", sequence)
        shown = tab.locator(".from .word").all_text_contents()
        assert shown == list(words[sequence * 50 : sequence * 50 + 50])
        for key in ("2", "3", "4", "1"):
            tab.locator("[data-keep=lines]").focus()
            tab.keyboard.press(key)
            tab.wait_for_selector("main:not([aria-busy])")
    with tab.expect_download():
        tab.click(".files button >> text=SVG")
    assert tab.evaluate("window.hit") is None
    assert violated == []


def test_page_makes_no_requests(chromium, animals, tmp_path):
    context = chromium.new_context()
    requests = []
    context.on("request", lambda request: requests.append(request.url))
    page_ = context.new_page()
    address = show(animals, tmp_path / "page.html")
    page_.goto(address)
    page_.wait_for_selector(".lines .word")
    context.close()
    assert requests == [address]


def test_a_policy_that_allows_the_page_s_own_code_alone(animals):
    text = page(animals)
    found = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert found is not None
    policy = found.group(1)
    assert policy.startswith("default-src &#x27;none&#x27;; script-src &#x27;sha256-")
    assert "unsafe" not in policy and "http" not in policy


def test_links_of_a_preface_select_heads_and_comparisons(tab, animals, tmp_path):
    """Links before the viewer change what it shows; the policy allows their style sheet."""
    links = '<h1>Before</h1><a href="#lines.1.4.2.nospecial.vs0-4-2">both</a>'
    style = "h1 { color: rgb(1, 2, 3); }"
    (tmp_path / "page.html").write_text(page(animals, Preface(html=links, style=style, start="#lines.0.2.1")))
    tab.context.set_offline(True)
    tab.goto((tmp_path / "page.html").as_uri())
    tab.wait_for_selector(".lines .word")
    assert tab.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(1, 2, 3)"
    assert tab.locator("section.panel").get_attribute("aria-label") == "encoder.2, head 1"
    assert tab.url.endswith("page.html") and tab.evaluate("scrollY") == 0
    tab.click("text=both")
    tab.wait_for_selector("main.two")
    assert [s.get_attribute("aria-label") for s in tab.locator("section.panel").all()] == ["encoder.4, head 2"] * 2
    assert tab.locator(".from").count() == 2 and "[CLS]" not in tab.locator(".from .word").all_text_contents()
    assert tab.evaluate("scrollY") > 0
    assert tab.url.endswith("#lines.1.4.2.nospecial.vs0-4-2")
    tab.goto("about:blank")
    tab.goto((tmp_path / "page.html").as_uri() + "#lines.1.2.3")
    wait_until(tab, "scrollY > 0")


def test_a_static_page_allows_no_script():
    found = static_page("<b>", Preface(html="<p>text</p>", style="p { margin: 0 }"))
    assert "default-src &#x27;none&#x27;; style-src &#x27;sha256-" in found and "script" not in found
    assert "<title>&lt;b&gt;</title>" in found and "<p>text</p>" in found and 'id="clearhead"' not in found
