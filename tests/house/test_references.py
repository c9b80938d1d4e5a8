"""The reference pages agree with the source: names, commands, recipe keys, HTTP routes, extras, kernels, navigation."""

from __future__ import annotations

import importlib
import os
import re
import sys
import tomllib
from itertools import zip_longest
from pathlib import Path

import pytest
import yaml

from clearhead.attention import KERNELS
from clearhead.tasks import TASKS
from clearhead.train import recipe
from clearhead.train.init_model import BASE_MODEL_KEYS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture
def generator(monkeypatch):
    """A module of docs/ that writes a page; what it imports and this process knows are the same source."""
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    return importlib.import_module


def section(page: str, heading: str) -> str:
    text = (DOCS / page).read_text(encoding="utf-8")
    return text.split(heading + "\n", 1)[1].split("\n## ", 1)[0]


def rows(text: str) -> dict[str, str]:
    """The tables of a text: each code in the first cell, with the second cell."""
    cells = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {name: row[1].strip(" |`") for row in cells for name in re.findall(r"`([^`]+)`", row[0])}


def differences(written: str, page: Path) -> list[str]:
    """The first lines of a committed page that the source would write in another way."""
    committed = page.read_text(encoding="utf-8").splitlines() if page.exists() else []
    pairs = zip_longest(committed, written.splitlines(), fillvalue="")
    found = [f"{page.name}:{number}: {old!r} -> {new!r}" for number, (old, new) in enumerate(pairs, 1) if old != new]
    return found[:3]


def test_reference_of_the_packages_is_current(generator):
    """`make reference` writes it."""
    written = generator("python_api").pages()
    assert {path.name for path in (DOCS / "reference").iterdir()} == written.keys()
    assert [line for name, text in written.items() for line in differences(text, DOCS / "reference" / name)] == []


def test_every_public_name_has_a_docstring_and_an_entry(generator):
    api = generator("python_api")
    assert api.undocumented() == []
    for module, names in api.public_packages().items():
        place = importlib.import_module(".".join(filter(None, ("clearhead", module))))
        page = (DOCS / "reference" / api.page_name(module)).read_text(encoding="utf-8")
        if module not in api.ADAPTERS:
            assert sorted(names) == sorted(place.__all__)
        assert [name for name in names if f"| [`{name}`](" not in page] == []
        assert [name for name in names if not hasattr(place, name)] == []
    packages = {path.parent.name for path in (ROOT / "src" / "clearhead").glob("*/__init__.py")}
    listed = {p for p in packages if getattr(importlib.import_module(f"clearhead.{p}"), "__all__", None)}
    assert listed - {"cli", "studies"} <= api.public_packages().keys()


def test_command_reference_is_current(generator):
    """`make reference` writes it."""
    assert differences(generator("command_line").reference(), DOCS / "cli.md") == []


def test_recipe_keys_are_current(generator):
    """`make reference` writes them; every section of a recipe is on the page, and every key has a meaning."""
    assert differences(generator("recipe_keys").page(), DOCS / "recipe.md") == []
    text = (DOCS / "recipe.md").read_text(encoding="utf-8")
    for kind in (*recipe._SECTIONS, recipe.ParallelConfig, recipe.Recipe):
        assert re.search(rf"^<!-- keys of [\w.]+\.{kind.__name__}\b", text, re.M), f"no table of {kind.__name__}"
    generated = re.split(r"^<!-- keys of .*$", text, flags=re.M)[1:]
    keys = [line for part in generated for line in part.split("\n\n")[1].splitlines()[2:]]
    assert len(keys) > 60
    assert [line for line in keys if line.split(" | ")[-1].strip(" |") == ""] == []


def test_http_reference_is_current(generator):
    """`make reference` writes it; every route and every field of a request is described."""
    http = generator("http_api")
    text = (DOCS / "http.md").read_text(encoding="utf-8")
    assert differences(http.page(), DOCS / "http.md") == []
    for api in http.descriptions().values():
        assert [path for method, path in http.routes(api) if f"#### {method} {path}\n" not in text] == []
    assert [line for line in text.splitlines() if line.startswith("| `") and line.endswith("|  |")] == []


def test_recipe_page_lists_tasks_and_base_model_keys():
    assert set(re.findall(r"`(\w+)`", section("recipe.md", "## Top level"))) >= set(TASKS) - {"embed"}
    assert set(BASE_MODEL_KEYS) <= rows(section("recipe.md", "## `model`")).keys()


def test_install_page_lists_every_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert rows(section("install.md", "## Extras")).keys() == project["optional-dependencies"].keys()


def test_glossary_lists_every_kernel():
    assert rows(section("glossary.md", "## Kernels")).keys() == {*KERNELS, "auto"}


def pages_of(entry) -> list[str]:
    """The pages of an entry of the navigation, in order."""
    if isinstance(entry, str):
        return [entry]
    inner = entry.values() if isinstance(entry, dict) else entry
    return [page for each in inner for page in pages_of(each)]


def test_every_page_is_in_the_navigation():
    """A page is in one section, and linked from the first page of its section; Home links to these."""
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert sorted(pages_of(nav)) == sorted(str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md"))
    home = (DOCS / "index.md").read_text(encoding="utf-8")
    for section in nav:
        first, *others = pages_of(section)
        text = (DOCS / first).read_text(encoding="utf-8")
        targets = {os.path.normpath(Path(first).parent / target) for target in re.findall(r"\]\(([^)#\s]+)", text)}
        assert set(others) - targets == set(), f"{first} does not link to these"
        assert first == "index.md" or f"]({first})" in home


def test_gallery_shows_every_picture_with_its_command():
    """A picture of docs/pictures is in the gallery, which has a command for each; files that no page shows do not stay."""
    gallery = (DOCS / "gallery.md").read_text(encoding="utf-8")
    entries = re.findall(r"\]\(pictures/([\w.-]+)\)\n\n[^\n]+\n\n`[^`]+`\n", gallery)
    assert len(entries) == gallery.count("[![") > 20
    pages = "".join(path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *DOCS.glob("*.md")])
    shown = set(re.findall(r"pictures/([\w-]+\.(?:png|svg|gif))", pages))
    kept = {path.name for path in (DOCS / "pictures").iterdir() if path.suffix in (".png", ".svg", ".gif")}
    assert kept == shown
