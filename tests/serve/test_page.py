"""The server's pages in a real browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import resources

import pytest

from tests.serve.conftest import start
from tests.viz.test_page import PAYLOADS

TASKS = ("classify", "pair", "tag", "qa", "translate", "embed", "generate", "chat")
OFFER = "Show attention"
HOSTILE = [f"{PAYLOADS[i % len(PAYLOADS)]}{i}" for i in range(500)]
SLOW = """
    const real = window.fetch; // delays every event of a stream
    window.fetch = async (url, options) => {
      const response = await real(url, options);
      if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return response;
      const slowed = new TransformStream({
        async transform(bytes, out) {
          for (const event of new TextDecoder().decode(bytes).split(/(?<=\\n\\n)/)) {
            await new Promise((done) => setTimeout(done, 40));
            out.enqueue(new TextEncoder().encode(event));
          }
        },
      });
      return new Response(response.body.pipeThrough(slowed), response);
    };
"""


def at(tab, server, task):
    """The panel of a task."""
    tab.goto(f"{server.address}#{task}")
    tab.wait_for_selector("main:not([aria-busy])")
    return tab.locator(f"#panel-{task}")


def fill(panel, **values):
    for name, value in values.items():
        panel.locator(f"[name={name}]").fill(str(value))


def send(panel):
    """Sends with Ctrl+Enter in the first text; returns the element of the result."""
    panel.locator("textarea").first.press("Control+Enter")
    panel.get_by_role("button", name=OFFER).wait_for()
    return panel.locator(".answer")


def forgive(tab):
    """The console reports every error response; it may contain nothing else."""
    assert tab.faults and all(fault.startswith("Failed to load resource") for fault in tab.faults), tab.faults
    tab.faults.clear()


def words_in(tab):
    """The query tokens on the embedded attention page."""
    frame = tab.frame_locator(".panel:not([hidden]) iframe")
    frame.locator(".from .word").first.wait_for()
    return [word.strip() for word in frame.locator(".from .word").all_text_contents()]


def post(client, path, **body):
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_tab_for_every_task_and_a_choice_of_the_models_that_can_do_it(tab, server, client):
    at(tab, server, "classify")
    tabs = (*TASKS, "caption")
    assert [one.get_attribute("data-task") for one in tab.get_by_role("tab").all()] == list(tabs)
    models = client.get("/models").json()["models"]
    for task in tabs:
        tab.locator(f"#tab-{task}").click()
        assert tab.get_by_role("tabpanel").count() == 1
        names = tab.locator(f"#panel-{task} form select option").all_text_contents()
        assert sorted(names) == sorted(one["name"] for one in models if task in one["tasks"])
        assert (
            tab.locator(f"#panel-{task} .model")
            .text_content()
            .startswith(next(one["architecture"] for one in models if one["name"] == names[0]))
        )
        assert tab.url.endswith(f"#{task}")


def test_only_tasks_that_a_model_here_can_do(tab, server):
    some = [{"name": "only", "tasks": ["tag", "embed"], "architecture": "X", "parameters": 1, "max_len": None}]
    tab.route("**/models", lambda route: route.fulfill(json={"models": some}))
    at(tab, server, "translate")  # no model translates: the first task is shown instead
    assert [one.get_attribute("data-task") for one in tab.get_by_role("tab").all()] == ["tag", "embed"]
    assert tab.locator("#panel-tag").is_visible()


def test_labels_with_their_scores(tab, server, client):
    panel = at(tab, server, "classify")
    fill(panel, text="the old man sees a red tree")
    shown = send(panel)
    (found,) = post(client, "/classify", text="the old man sees a red tree")["answers"]
    assert shown.locator(".result").text_content() == found["answer"]
    order = sorted(found["scores"].items(), key=lambda one: -one[1])
    assert shown.locator("tbody th").all_text_contents() == [name for name, _ in order]
    assert shown.locator(".number").all_text_contents() == [f"{100 * score:.1f} %" for _, score in order]
    assert shown.locator("tr.best th").all_text_contents() == [found["answer"]]
    assert re.fullmatch(r"classify · \d+(\.\d)? m?s", panel.locator(".stats").text_content())


def test_two_texts(tab, server, client):
    panel = at(tab, server, "pair")
    fill(panel, text="a small dog", second="her green umbrella")
    shown = send(panel)
    (found,) = post(client, "/pair", text="a small dog", second="her green umbrella")["answers"]
    assert shown.locator(".result").text_content() == found["answer"]
    panel.get_by_role("button", name=OFFER).click()
    seen = post(client, "/attention", model="pair", text="a small dog", second="her green umbrella")
    assert words_in(tab) == seen["layers"][0]["queries"]


def test_numbers_and_several_labels(tab, server):
    panel = at(tab, server, "classify")
    data = [{"answer": 3.14159, "scores": {}}, {"answer": ["x", "y"], "scores": {"y": 0.6, "z": 0.1, "x": 0.9}},
            {"answer": [], "scores": {"x": 0.2}}]  # fmt: skip
    tab.route("**/classify", lambda route: route.fulfill(json={"model": "m", "answers": [data.pop(0)]}))
    assert send(panel).locator(".result").text_content() == "3.142"
    assert panel.locator(".bars").count() == 0
    assert send(panel).locator(".result").text_content() == "x, y"
    assert panel.locator("tr.best th").all_text_contents() == ["x", "y"]
    assert send(panel).locator(".result").text_content() == "no label"


def test_tags_and_named_entities(tab, server, client):
    text = "Ada Lovelace met Charles Babbage in London in June 1833. 🙂 the old man"
    panel = at(tab, server, "tag")
    fill(panel, text=text)
    shown = send(panel)
    (found,) = post(client, "/tag", text=text)["answers"]
    assert found["entities"]
    marked = [(w, t) for w, t in zip(found["words"], found["tags"], strict=True) if t != "O"]
    assert shown.locator(".words .tag > span").all_text_contents() == [w for w, _ in marked]
    assert shown.locator(".words .tag > small").all_text_contents() == [t for _, t in marked]
    assert shown.locator(".entities li").all_text_contents() == [f"{n['label']} {n['text']}" for n in found["entities"]]
    assert f"{len(found['words'])} words" in panel.locator(".stats").text_content()


def test_the_answer_in_its_context(tab, server, client):
    context = "🙂 the old man walks to his house in the rain 🙂 with her green umbrella"  # characters beyond 16 bits
    panel = at(tab, server, "qa")
    fill(panel, question="where is the dog?", context=context, nbest=4)
    shown = send(panel)
    (found,) = post(client, "/qa", question="where is the dog?", context=context, nbest=4)["answers"]
    assert shown.locator(".context").text_content() == context
    rows = shown.locator("tr")
    spans = shown.locator("button.span")
    assert spans.all_text_contents() == [span["text"] for span in found["spans"]]
    assert rows.last.locator("td").all_text_contents() == [
        "no answer",
        "",
        f"{100 * found['no_answer_probability']:.1f} %",
    ]
    best = found["best"] and context[found["best"]["start"] : found["best"]["end"]]
    assert shown.locator("mark").all_text_contents() == ([best] if best else [])
    assert shown.locator(".result").text_content() == (best or "The context does not contain the answer.")
    for i, span in enumerate(found["spans"]):  # hovering over or focusing one highlights it
        (spans.nth(i).hover if i % 2 else spans.nth(i).focus)()
        assert shown.locator("mark").all_text_contents() == [context[span["start"] : span["end"]]]
    panel.get_by_role("button", name=OFFER).click()
    seen = post(client, "/attention", model="qa", text="where is the dog?", second=context)
    assert words_in(tab) == seen["layers"][0]["queries"]


def test_a_question_without_an_answer(tab, server):
    panel = at(tab, server, "qa")
    fill(panel, context="one red tree")
    span = {"text": "red", "start": 4, "end": 7, "score": 0.1, "probability": 0.2}
    data = {"best": None, "spans": [span], "no_answer_probability": 0.8}
    tab.route("**/qa", lambda route: route.fulfill(json={"model": "m", "answers": [data]}))
    shown = send(panel)
    assert shown.locator(".result").text_content() == "The context does not contain the answer."
    assert shown.locator("tr.best td").first.text_content() == "no answer"
    assert shown.locator(".context").text_content() == "one red tree"


def test_translation_and_alignment(tab, server, client):
    panel = at(tab, server, "translate")
    fill(panel, text="the old man sees a dog", nbest=2)
    shown = send(panel)
    (found,) = post(client, "/translate", text="the old man sees a dog", nbest=2, align=True)["answers"]
    assert shown.locator(".result").text_content() == found["text"]
    assert shown.locator(".hypotheses td:first-child").all_text_contents() == [one["text"] for one in found["nbest"]]
    read, written = shown.locator(".source .token"), shown.get_by_role("toolbar").locator("button")
    assert read.count() == len(found["source"]) and written.count() == len(found["tokens"])
    facts = panel.locator(".stats").text_content()
    assert f"{len(found['source'])} source tokens · {len(found['tokens'])} target tokens" in facts

    def shades():
        return [float(x) for x in read.evaluate_all("all => all.map(one => one.style.getPropertyValue('--value'))")]

    def expected(i):
        row = found["alignment"][i]
        return [min(1, x / max(0.3, *row)) for x in row]

    written.nth(3).hover()
    assert shades() == pytest.approx(expected(3), abs=1e-4)
    written.nth(0).focus()
    assert shades() == pytest.approx(expected(0), abs=1e-4)
    tab.keyboard.press("ArrowRight")
    assert shades() == pytest.approx(expected(1), abs=1e-4)
    assert "←" in shown.get_by_role("status").text_content()
    panel.get_by_role("button", name=OFFER).click()
    seen = post(client, "/attention", model="translate", text="the old man sees a dog", second=found["text"])
    assert words_in(tab) == [word.strip() for word in seen["layers"][0]["queries"]]


def test_similarity(tab, server, client):
    lines = ["the old man", "one red tree", "the old man", "her green umbrella"]
    panel = at(tab, server, "embed")
    fill(panel, text="\n\n".join(lines) + "\n")
    name = panel.locator("form select").input_value()
    shown = send(panel)
    found = post(client, "/embed", model=name, text=lines)
    units = [[x / sum(y * y for y in v) ** 0.5 for x in v] for v in found["vectors"]]
    cosines = [[sum(x * y for x, y in zip(a, b, strict=True)) for b in units] for a in units]
    cells = [float(x) for x in shown.locator("tbody td").all_text_contents()]
    assert cells == pytest.approx([x for row in cosines for x in row], abs=0.0051)
    assert "Most similar: 1 and 3, 1.00." in shown.locator(".result").text_content()
    facts = panel.locator(".stats").text_content()
    assert f"{sum(found['tokens'])} tokens · 4 × {len(units[0])} dimensions" in facts
    panel.locator(".actions select").select_option("1")
    panel.get_by_role("button", name=OFFER).click()
    seen = post(client, "/attention", model=name, text="one red tree")
    assert words_in(tab) == [word.strip() for word in seen["layers"][0]["queries"]]


def test_text_generation(tab, server, client):
    panel = at(tab, server, "generate")
    fill(panel, prompt="the old man", max_new_tokens=30, temperature=1.2, top_p=0.9, seed=11)
    shown = send(panel)
    found = post(client, "/generate", prompt="the old man", max_new_tokens=30, temperature=1.2, top_p=0.9, seed=11)
    assert shown.locator(".generated").text_content() == "the old man" + found["text"]
    facts = panel.locator(".stats").text_content()
    assert f"{found['tokens']} tokens" in facts and "seed 11" in facts
    assert ("token limit reached" if found["finish_reason"] == "length" else "finished") in facts
    panel.get_by_role("button", name=OFFER).click()
    seen = post(client, "/attention", model="lm", text="the old man" + found["text"])
    assert len(words_in(tab)) == len(seen["layers"][0]["queries"])


def test_a_stream_is_shown_as_it_arrives_and_can_be_stopped(tab, server, client):
    tab.add_init_script(SLOW)
    panel = at(tab, server, "generate")
    how = {"prompt": "the old man", "max_new_tokens": 100, "temperature": 1.2, "seed": 5}
    fill(panel, **how)
    assert panel.get_by_role("button", name="Stop").is_hidden()
    panel.locator("textarea").press("Control+Enter")
    growing = panel.locator(".streaming")
    growing.wait_for()
    sizes = set()
    while len(sizes) < 4:
        sizes.add(len(growing.text_content()))
        tab.wait_for_timeout(30)
    assert panel.get_by_role("button", name="Send").is_disabled()
    panel.get_by_role("button", name="Stop").click()
    panel.get_by_role("button", name=OFFER).wait_for()
    assert "stopped" in panel.locator(".stats").text_content()
    assert panel.get_by_role("button", name="Send").is_enabled()
    output = panel.locator(".generated").text_content().removeprefix("the old man")
    full = post(client, "/generate", **how, top_p=0.95)["text"]
    assert output and full.startswith(output) and len(output) < len(full)
    tab.wait_for_timeout(200)
    assert panel.locator(".generated").text_content() == "the old man" + output


def test_a_conversation(tab, server, client):
    panel = at(tab, server, "chat")
    output = []
    for turn in ("hello you", "and the dog?"):
        fill(panel, turn=turn, max_new_tokens=12, temperature=1.0, seed=3)
        send(panel)
        output.append(turn)
        output.append(
            post(client, "/chat", turns=output, max_new_tokens=12, temperature=1.0, top_p=0.95, seed=3)["text"]
        )
        assert output[-1].strip()
        shown = panel.locator(".bubble").all_text_contents()
        assert shown == [("Model: " if i % 2 else "You: ") + text for i, text in enumerate(output)]
        assert panel.locator("textarea").input_value() == ""
        panel.locator(".actions button").wait_for()
    panel.get_by_role("button", name=OFFER).click()
    assert len(words_in(tab)) > 4
    panel.get_by_role("button", name="New chat").click()
    assert panel.locator(".bubble").count() == 0 and panel.locator("iframe").is_hidden()
    fill(panel, turn="hello you", max_new_tokens=12, temperature=1.0, seed=3)
    send(panel)
    assert panel.locator(".bubble").all_text_contents()[1] == f"Model: {output[1]}"


def test_an_empty_reply_is_left_out_of_the_next_request(tab, server):
    asked = []

    def reply(route):
        asked.append(route.request.post_data_json["turns"])
        event = {
            "text": "" if len(asked) == 1 else "yes",
            "finish_reason": "stop",
            "tokens": 1,
            "seed": 1,
            "dropped_turns": 0,
        }
        route.fulfill(content_type="text/event-stream", body=f"data: {json.dumps(event)}\n\n")

    tab.route("**/chat", reply)
    panel = at(tab, server, "chat")
    for turn in ("first", "second", "third"):
        fill(panel, turn=turn)
        send(panel)
    assert asked == [["first"], ["second"], ["second", "yes", "third"]]


def test_errors_are_shown_at_their_field(tab, server, client):
    for task, name, value, param in (
        ("classify", "text", "  ", "text"),
        ("qa", "context", " ", "context"),
        ("embed", "text", "\n \n", "text"),
        ("generate", "top_p", "0", "top_p"),
        ("generate", "max_new_tokens", "4000", "prompt"),
        ("chat", "turn", " ", "turn"),
        ("translate", "beam", "1", None),
    ):
        tab.goto("about:blank")
        panel = at(tab, server, task)
        fill(panel, **{name: value})
        with tab.expect_response(f"**/{task}") as response:
            panel.locator("textarea").first.press("Control+Enter")
        alert = panel.get_by_role("alert")
        alert.wait_for()
        assert response.value.status == 422
        assert alert.text_content() == response.value.json()["error"]["message"], task
        if param:
            panel.locator(f"[name={param}][aria-invalid=true]").wait_for()
        assert panel.get_by_role("button", name=OFFER).count() == 0
        forgive(tab)


def test_an_invalid_number_is_not_sent(tab, server):
    panel = at(tab, server, "generate")
    tab.route("**/generate", lambda route: pytest.fail("it was sent"))
    fill(panel, temperature=7)
    panel.locator("textarea").press("Control+Enter")
    assert panel.get_by_role("alert").text_content().startswith("Temperature: ")


def test_an_error_during_a_stream_keeps_the_text(tab, server):
    events = [{"text": "once upon"}, {"error": {"message": "it took too long", "param": None}}]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    tab.route("**/generate", lambda route: route.fulfill(content_type="text/event-stream", body=body))
    panel = at(tab, server, "generate")
    fill(panel, prompt="x ")
    panel.locator("textarea").press("Control+Enter")
    assert panel.get_by_role("alert").text_content() == "it took too long"
    assert panel.locator(".generated").text_content() == "x once upon"


def test_a_server_that_is_gone(tab, server):
    panel = at(tab, server, "classify")
    tab.route("**/classify", lambda route: route.abort())
    panel.locator("textarea").press("Control+Enter")
    assert "cannot be reached" in panel.get_by_role("alert").text_content()
    forgive(tab)
    tab.route("**/models", lambda route: route.fulfill(status=503, json={"error": {"message": "not now"}}))
    tab.reload()
    assert tab.get_by_role("alert").text_content() == "not now"
    forgive(tab)


def test_an_attention_that_cannot_be_shown_says_so(tab, server):
    panel = at(tab, server, "classify")
    send(panel)
    seen = {}
    tab.route("**/attention", lambda route: route.fulfill(json=seen))
    for page in ("javascript:window.hit=1", "//127.0.0.1:1/see/x/", "/see/../", "/classify"):
        seen = {"model": "m", "answer": None, "page": page, "layers": [], "weights": None}
        panel.get_by_role("button", name=OFFER).click()
        panel.locator(".actions .error").wait_for()
        assert panel.locator("iframe").count() == 0
    assert tab.evaluate("window.hit") is None


def test_the_attention_can_be_opened_alone_and_closed(tab, server):
    panel = at(tab, server, "classify")
    fill(panel, text="one red tree")
    send(panel)
    panel.get_by_role("button", name=OFFER).click()
    assert words_in(tab) == ["[CLS]", "one", "red", "tree", "[SEP]"]
    with tab.expect_popup() as opened:
        panel.get_by_role("link", name="Open in a new tab").click()
    alone = opened.value
    alone.locator(".from .word").first.wait_for()
    assert alone.locator(".from .word").all_text_contents() == words_in(tab)
    alone.close()
    panel.get_by_role("button", name="Close").click()
    assert panel.locator("iframe").is_hidden()
    panel.get_by_role("button", name=OFFER).click()
    words_in(tab)
    send(panel)  # what is asked anew has another attention
    assert panel.locator("iframe").count() == 0


HARD = "it's a \"dog\" $HOME `x` \\n \\ ! 'quoted' 🙂 \u2028 %s {x} </script>"


@pytest.mark.parametrize("task", TASKS)
def test_the_request_as_code_is_the_request(tab, server, client, task):
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    panel = at(tab, server, task)
    panel.locator("textarea").first.fill(f"the old man {HARD}")
    if task in ("generate", "chat"):
        fill(panel, seed=4, max_new_tokens=8)
    panel.locator("details summary").click()
    copied = []
    for button in panel.locator(".copy").all():
        button.click()
        button.get_by_text("Copied").wait_for()
        copied.append(tab.evaluate("navigator.clipboard.readText()"))
    curl, python = copied
    with tab.expect_request(f"**/{task}") as request:
        send(panel)
    body = request.value.post_data_json
    given = subprocess.run(["bash", "-c", curl + " -s"], capture_output=True, text=True, check=True, timeout=60)
    output = subprocess.run([sys.executable, "-c", python], capture_output=True, text=True, check=True, timeout=60)
    if body.get("stream"):
        events = [json.loads(line.removeprefix("data: ")) for line in given.stdout.split("\n") if line]
        full = post(client, f"/{task}", **{**body, "stream": False})["text"]
        assert "".join(event["text"] for event in events) == full
        assert output.stdout == full
    elif task == "embed":
        found = post(client, "/embed", **body)
        assert json.loads(given.stdout) == found
        assert f"prompt_tokens={sum(found['tokens'])}" in output.stdout
    else:
        found = post(client, f"/{task}", **body)
        assert json.loads(given.stdout)["model"] == found["model"]
        assert list(json.loads(given.stdout)["answers"][0]) == list(found["answers"][0])
        assert output.stdout.startswith("{'model': ")


def test_with_the_keyboard_alone(tab, server):
    at(tab, server, "classify")

    def until(name):
        for _ in range(30):
            tab.keyboard.press("Tab")
            if name in tab.evaluate("[document.activeElement.textContent, document.activeElement.name]"):
                return
        pytest.fail(f"Tab does not come to {name}")

    until("Classify")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowRight")
    assert tab.locator("#panel-tag").is_visible()
    tab.keyboard.press("ArrowLeft")
    assert tab.locator("#panel-pair").is_visible()
    until("text")
    tab.keyboard.press("Control+a")
    tab.keyboard.type("a small dog")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Control+a")
    tab.keyboard.type("one red tree")
    tab.keyboard.press("Control+Enter")
    tab.get_by_role("button", name=OFFER).wait_for()
    until(OFFER)
    tab.keyboard.press("Enter")
    assert "umbrella" not in words_in(tab) and "tree" in words_in(tab)
    until("Open in a new tab")


def test_every_control_has_an_accessible_name(tab, server):
    at(tab, server, "classify")
    unnamed = """all => all.filter(one => !(one.labels?.length || one.getAttribute('aria-label') ||
        one.getAttribute('title') || one.textContent.trim())).map(one => one.outerHTML)"""
    for task in TASKS:
        tab.locator(f"#tab-{task}").click()
        panel = tab.locator(f"#panel-{task}")
        send(panel)
        panel.get_by_role("button", name=OFFER).click()
        panel.locator("iframe").wait_for()
        assert tab.locator("textarea, input, select, button, a, iframe, [role=toolbar]").evaluate_all(unnamed) == []
    tab.goto(f"{server.address}docs")
    tab.wait_for_selector("main:not([aria-busy])")
    assert tab.locator("textarea, input, select, button, a").evaluate_all(unnamed) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_and_wide_in_the_light_and_in_the_dark(tab, server, scheme):
    tab.emulate_media(color_scheme=scheme)
    ground = {"light": "rgb(250, 251, 253)", "dark": "rgb(13, 21, 34)"}[scheme]
    for width in (400, 1200):
        tab.set_viewport_size({"width": width, "height": 800})
        for task in TASKS:
            send(at(tab, server, task))
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, (task, width)
        tab.goto(f"{server.address}docs#post-translate")
        tab.wait_for_selector("main:not([aria-busy])")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == ground


def watched(tab):
    """What the policy refuses from here on: nothing may try."""
    violated = []
    tab.expose_function("violated", lambda what: violated.append(what))
    tab.add_init_script("addEventListener('securitypolicyviolation', e => violated(e.violatedDirective))")
    return violated


def batches(count):
    return [HOSTILE[begin : begin + 20] for begin in range(0, count, 20)]


COUNTS = [pytest.param(40, id="some"), pytest.param(500, id="all", marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", COUNTS)
def test_user_text_is_never_code(tab, server, count):
    violated = watched(tab)
    for part in batches(count):
        panel = at(tab, server, "embed")
        fill(panel, text="\n".join(part).replace("\u2028", " "))
        shown = send(panel)
        assert shown.locator("tbody th").count() == 20
        for task in ("tag", "qa", "chat", "translate", "generate"):
            panel = at(tab, server, task)
            for text in panel.locator("textarea").all():
                text.fill(" ".join(part[:4]))
            if task in ("chat", "generate"):
                fill(panel, max_new_tokens=2)
            if task in ("chat", "generate", "translate"):  # these read so much at once: a part
                panel.locator("textarea").first.fill(part[0][:30])
            send(panel)
        panel = at(tab, server, "classify")
        fill(panel, text=" ".join(part))
        send(panel)
        panel.get_by_role("button", name=OFFER).click()
        words_in(tab)
        assert tab.evaluate("window.hit") is None
        assert all(frame.evaluate("window.hit") is None for frame in tab.frames)
    assert violated == []


@pytest.mark.parametrize("count", COUNTS)
def test_model_output_is_never_code(tab, server, count):
    violated = watched(tab)
    parts = iter(batches(count))
    part: list[str] = []
    answers = {
        "classify": lambda p: {"answer": p, "scores": dict.fromkeys(p, 0.5)},
        "tag": lambda p: {"words": p, "tags": p, "scores": [0.5] * len(p),
                          "entities": [{"label": x, "text": x, "start": 0, "end": 1} for x in p]},
        "qa": lambda p: {"best": None, "spans": [{"text": x, "start": 0, "end": 1, "score": 0.0, "probability": 0.1} for x in p],
                         "no_answer_probability": 0.5},
        "translate": lambda p: {"text": p[0], "score": 0.0, "nbest": [{"text": x, "score": 0.0} for x in p],
                                "source": p, "tokens": p, "alignment": [[0.05] * len(p)] * len(p)},
    }  # fmt: skip

    def models(route):
        names = [{"name": x, "tasks": TASKS, "architecture": x, "parameters": 1, "max_len": 9} for x in part]
        route.fulfill(json={"models": names})

    def streamed(route):
        last = {"text": "", "finish_reason": part[1], "tokens": 9, "seed": 1, "dropped_turns": 0}
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in [*({"text": x} for x in part), last])
        route.fulfill(content_type="text/event-stream", body=body)

    def answered(route):
        task = route.request.url.rsplit("/", 1)[1]
        route.fulfill(json={"model": part[0], "answers": [answers[task](part)]})

    def refused(route):
        route.fulfill(status=422, json={"error": {"message": " ".join(part), "param": part[0]}})

    tab.route("**/models", models)
    for task in answers:
        tab.route(f"**/{task}", answered)
    tab.route("**/generate", streamed)
    tab.route("**/chat", streamed)
    tab.route("**/pair", refused)
    for part in parts:
        tab.goto("about:blank")
        at(tab, server, "classify")
        for task in (*answers, "generate", "chat"):
            tab.locator(f"#tab-{task}").click()
            panel = tab.locator(f"#panel-{task}")
            panel.locator("form select").select_option(part[2])
            text = send(panel).text_content()
            assert all(x.strip() in text for x in part), task
        tab.locator("#tab-pair").click()
        tab.locator("#panel-pair textarea").first.press("Control+Enter")
        assert tab.locator("#panel-pair .error").text_content() == " ".join(part)
        forgive(tab)
        assert tab.evaluate("window.hit") is None
    assert violated == []


def test_the_reference_is_never_code(tab, server, client):
    violated = watched(tab)
    hostile = " ".join(HOSTILE[:20])

    def worse(value):
        """The same with every description, title and default a payload."""
        if isinstance(value, dict):
            words = ("description", "title", "default")
            return {k: hostile if k in words and not isinstance(v, dict) else worse(v) for k, v in value.items()}
        return [worse(one) for one in value] if isinstance(value, list) else value

    api = worse(client.get("/openapi.json").json())
    tab.route("**/openapi.json", lambda route: route.fulfill(json=api))
    tab.goto(f"{server.address}docs")
    tab.wait_for_selector("main:not([aria-busy])")
    assert "<img src=x onerror" in tab.locator("main").text_content()
    assert tab.evaluate("window.hit") is None and violated == []


def test_no_file_of_ours_makes_code_of_text():
    folder = resources.files("clearhead.serve") / "asset"
    for file in folder.iterdir():
        text = file.read_text(encoding="utf-8")
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "http:",
            "https:",
        ):
            found = text.replace("http://www.w3.org/2000/svg", "")
            assert word not in found, f"{word} in {file.name}"
        if file.name.endswith(".html"):
            assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|style=", text)


def test_with_a_key(chromium, folders, tmp_path):
    key = "0123456789abcdef0123"
    running = start(tmp_path / "log", f"only={folders['classify']}", "--dtype", "float32", CLEARHEAD_KEYS=key)
    context = chromium.new_context(http_credentials={"username": "me", "password": key})
    try:
        tab = context.new_page()
        panel = at(tab, running, "classify")
        send(panel)
        panel.get_by_role("button", name=OFFER).click()
        assert words_in(tab)
        tab.goto(f"{running.address}docs")
        tab.wait_for_selector("main:not([aria-busy])")
    finally:
        context.close()
        running.stop()


def test_the_reference_has_every_route_and_every_field(tab, server, client):
    api = client.get("/openapi.json").json()
    tab.goto(f"{server.address}docs")
    tab.wait_for_selector("main:not([aria-busy])")
    shown = {
        tuple(one.locator("summary > span.verb, summary > code").all_text_contents())
        for one in tab.locator(".route").all()
    }
    assert shown == {(method.upper(), path) for path, methods in api["paths"].items() for method in methods}
    assert tab.locator("section h2").all_text_contents() == ["Tasks", "Attention", "Server", "OpenAI"]
    for path, methods in api["paths"].items():
        for method, about in methods.items():
            place = tab.locator(f"#{method}{re.sub(r'[^a-zA-Z0-9_]+', '-', path)}")
            text = place.text_content()
            assert about["description"].replace("`", "") in text
            assert all(
                status in text and one["description"] in text
                for status, one in about["responses"].items()
                if status > "3"
            )
            taken = about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            if taken:
                schema = api["components"]["schemas"][taken["$ref"].rsplit("/", 1)[1]]
                rows = place.locator(".fields").first.locator("th").all_text_contents()
                assert set(schema["properties"]) <= set(rows)
    qa = tab.locator("#post-qa .fields").first.locator("tr")
    assert (
        qa.filter(has_text="nbest").text_content() == "nbestinteger (1 to 20)default 3Number of answer spans to return."
    )
    assert "required" in qa.filter(has_text="question").first.text_content()


def test_every_example_of_the_reference_works(tab, server, client):
    api = client.get("/openapi.json").json()
    tab.goto(f"{server.address}docs")
    tab.wait_for_selector("main:not([aria-busy])")
    for path, methods in api["paths"].items():
        for method in methods:
            place = tab.locator(f"#{method}{re.sub(r'[^a-zA-Z0-9_]+', '-', path)}")
            place.locator("summary").first.click()
            place.get_by_role("button", name="Send").click()
            place.locator("pre.answer").wait_for()
            assert place.locator(".stats").text_content().startswith("200 · "), path
            command = place.locator(".code pre").text_content()
            given = subprocess.run(
                ["bash", "-c", command + " -s"], capture_output=True, text=True, check=True, timeout=60
            )
            if path in ("/classify", "/pair", "/tag", "/qa", "/models", "/v1/models", "/v1/models/{name}", "/health"):
                assert json.loads(place.locator("pre.answer").text_content()) == json.loads(given.stdout)


def test_an_example_can_be_changed_and_an_error_is_shown(tab, server, client):
    tab.goto(f"{server.address}docs#post-classify")
    place = tab.locator("#post-classify")
    place.locator("textarea").fill('{"text": ["one red tree", "a dog"]}')
    place.locator("textarea").press("Control+Enter")
    place.locator("pre.answer").wait_for()
    data = json.loads(place.locator("pre.answer").text_content())
    assert [one["answer"] for one in data["answers"]] == [
        one["answer"] for one in post(client, "/classify", text=["one red tree", "a dog"])["answers"]
    ]
    assert '["one red tree","a dog"]' in place.locator(".code pre").text_content()
    place.locator("textarea").fill("{")
    assert "not valid JSON" in place.locator(".code pre").text_content()
    place.get_by_role("button", name="Send").click()
    place.locator(".stats", has_text="422").wait_for()
    assert "error" in json.loads(place.locator("pre.answer").text_content())
    forgive(tab)
