"""The reference pages agree with the code: commands, recipe keys with their defaults, extras, kernels, navigation."""

from __future__ import annotations

import re
import runpy
import tomllib
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
import yaml

from clearhead.attention import KERNELS
from clearhead.tasks import TASKS
from clearhead.train.init_model import BASE_MODEL_KEYS
from clearhead.train.recipe import (
    DataConfig,
    OptimizerConfig,
    ScheduleConfig,
    TokenizerConfig,
    TrainConfig,
)
from clearhead.train.text_augmentation import TextAugmentConfig
from clearhead.vision import AugmentConfig

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SECTIONS = {
    "## `data`": DataConfig, "## `tokenizer`": TokenizerConfig, "## `train`": TrainConfig,
    "## `train.optimizer`": OptimizerConfig, "## `train.schedule`": ScheduleConfig, "## `data.augment`": AugmentConfig,
    "## `data.augment` of texts": TextAugmentConfig,
}  # fmt: skip


def section(page: str, heading: str) -> str:
    text = (DOCS / page).read_text(encoding="utf-8")
    return text.split(heading + "\n", 1)[1].split("\n## ", 1)[0]


def rows(text: str) -> dict[str, str]:
    """The tables of a text: each code in the first cell, with the second cell."""
    cells = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {name: row[1].strip(" |`") for row in cells for name in re.findall(r"`([^`]+)`", row[0])}


def test_command_reference_is_current():
    """`python docs/command_line.py` writes it."""
    written = runpy.run_path(str(DOCS / "command_line.py"))["reference"]()
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == written


@pytest.mark.parametrize("heading", SECTIONS)
def test_recipe_page_lists_every_key_with_its_default(heading):
    listed, known = rows(section("recipe.md", heading)), {f.name: f for f in fields(SECTIONS[heading])}
    assert listed.keys() == known.keys() | ({"group"} & listed.keys())
    for name, field in known.items():
        value = field.default
        if value is MISSING or value is None or isinstance(value, bool):
            continue
        shown = list(value) if isinstance(value, tuple) else value
        assert listed[name] == str(shown), f"{heading} {name}: {shown}"


def test_recipe_page_lists_tasks_and_base_model_keys():
    assert set(re.findall(r"`(\w+)`", section("recipe.md", "## Top level"))) >= set(TASKS) - {"embed"}
    assert set(BASE_MODEL_KEYS) <= rows(section("recipe.md", "## `model`")).keys()


def test_install_page_lists_every_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert rows(section("install.md", "## Extras")).keys() == project["optional-dependencies"].keys()


def test_glossary_lists_every_kernel():
    assert rows(section("glossary.md", "## Kernels")).keys() == {*KERNELS, "auto"}


def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = yaml.safe_load(text)["nav"]
    named = [page for part in nav for pages in part.values() for entry in pages for page in entry.values()]
    assert sorted(named) == sorted(str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md"))
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert all(f"]({page})" in index for page in named if page != "index.md")
