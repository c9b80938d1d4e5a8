"""Write the tables of docs/recipe.md from the data classes of a recipe: python docs/recipe_keys.py"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from griffe import Attribute, Class

sys.path.insert(0, str(Path(__file__).parent))
from python_api import cell, default_of, fields_of, package, text_of  # a neighbor, which reads the source

TARGET = Path(__file__).with_name("recipe.md")
MARKER = re.compile(r"(?<=^<!-- keys of )([\w.]+)(?:, as (\w+)\.)?( -->\n)\n*(?:\|.*\n)*", re.M)
WORDS = {"int": "integer", "float": "number", "bool": "true or false", "str": "text"}


def choices(field: Attribute) -> str:
    """The type of a key: the values that it may have, or the name of its type."""
    annotation = str(field.annotation)
    if annotation in ("Part", "Part | None"):
        return "a source"
    if annotation in field.module.members and isinstance(named := field.module.members[annotation], Attribute):
        annotation = str(named.value)  # a type with a name
    if listed := re.search(r"Literal\[(.*?)\]", annotation):
        return ", ".join(f"`{value.strip()}`" for value in listed[1].replace("'", "").replace('"', "").split(","))
    if "Config" in annotation or annotation == "Augmentation":
        return "a section"
    if annotation.startswith(("tuple", "list")):
        return "list"
    return "mapping" if annotation.startswith("dict") else WORDS[annotation.removesuffix(" | None")]


def shown_default(field: Attribute) -> str:
    if field.value is None:
        return "required"
    value = default_of(field, str(field.value))
    if value.startswith("field("):
        return "its defaults" if "Config" in value else "empty"
    if value in ("None", "()"):
        return "none"
    if value.startswith("("):
        value = str(list(ast.literal_eval(value)))
    return f"`{value.strip(chr(34)).replace('True', 'true').replace('False', 'false')}`"


def table(path: str, prefix: str = "") -> str:
    """The keys of a data class with their types, defaults and meanings."""
    found = package()[path]
    assert isinstance(found, Class)
    rows = ["| key | values | default | meaning |", "|---|---|---|---|"]
    for field in fields_of(found):
        meaning, _, absent = cell(text_of(field)).partition("; None: ")
        rows.append(f"| `{prefix}{field.name}` | {choices(field)} | {absent or shown_default(field)} | {meaning} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """The page, with every table written anew."""

    def replace(match: re.Match[str]) -> str:
        prefix = f"{match[2]}." if match[2] else ""
        return match[0].partition("-->\n")[0] + "-->\n\n" + table(match[1], prefix)

    return MARKER.sub(replace, TARGET.read_text(encoding="utf-8"))


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
