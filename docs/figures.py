"""Check the measured figures of README and docs against the records: python docs/figures.py [PAGE ...]

A block of a page (a paragraph, a list item or a row of a table) that shows measured figures names their values in a
comment: `<!-- sst2: accuracy, intervals.accuracy, seconds / 60 -->` for docs/results/sst2.json, `speed/encode` for
docs/results/speed/encode.json. A value is a path of keys (numbers are places in a list, `*` ends the first part of a
long key), or a few of them with numbers, joined by `*`, `/`, `+` and `-` with spaces around, or `mean`, `half` (of a
95 % interval by Student's t), `max` or `min` of one in parentheses. A list stands for all its numbers. Then every figure of the block has to be one of these values, rounded to the digits shown, and every value has
to be in the block. What is no measurement is in docs/figures.toml, each with its reason.

`--suggest` prints the values of a record that each unexplained figure could be.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
RECORDS = DOCS / "results"
TIE = re.compile(r"<!-- ([\w/]+: .*?) -->", re.S)
NUMBER = re.compile(r"(?<![\w.,@#^/:-])[-−]?\d[\d,]*(?:\.\d+)*(?:e[-−]?\d+)?(?![\w]*\d)(?!\w*[-_]\w)")
UNIT = re.compile(
    r"\s?%|\s?(?:ms|µs|dB|minutes?|hours?|points)\b|x\b|\s?×(?!\s?\d)|\stimes\s(?:as|faster|slower|more|less)\b"
    r"|\s(?:\w+\sand\s\w+\s)?\w+\s(?:per|a)\ssecond\b|\s?\w+/s\b"
)


@dataclass(frozen=True)
class Figure:
    """A number of a block as it is written, and whether it has the form of a measurement."""

    text: str
    value: float
    step: float  # of its last digit
    measured: bool

    def shows(self, value: float) -> bool:
        """Whether the number is this value, rounded."""
        return abs(value - self.value) <= self.step * (0.5 + 1e-6)


@dataclass(frozen=True)
class Block:
    """A paragraph, a list item or a row of a table, with the line where it starts."""

    page: str
    line: int
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page that may show figures; code, headings and generated tables are none."""
    text = page.read_text(encoding="utf-8")
    for pattern in (r"^( *)```.*?^\1```", r"<!-- figures: begin.*?<!-- figures: end -->", r"^#.*?$"):
        text = re.sub(pattern, lambda found: "\n" * found[0].count("\n"), text, flags=re.S | re.M)
    name, start, lines = page.relative_to(ROOT).as_posix(), 0, list[str]()
    for number, line in enumerate([*text.split("\n"), ""], 1):
        alone = line.startswith("|") or re.match(r"\s*(?:[-*]|\d+\.) ", line)
        if lines and (not line.strip() or alone):
            yield Block(name, start, "\n".join(lines))
            lines = []
        if line.strip():
            start = start if lines else number
            lines.append(line)
        if line.startswith("|"):
            yield Block(name, start, line)
            lines = []


def figures(text: str) -> list[Figure]:
    """The numbers of a block outside code, links and comments."""
    for pattern in (r"<!--.*?-->", r"!\[[^\]]*\]\([^)]*\)", r"`[^`]*`", r"(?<=\])\([^)]*\)", r"\$[^$\n]*\$"):
        text = re.sub(pattern, " ", text, flags=re.S)
    found = []
    for match in NUMBER.finditer(text):
        written = match[0].rstrip(",")
        digits = written.replace(",", "").replace("−", "-")
        if digits.count(".") > 1:  # a version
            continue
        mantissa, _, exponent = digits.partition("e")
        decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
        following = text[match.start() + len(written) :]
        counts = re.match(r"\s(?:[kMGT]|million|billion)\b(?!\w*/)", following) is not None  # of parameters, of tokens
        measured = ("." in mantissa and not exponent and not counts) or UNIT.match(following) is not None
        found.append(Figure(written, float(digits), 10.0**-decimals, measured))
    return found


@cache
def record(name: str) -> Any:
    path = RECORDS / f"{name}.json"
    if not path.exists():
        raise ValueError(f"there is no record {path.relative_to(ROOT)}")
    return json.loads(path.read_text(encoding="utf-8"))


def lookup(value: Any, path: str) -> Any:
    """The value at a path of keys in a record; keys may contain dots."""
    if not path:
        return value
    if isinstance(value, list):
        first, _, rest = path.partition(".")
        if first.isdigit() and int(first) < len(value):
            return lookup(value[int(first)], rest)
    elif isinstance(value, dict):
        for key in value:
            if path == key or path.startswith(f"{key}."):
                return lookup(value[key], path[len(key) + 1 :])
        first, _, rest = path.partition("*")
        if (found := [key for key in value if key.startswith(first)]) and "*" in path and len(found) == 1:
            return lookup(value[found[0]], rest.removeprefix("."))
    raise ValueError(f"has no {path!r}")


