"""Answers from an index: the place of an answer, doubt, and the rows that a reader is trained on."""

import json

import pytest
from typer.testing import CliRunner

from clearhead.cli import app
from clearhead.hub.folder import save_folder
from clearhead.pipeline import load
from clearhead.search import (
    Answerer,
    Document,
    Index,
    IndexConfig,
    PassageConfig,
    PassageMiningConfig,
    mine_passages,
    pseudo_pairs,
)
from clearhead.search.ask import FIRST, MORE
from clearhead.search.evaluate_index import STAGES, evaluate_index, stage_counts
from clearhead.search.failure_page import failure_page
from clearhead.search.reasons import explain_passages
from clearhead.search.translated_questions import QuestionTranslator, TranslatedQuestion
from clearhead.tasks.answer import PassageReader
from tests.conftest import MINILM
from tests.decode.conftest import opened
from tests.tasks.test_answer import ROOMS, THINGS, train_reader

DOCUMENTS = [
    Document(
        f"{thing}.md", f"# About\n\nHello there. the {thing} is in room {ROOMS[i]}\n\nIt is large.", ((0, "About"),)
    )
    for i, thing in enumerate(THINGS)
] + [Document(f"note{i}.txt", f"Where is the key of the {thing}? Ask at noon.") for i, thing in enumerate(THINGS * 2)]


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return train_reader(tmp_path_factory.mktemp("reader"), 60)


@pytest.fixture(scope="module")
def uri(tmp_path_factory, reader):
    uri = str(tmp_path_factory.mktemp("ask") / "index")
    config = IndexConfig(reader=str(reader), passages=PassageConfig(max_words=12, overlap=0))
    Index.create(uri, config).update(DOCUMENTS)
    return uri


def test_an_answer_has_its_place_in_the_document(uri):
    answerer = Answerer(Index.open(uri))
    texts = {document.source: document.text for document in DOCUMENTS}
    for thing in THINGS:
        result = answerer.ask(f"where is the {thing}", nbest=20)
        assert result.candidates
        for found in result.candidates:
            assert texts[found.source][found.start : found.end] == found.text
            lo, hi = found.sentence
            assert lo <= found.start < found.end <= hi
            assert found.passage.start <= lo < hi <= found.passage.end
        assert result.candidates[0].probability == result.probability
        assert [one.relevance for one in result.passages] == sorted(
            (p.relevance for p in result.passages), reverse=True
        )


def test_more_passages_are_read_only_in_doubt(uri, monkeypatch):
    answerer = Answerer(Index.open(uri))
    counts: list[int] = []
    read = PassageReader.read

    def counting(self, model, inputs):
        counts.append(len(inputs[0][1]))
        return read(self, model, inputs)

    monkeypatch.setattr(PassageReader, "read", counting)
    monkeypatch.setattr("clearhead.search.ask.SURE", 0.0)
    few = answerer.ask("where is the key of the lift")
    assert counts == [FIRST]
    assert len(few.passages) == FIRST
    monkeypatch.setattr("clearhead.search.ask.SURE", 1.1)
    many = answerer.ask("where is the key of the lift")
    assert counts == [FIRST, FIRST, MORE]
    assert len(many.passages) == FIRST + MORE
    assert len({(p.passage.source, p.passage.start) for p in many.passages}) == FIRST + MORE


def test_wrong_input(uri, tmp_path):
    with pytest.raises(ValueError, match="empty"):
        Answerer(Index.open(uri)).ask("  ")
    bare = Index.create(str(tmp_path / "bare"), IndexConfig())
    with pytest.raises(ValueError, match="--reader"):
        Answerer(bare)
    nothing = Answerer(bare, Index.open(uri).config.reader).ask("where is the lift")
    assert nothing.answer is None
    assert nothing.probability == 0.0
    assert nothing.candidates == nothing.passages == ()


