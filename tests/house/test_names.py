"""One vocabulary: unique class names, unique module names, plain words, and files and packages of readable size."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "clearhead"
MODULES = sorted(SOURCE.rglob("*.py"))

# Module names that several packages share because they are the same idea at another level.
SAME_IDEA = {
    "page",  # an HTML page with its assets
    "recurrent",  # layers, models and the mapping of their folders
    "translate",  # the task and its search
    "errors",  # the errors of an interface
}

BANNED = re.compile(
    r"\b(nobody|somebody|whoever|told|said|due|mends?|mended|mending|learnt|stands?|goes on|go on|going on)\b",
    re.IGNORECASE,
)
LECTURES = set(ROOT.glob("docs/course/[0-9]-*.md"))  # with the outputs of their sources, which quote plays and captions
PAGES = sorted([
    *ROOT.glob("*.md"), *(set(ROOT.glob("docs/**/*.md")) - LECTURES), *ROOT.glob("docs/course/*.py"),
    *ROOT.glob("recipes/*.yaml"), *ROOT.glob("web/src/**/*.ts"),
])  # fmt: skip


def classes(paths) -> dict[str, list[str]]:
    """The files that define each class name; nested classes aside."""
    found = defaultdict(list)
    for path in paths:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(SOURCE)))
    return found


def repeated_stems(paths) -> dict[str, list[str]]:
    """Module names that occur in several packages without being the same idea; a command is named after what it runs."""
    found = defaultdict(list)
    for path in paths:
        if path.stem not in ("__init__", "__main__", *SAME_IDEA) and path.parent.name != "cli":
            found[path.stem].append(str(path.relative_to(SOURCE)))
    return {stem: where for stem, where in found.items() if len(where) > 1}


def banned(text: str) -> list[str]:
    """The lines that hold a word of the private vocabulary."""
    return [f"{number}: {line.strip()[:100]}" for number, line in enumerate(text.split("\n"), 1) if BANNED.search(line)]


def prose(path: Path) -> str:
    """The strings and comments of a Python file, on their lines."""
    lines: dict[int, str] = defaultdict(str)
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", -1)):
            for offset, line in enumerate(token.string.split("\n")):
                lines[token.start[0] + offset] += " " + line
    return "\n".join(lines.get(n, "") for n in range(1, max(lines, default=0) + 1))


def test_class_names_are_unique():
    assert {name: where for name, where in classes(MODULES).items() if len(where) > 1} == {}


def test_module_names_are_unique():
    assert repeated_stems(MODULES) == {}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_code_is_written_in_plain_words(path):
    assert banned(prose(path)) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_are_written_in_plain_words(path):
    assert banned(path.read_text(encoding="utf-8")) == []


def test_the_checks_can_fail(tmp_path):
    """A second `Labels`, a second `classify.py` and a banned word are each found."""
    second = tmp_path / "classify.py"
    second.write_text('class Labels:\n    """What somebody is told."""\n')
    tree = ast.parse(second.read_text())
    assert next(node.name for node in tree.body if isinstance(node, ast.ClassDef)) in classes(MODULES)
    assert second.stem in {path.stem for path in MODULES}
    assert len(banned(prose(second))) == 1
    assert banned("The label is returned.") == []


def test_files_and_packages_have_a_readable_size():
    sizes = {path: len(path.read_text(encoding="utf-8").split("\n")) for path in MODULES}
    assert {str(path.relative_to(SOURCE)): size for path, size in sizes.items() if size > 401} == {}
    packages = defaultdict(int)
    for path, size in sizes.items():
        packages[path.relative_to(SOURCE).parts[0]] += size
    assert {name: size for name, size in packages.items() if size > 4500} == {}