T95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}  # two-sided quantile of Student's t by number of values
FUNCTIONS = {
    "mean": statistics.fmean,
    "half": lambda values: T95[len(values)] * statistics.stdev(values) / math.sqrt(len(values)),  # of a 95 % interval
    "max": max,
    "min": min,
}
OPERATORS = {"*": float.__mul__, "/": float.__truediv__, "+": float.__add__, "-": float.__sub__}


def evaluate(name: str, expression: str) -> list[float]:
    """The numbers that an expression of a tie stands for: operations on lists go number by number."""
    expression = expression.strip()
    called = re.fullmatch(rf"({'|'.join(FUNCTIONS)})\((.*)\)", expression)
    try:
        if called:
            return [float(FUNCTIONS[called[1]](evaluate(name, called[2])))]
        parts = re.split(r"\s+([*/+-])\s+(?![^(]*\))", expression)
        if len(parts) > 1:
            values = evaluate(name, parts[0])
            for operator, word in zip(parts[1::2], parts[2::2], strict=True):
                others = evaluate(name, word)
                others = others * len(values) if len(others) == 1 else others
                values = [OPERATORS[operator](one, other) for one, other in zip(values, others, strict=True)]
            return values
        if re.fullmatch(r"\d+(\.\d+)?", expression):
            return [float(expression)]
        value = lookup(record(name), expression)
        return [float(one) for one in value] if isinstance(value, list) else [float(value)]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"docs/results/{name}.json, {expression!r}: {error}") from None


def ties(text: str) -> list[tuple[str, float]]:
    """The values that a block names: how each is written in its comment, and its number."""
    named = []
    for comment in TIE.findall(text):
        for part in comment.split(";"):
            name, _, expressions = part.partition(":")
            for expression in expressions.split(","):
                values = evaluate(name.strip(), expression)
                named += [(f"{name.strip()}: {expression.strip()}", value) for value in values]
    return named


@cache
def exceptions() -> dict[str, Any]:
    return tomllib.loads((DOCS / "figures.toml").read_text(encoding="utf-8"))


def without_exceptions(block: Block) -> str:
    """The text of a block without the phrases that are no measurements."""
    text = block.text
    for phrase in exceptions()["phrase"]:
        if phrase.get("page", block.page) == block.page:
            text = re.sub(phrase["text"], " ", text)
    return text


def problems_of(block: Block) -> list[str]:
    """What is wrong with the figures of a block."""
    where = f"{block.page}:{block.line}"
    try:
        named = ties(block.text)
    except ValueError as error:
        return [f"{where}: {error}"]
    numbers = figures(block.text)
    found = [
        f"{where}: {key} is {value:.6g}, which the block does not show"
        for key, value in named
        if not any(number.shows(value) for number in numbers)
    ]
    return found + [
        f"{where}: no record holds {number.text!r}: name its value in a comment, see docs/figures.py"
        for number in figures(without_exceptions(block))
        if number.measured and not any(number.shows(value) for _, value in named)
    ]


def pages() -> list[Path]:
    """README and the pages of docs, without those that docs/figures.toml leaves out."""
    every = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    left_out = exceptions()["page"]
    return [page for page in every if not any(page.match(name) for name in left_out)]


def problems(page: Path) -> list[str]:
    return [problem for block in blocks(page) for problem in problems_of(block)]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """All numbers of a record with their paths; training curves and recipes last."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in items:
            if key not in ("recipe", "versions"):
                yield from leaves(one, f"{path}.{key}" if path else str(key))
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        yield path, float(value)


def suggest(page: Path, name: str) -> None:
    """Print the values of a record that each unexplained figure of a page could be."""
    scales = {"": 1.0, " * 100": 100.0, " / 60": 1 / 60, " / 3600": 1 / 3600, " * 1000": 1000.0, " / 1000000": 1e-6}
    known = list(leaves(record(name)))
    for block in blocks(page):
        for number in figures(without_exceptions(block)):
            if number.measured and not any(number.shows(value) for _, value in ties(block.text)):
                could = [f"{p}{s}" for s, f in scales.items() for p, v in known if number.shows(v * f)]
                print(f"{block.page}:{block.line}: {number.text}: {', '.join(could[:6])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, help="default: README and docs")
    parser.add_argument("--suggest", metavar="RECORD", help="print what the figures could be, from this record")
    given = parser.parse_args()
    chosen = [page.resolve() for page in given.pages] or pages()
    if given.suggest:
        for page in chosen:
            suggest(page, given.suggest)
        return
    found = [problem for page in chosen for problem in problems(page)]
    print("\n".join(found) or "every figure is in a record")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