def test_ask_command(uri):
    run = CliRunner().invoke(app, ["ask", uri, "where is the lift", "--json"])
    assert run.exit_code == 0, run.output
    result = json.loads(run.stdout)
    assert result["question"] == "where is the lift"
    assert result["candidates"][0]["source"].endswith((".md", ".txt"))
    lines = CliRunner().invoke(app, ["ask", uri, "--why"], input="where is the desk\n\nwhere is the shop\n")
    assert lines.exit_code == 0, lines.output
    assert lines.stdout.count("most relevant first") == 2
    assert "found by words 1" in lines.stdout


def test_the_reader_ranks_what_the_search_found(uri, monkeypatch):
    answerer = Answerer(Index.open(uri))
    query = "where is the key of the lift"
    before = answerer.index.search(query, 12)
    order = {(p.source, p.start): rank for rank, p in enumerate(before)}
    monkeypatch.setattr("clearhead.search.ask.RANKED", 6)
    _, relevance = answerer.read(query, before[:6])
    monkeypatch.setattr(Answerer, "read", lambda self, query, passages: ([], relevance))
    after = answerer.search(query, 12)
    assert {(p.source, p.start) for p in after} == set(order)
    assert [order[p.source, p.start] for p in after[6:]] == list(range(6, 12)), "what was not read stays behind"
    by_reader = sorted(range(6), key=lambda i: -relevance[i])
    scores = {i: 1 / (60 + i + 1) + 1 / (60 + by_reader.index(i) + 1) for i in range(6)}
    assert [order[p.source, p.start] for p in after[:6]] == sorted(scores, key=lambda i: (-scores[i], i))
    run = CliRunner().invoke(app, ["search", uri, query, "--rerank", "--mode", "words"])
    assert run.exit_code == 2 and "--mode" in run.output


def test_reasons_are_the_parts_of_the_score(address):
    index = Index.create(address, IndexConfig(passages=PassageConfig(max_words=12, overlap=0)))
    index.update(DOCUMENTS)
    query = "where is the lift in room 2"
    found = index.search(query, 5, mode="words")
    for result, reasons in zip(found, explain_passages(index, query, found), strict=True):
        assert sum(score for _, score in reasons.words) == pytest.approx(result.score, rel=1e-4)
        assert "the" not in dict(reasons.words) and reasons.tokens == ()
    assert {"lift", "room", "2"} == set(dict(explain_passages(index, query, found[:1])[0].words))


def test_reasons_of_vectors_are_pairs_of_tokens(tmp_path, minilm):
    index = Index.create(str(tmp_path / "index"), IndexConfig(model=str(MINILM)))
    index.update([Document("a.txt", "The coat stays in the cloakroom."), Document("b.txt", "Tea is served at noon.")])
    found = index.search("where is my jacket", 1, mode="vectors")
    reasons = explain_passages(index, "where is my jacket", found)[0]
    assert found[0].source == "a.txt"
    assert ("jacket", "coat") in [pair[:2] for pair in reasons.tokens]
    assert not {"[CLS]", "[SEP]"} & {token for pair in reasons.tokens for token in pair[:2]}


def test_attention_of_an_answer_is_a_page(uri, tmp_path):
    page = tmp_path / "attention.html"
    run = CliRunner().invoke(app, ["ask", uri, "where is the lift", "--attention", str(page)])
    assert run.exit_code == 0, run.output
    assert "lift" in page.read_text() and page.stat().st_size > 10_000


def test_questions_are_translated_before_the_search(uri, tmp_path):
    corpus, folder = tmp_path / "corpus.txt", tmp_path / "translator"
    corpus.write_text("where is the lift in room two\n" * 20)
    save_folder(opened(corpus, "marian"), folder)
    said = load(folder).translate("wo ist der lift").text
    run = CliRunner().invoke(app, ["ask", uri, "wo ist der lift", "--translator", str(folder), "--json"])
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["question"] == said
    shown = CliRunner().invoke(app, ["ask", uri, "wo ist der lift", "--translator", str(folder)])
    assert f"asked: {said}"[:20] in shown.stdout
    assert QuestionTranslator(None)(["as it is"]) == [TranslatedQuestion("as it is", "as it is")]
    (asked,) = QuestionTranslator(str(folder))(["wo ist der lift"])
    assert asked == TranslatedQuestion(said, f"{said} wo ist der lift")
    found = CliRunner().invoke(app, ["search", uri, "wo ist der lift", "--translator", str(folder), "--json"])
    assert "lift" in json.loads(found.stdout)[0]["text"]  # the word that both languages have


