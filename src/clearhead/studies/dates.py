"""Written dates and ISO 8601: a synthetic translation task that small models learn in a minute."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from clearhead.files import write_atomic

FIRST, LAST = date(1970, 1, 1), date(2029, 12, 31)
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
JOINTS = (", ", "; ", " and ", ", then ", " and also ")
MAX_DATES = 5  # in one source
PARTS = {"valid": 1000, "test": 2000}  # days that are not in the training data


def _ordinal(day: int) -> str:
    last = "th" if day // 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{last}"


def _month(d: date) -> str:
    return MONTHS[d.month - 1]


def _weekday(d: date) -> str:
    return WEEKDAYS[d.weekday()]


def _short(d: date) -> str:
    return f"{d.year % 100:02d}"  # years are 1970 to 2029


FORMATS: dict[str, Callable[[date], str]] = {
    "3 May 1998": lambda d: f"{d.day} {_month(d)} {d.year}",
    "May 3, 1998": lambda d: f"{_month(d)} {d.day}, {d.year}",
    "3 May '98": lambda d: f"{d.day} {_month(d)} '{_short(d)}",
    "3.5.98": lambda d: f"{d.day}.{d.month}.{_short(d)}",
    "03.05.1998": lambda d: f"{d.day:02d}.{d.month:02d}.{d.year}",
    "5/3/1998": lambda d: f"{d.month}/{d.day}/{d.year}",
    "1998, May 3": lambda d: f"{d.year}, {_month(d)} {d.day}",
    "the 3rd of May 1998": lambda d: f"the {_ordinal(d.day)} of {_month(d)} {d.year}",
    "Sunday, May 3 1998": lambda d: f"{_weekday(d)}, {_month(d)} {d.day} {d.year}",
    "Sunday the 3rd of May, 1998": lambda d: f"{_weekday(d)} the {_ordinal(d.day)} of {_month(d)}, {d.year}",
    "in 1998 on the 3rd of May": lambda d: f"in {d.year} on the {_ordinal(d.day)} of {_month(d)}",
    "on a Sunday, the 3rd of May in the year 1998": (
        lambda d: f"on a {_weekday(d)}, the {_ordinal(d.day)} of {_month(d)} in the year {d.year}"
    ),
}
"""Date formats by their form of 3 May 1998: with dots the day comes first, with slashes the month."""


@dataclass(frozen=True)
class DatePair:
    """One or more written dates, and the same dates in ISO 8601."""

    source: str
    target: str
    num_dates: int


def split(seed: int) -> dict[str, list[date]]:
    """Split the days from FIRST to LAST into train, valid and test."""
    days = [FIRST + timedelta(n) for n in range((LAST - FIRST).days + 1)]
    random.Random(f"days {seed}").shuffle(days)
    parts: dict[str, list[date]] = {}
    for name, size in PARTS.items():
        parts[name], days = days[:size], days[size:]
    return {"train": days, **parts}


def pair(days: Sequence[date], rng: random.Random) -> DatePair:
    """Return a pair of these days, each in a random format."""
    words = ""
    for i, day in enumerate(days):
        words += (rng.choice(JOINTS) if i else "") + rng.choice(list(FORMATS.values()))(day)
    return DatePair(words, " ".join(day.isoformat() for day in days), len(days))


def pairs(days: Sequence[date], count: int, seed: int) -> list[DatePair]:
    """Return `count` pairs of these days, with 1 to MAX_DATES dates in equal numbers."""
    rng = random.Random(f"pairs {seed}")
    return [pair(rng.sample(days, 1 + i % MAX_DATES), rng) for i in range(count)]


def write_pairs(date_pairs: Sequence[DatePair], path: Path) -> None:
    """Write a TSV table with columns source and target; an existing file must have the same content."""
    table = "source\ttarget\n" + "".join(f"{p.source}\t{p.target}\n" for p in date_pairs)
    if not path.exists():
        write_atomic(path, table)
    elif path.read_text(encoding="utf-8") != table:
        raise ValueError(f"{path} holds pairs of another seed or size: choose another folder")
