"""The measured figures of README and docs: every one is in a record, and the pages of speed are those of the records."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


figures = load("figures")
speed_page = load("speed_page")
audits_page = load("audits_page")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a record and no exceptions, in place of the repository."""
    (tmp_path / "results" / "speed").mkdir(parents=True)
    record: dict[str, Any] = {
        "bleu": 39.84,
        "seconds": 2820.0,
        "intervals": {"bleu": [38.3, 41.2]},
        "runs": [50.2, 52.1, 51.0],
    }
    (tmp_path / "results" / "example.json").write_text(json.dumps({**record, "with 0.6": {"bleu": 40.06}}))
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "RECORDS", tmp_path / "results")
    monkeypatch.setattr(figures, "exceptions", lambda: {"page": {}, "phrase": []})
    figures.record.cache_clear()
    yield tmp_path
    figures.record.cache_clear()


def problems(clone: Path, text: str) -> list[str]:
    page = clone / "page.md"
    page.write_text(text, encoding="utf-8")
    return figures.problems(page)


@pytest.mark.parametrize("page", figures.pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_measured_figure_is_in_a_record(page):
    assert not figures.problems(page), "see docs/figures.py"


PAGES = [ROOT / "README.md", *(ROOT / "docs" / name for name in ("results.md", "studies.md", "search.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_changed_digit_is_found(page, tmp_path, monkeypatch):
    """Each figure that a record explains is changed in turn, in its last digit: the check fails every time."""
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    name = page.relative_to(ROOT).as_posix()
    copy = tmp_path / name
    copy.parent.mkdir(exist_ok=True)
    changed = 0
    for block in [b for b in blocks_of(page) if figures.TIE.search(b.text)][::7]:
        shown = figures.figures(block.text)
        for key, value in figures.ties(block.text)[:2]:
            number = next(one for one in shown if one.shows(value))
            last = str((int(number.text[-1]) + 5) % 10)  # far from a rounding, and seldom another value of the block
            before, mark, comment = block.text.partition("<!--")
            wrong = before.replace(number.text, number.text[:-1] + last) + mark + comment
            copy.write_text(wrong, encoding="utf-8")
            assert figures.problems(copy), f"{name}:{block.line}: {key} may be {number.text[:-1]}{last}"
            changed += 1
    assert changed


def blocks_of(page: Path) -> list[Any]:
    root, figures.ROOT = figures.ROOT, ROOT
    try:
        return list(figures.blocks(page))
    finally:
        figures.ROOT = root


@pytest.mark.parametrize(
    "text",
    [
        "BLEU is 39.8. <!-- example: bleu -->",
        "BLEU is 39.84 (38.3 to 41.2). <!-- example: bleu, intervals.bleu -->",
        "| Transformer | 47 minutes | **39.8** <!-- example: seconds / 60, bleu --> |",
        "It rose by 0.2 to 40.1. <!-- example: with 0.6.bleu - bleu, with*.bleu -->",
        "A mean of 51.1 ± 2.4. <!-- example: mean(runs), half(runs) -->",
        "Version 5.22.2 has 7.6 M parameters; see `lr=0.5`, [page](a-1.5.md) and 12 layers.",
        "```text\nBLEU 39.9\n```",
    ],
)
def test_explained_figures_and_other_numbers_pass(text, clone):
    assert not problems(clone, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BLEU is 39.9. <!-- example: bleu -->", "bleu is 39.84, which the block does not show"),
        ("BLEU is 39.9 and 39.8. <!-- example: bleu -->", "no record holds '39.9'"),
        ("BLEU is 39.8.", "no record holds '39.8'"),
        ("2.6x as fast", "no record holds '2.6'"),
        ("14 times as fast", "no record holds '14'"),
        ("1,011 tokens a second", "no record holds '1,011'"),
        ("A row takes 8 ms.", "no record holds '8'"),
        ("It is right for 77 % of them.", "no record holds '77'"),
        ("| sorted | 1.7 |", "no record holds '1.7'"),
        ("BLEU is 39.8. <!-- example: blue -->", "has no 'blue'"),
        ("BLEU is 39.8. <!-- missing: bleu -->", "there is no record results/missing.json"),
        ("BLEU is 39.8, on one page.\n\n<!-- example: bleu -->", "no record holds '39.8'"),
    ],
)
def test_figures_that_no_record_holds_are_found(text, message, clone):
    assert any(message in problem for problem in problems(clone, text))


def test_every_exception_is_used_and_says_why():
    every = "\n".join(path.read_text(encoding="utf-8") for path in figures.pages())
    for name, reason in figures.exceptions()["page"].items():
        assert len(reason.split()) > 3
        assert list((ROOT / "docs").glob(name)), f"no page {name}"
    for phrase in figures.exceptions()["phrase"]:
        assert phrase["reason"]
        text = (ROOT / phrase["page"]).read_text(encoding="utf-8") if "page" in phrase else every
        assert re.search(phrase["text"], text), f"{phrase['text']!r} is nowhere: remove the exception"


RUN = {
    "command": "python benchmarks/look.py --full", "date": "2026-11-19", "threads": 2, "dtypes": {"all sides": "float32"},
    "machine": {"cpu": "A CPU", "cores": 2, "load_before": 0.1}, "versions": {"python": "3.11.7", "torch": "2.13.0"},
    "texts": ["random numbers"], "rounds": {"row": {"unit": "s", "sides": {"row": [0.002, 0.001]}}},
    "result": {"overhead": 1.01, "row_ms_32k": 0.52, "vs_eager_4k": {"time": 0.3, "memory": 0.055}},
}  # fmt: skip


def test_tables_have_a_column_for_each_kind_of_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(speed_page, "RECORDS", tmp_path)
    slow = {**RUN, "result": {"overhead": 1.07, "row_ms_32k": 8.0}}
    (tmp_path / "look.json").write_text(json.dumps({"runs": {"avx512": slow, "amx": RUN}}))
    page = speed_page.page()
    assert "| | with AMX | AVX-512, no bfloat16 units |" in page
    assert "| one exact row of a head over 32,768 keys, ms | 0.52 | 8.00 |" in page
    assert "| the same: peak memory | 0.06 | – |" in page
    assert "- with AMX: `python benchmarks/look.py --full`, 2026-11-19, A CPU, 2 threads of 2 cores" in page
    assert "There is no record yet: `python benchmarks/train.py --full --record` writes it." in page
    text = "A.\n<!-- figures: begin look row vs_eager -->\nold\n<!-- figures: end -->\nB."
    filled = speed_page.filled(text)
    assert "old" not in filled and "overhead" not in filled
    assert "| 0.52 | 8.00 |" in filled
    assert speed_page.filled(filled) == filled


def test_the_pages_of_speed_are_those_of_the_records():
    """`python docs/speed_page.py` writes them."""
    assert (ROOT / "docs" / "speed.md").read_text(encoding="utf-8") == speed_page.page()
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        assert speed_page.filled(text) == text, f"{path.name}: run python docs/speed_page.py"


def test_sections_of_speed_are_benchmarks_with_records():
    for section in speed_page.SECTIONS:
        assert "Benchmark(__file__" in (ROOT / "benchmarks" / f"{section.name}.py").read_text(encoding="utf-8")


def test_the_page_of_audits_is_that_of_the_records(tmp_path, monkeypatch):
    """`python docs/audits_page.py` writes it; another value in a record is another page."""
    page = (ROOT / "docs" / "audits.md").read_text(encoding="utf-8")
    assert page == audits_page.page()
    assert page.count("\n## ") == len(audits_page.MODELS), "python docs/audits_page.py --commands"
    record = json.loads(audits_page.MODELS[0].record.read_text(encoding="utf-8"))
    record["audit"]["suites"][0]["estimates"][0]["value"] += 1
    assert audits_page.section(audits_page.MODELS[0], record) not in page


@pytest.mark.parametrize("model", audits_page.MODELS, ids=lambda model: model.name)
def test_records_of_audits_hold_no_text_of_a_suite(model):
    audit = json.loads(model.record.read_text(encoding="utf-8"))["audit"]
    assert all("examples" not in suite for suite in audit["suites"])
    assert not audit["heads"] or "pairs" not in audit["heads"]


def test_recipes_of_audits_exist():
    for model in audits_page.MODELS:
        assert (ROOT / "recipes" / f"{model.recipe}.yaml").exists()