def test_mined_rows_have_the_answer_or_none(uri):
    index = Index.open(uri)
    questions = [
        {"question": f"where is the {thing}", "answers": [f"room {ROOMS[i]}"], "context": None}
        for i, thing in enumerate(THINGS)
    ]
    config = PassageMiningConfig(num_negatives=2, depth=10, unanswerable=0.25)
    mined = list(mine_passages(index, questions, config))
    assert [row["question"] for row in mined] == [q["question"] for q in questions]
    assert [row["answer"] == "" for row in mined] == [False, False, False, True] * 2
    for row, question in zip(mined, questions, strict=True):
        (answer,) = question["answers"]
        assert row["answer"] in ("", answer)
        assert row["answer"] in row["context"]
        wrong = [*row["negative"], *([row["context"]] if row["answer"] == "" else [])]
        assert not any(f" {answer} " in f" {text} ".replace("\n", " ") for text in wrong)
    known = {**questions[0], "context": f"Elsewhere it says room {ROOMS[0]}."}
    (row,) = mine_passages(index, [known], PassageMiningConfig(unanswerable=0.0))
    assert row["context"] == known["context"], "a passage of another context is not taken for the known one"


def test_mine_command_reads_an_index(uri, tmp_path):
    table = tmp_path / "questions.csv"
    lines = [f"where is the {thing},room {ROOMS[i]}" for i, thing in enumerate(THINGS)]
    table.write_text("question,answer\n" + "\n".join(lines) + "\n")
    out = tmp_path / "mined.jsonl"
    run = CliRunner().invoke(app, ["mine", uri, str(table), "--out", str(out), "--max-rows", "4"])
    assert run.exit_code == 0, run.output
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["question"].split()[-1] for row in rows] == THINGS[::2]
    assert set(rows[0]) == {"question", "context", "answer", "negative"}
    recipe = CliRunner().invoke(app, ["new", "answer", "--data", str(out), "--out", str(tmp_path / "answer.yaml")])
    assert recipe.exit_code == 0, recipe.output
    assert "negative: negative" in (tmp_path / "answer.yaml").read_text()
    refused = CliRunner().invoke(app, ["new", "answer", "--data", str(table), "--out", str(tmp_path / "no.yaml")])
    assert refused.exit_code == 2
    assert "clearhead mine" in refused.output


def test_every_question_has_a_stage(uri):
    index = Index.open(uri)
    answerer = Answerer(index)
    questions = [{"question": f"where is the {t}", "answers": [f"room {ROOMS[i]}"]} for i, t in enumerate(THINGS)]
    questions += [
        {"question": "where is the lift", "answers": ["room 99"]},
        {"question": "where is the lift", "answers": []},
        {"question": "where is the lift", "answers": ["is"]},
    ]
    evaluation, outcomes = evaluate_index(index, answerer, questions)
    assert sum(stage_counts(outcomes).values()) == len(questions)
    assert outcomes[-3].stage == "not retrieved"
    assert outcomes[-3].rank is None
    assert outcomes[-2].stage in ("right", "answered without evidence")
    assert outcomes[-1].stage in ("not ranked", "not read")
    for outcome in outcomes:
        assert outcome.result is not None
        if outcome.stage == "right" and outcome.expected:
            assert outcome.result.answer is not None
            assert outcome.result.answer.text in outcome.expected
    scores = evaluation.scores()
    right = [o.exact for o in outcomes]
    assert scores["exact"] == pytest.approx(100 * sum(right) / len(right))
    ranks = [o.rank for o in outcomes if o.expected]
    assert scores["recall_5"] == pytest.approx(100 * sum(r is not None and r <= 5 for r in ranks) / len(ranks))
    assert scores["mrr"] == pytest.approx(100 * sum(1 / r for r in ranks if r is not None and r <= 10) / len(ranks))
    words, alone = evaluate_index(index, None, questions)
    assert set(words.scores()) == {"recall_1", "recall_5", "recall_10", "recall_20", "mrr"}
    assert {o.stage for o in alone} <= {"right", "not retrieved"}


def test_the_failure_page_escapes_everything(tmp_path, uri):
    index = Index.create(str(tmp_path / "hostile"), IndexConfig(passages=PassageConfig(max_words=30)))
    text = "the lift is <script>alert(1)</script> in room 3 <img src=x onerror=alert(2)>"
    index.update([Document("<b>name</b>.txt", text)])
    answerer = Answerer(index, Index.open(uri).config.reader)
    questions = [{"question": "where is <i>the</i> lift", "answers": ["<u>no</u>"]}]
    _, outcomes = evaluate_index(index, answerer, questions)
    page = failure_page(outcomes, "<title>")
    body = page.split("</style>")[1]
    for tag in ("<script", "<img", "<b>", "<i>", "<u>", "<title>"):
        assert tag not in body
    assert "&lt;script&gt;" in body
    assert STAGES["not retrieved"] in body


def test_eval_command_of_an_index(uri, tmp_path):
    table = tmp_path / "questions.csv"
    lines = [f"where is the {thing},room {ROOMS[i]}" for i, thing in enumerate(THINGS)]
    table.write_text("question,answer\n" + "\n".join(lines) + "\nwho is it,\n")
    page = tmp_path / "failures.html"
    run = CliRunner().invoke(app, ["eval", uri, str(table), "--json", "--out", str(page)])
    assert run.exit_code == 0, run.output
    result = json.loads(run.stdout.splitlines()[-1])
    assert result["rows"] == len(THINGS) + 1
    assert sum(result["stages"].values()) == result["rows"]
    assert result["intervals"]["exact"][0] <= result["exact"] <= result["intervals"]["exact"][1]
    assert "Questions by stage" in page.read_text()
    shown = CliRunner().invoke(app, ["eval", uri, str(table), "--max-queries", "3"])
    assert shown.exit_code == 0, shown.output
    assert "3 rows" in shown.stdout
    assert "recall_10" in shown.stdout


def test_documents_without_questions_give_pairs(address, tmp_path):
    index = Index.create(address, IndexConfig(passages=PassageConfig(max_words=12, overlap=0)))
    index.update(DOCUMENTS)
    pairs = list(pseudo_pairs(index, keep=0.0))
    texts = [passage.text for passage in index.all_passages()]
    assert len(texts) == len(index)
    sentences = [pair for pair in pairs if pair["anchor"] != "About"]
    assert len(sentences) >= len(THINGS)
    for pair in sentences:
        assert pair["anchor"] not in pair["positive"]
        assert any(pair["anchor"] in text and pair["positive"].split()[0] in text for text in texts)
    assert all(
        pair["anchor"] in pair["positive"] for pair in pseudo_pairs(index, keep=1.0) if pair["anchor"] != "About"
    )
    assert pairs == list(pseudo_pairs(Index.open(address), keep=0.0))
    out = tmp_path / "pairs.jsonl"
    run = CliRunner().invoke(app, ["mine", address, "--out", str(out)])
    assert run.exit_code == 0, run.output
    assert set(json.loads(out.read_text().splitlines()[0])) == {"anchor", "positive"}
    refused = CliRunner().invoke(app, ["mine", str(tmp_path), "--out", str(out)])
    assert refused.exit_code == 2
    assert "index" in refused.output
