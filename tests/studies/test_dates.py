import random
import re
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.studies.dates import FIRST, FORMATS, JOINTS, LAST, MAX_DATES, pair, pairs, split, write_pairs

NAMES = [date(2000, month, 1).strftime("%B") for month in range(1, 13)]
DAYS = st.dates(FIRST, LAST)


def read_by_a_person(words: str) -> date:
    """What a reader who knows the rules makes of one date, without a look at how it was written."""
    numbers = [int(n) for n in re.findall(r"\d+", words)]
    if "/" in words:
        month, day, year = numbers
    elif "." in words:
        day, month, year = numbers
    else:
        (month,) = (place + 1 for place, name in enumerate(NAMES) if name in words)
        day, year = numbers if numbers[0] <= 31 and len(re.findall(r"\d+", words)[0]) < 4 else numbers[::-1]
    return date(year + (0 if year > 99 else 1900 if year >= 70 else 2000), month, day)


@pytest.mark.parametrize("name", FORMATS)
@given(day=DAYS)
def test_every_format_says_its_day(name, day):
    words = FORMATS[name](day)
    assert read_by_a_person(words) == day
    assert "day" not in words or day.strftime("%A") in words
    endings = re.findall(r"(\d+)(st|nd|rd|th)", words)
    assert all(f"{n}{end}" in "1st 2nd 3rd 21st 22nd 23rd 31st" or end == "th" for n, end in endings)
    assert all(end != "th" or int(n) not in (1, 2, 3, 21, 22, 23, 31) for n, end in endings)


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_named_by_what_it_makes_of_one_day(name):
    assert FORMATS[name](date(1998, 5, 3)) == name


@given(days=st.lists(DAYS, min_size=1, max_size=MAX_DATES), seed=st.integers(0, 2**32))
def test_the_answer_has_every_day_in_order(days, seed):
    made = pair(days, random.Random(seed))
    assert [date.fromisoformat(word) for word in made.target.split(" ")] == days
    assert made.num_dates == len(days)
    rest = made.source
    for place, day in enumerate(days):  # the source is one of the ways to write each, with a joint between
        forms = {write(day) for write in FORMATS.values()}
        starts = [joint + form for joint in (JOINTS if place else ("",)) for form in forms]
        rest = rest.removeprefix(max((start for start in starts if rest.startswith(start)), key=len))
    assert rest == ""


@settings(max_examples=10)
@given(seed=st.integers(0, 1000))
def test_every_day_is_in_one_part_alone(seed):
    parts = split(seed)
    days = [day for part in parts.values() for day in part]
    assert len(days) == len(set(days)) == (LAST - FIRST).days + 1
    assert {name: len(part) for name, part in parts.items() if name != "train"} == {"valid": 1000, "test": 2000}


def test_no_day_of_one_part_is_in_the_pairs_of_another():
    seen = [{day for made in pairs(days, 300, seed=4) for day in made.target.split()} for days in split(4).values()]
    assert all(seen)
    assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])


def test_pairs_follow_from_the_seed_and_have_every_length():
    days = split(1)["train"]
    assert pairs(days, 20, 1) == pairs(days, 20, 1) != pairs(days, 20, 2)
    assert [made.num_dates for made in pairs(days, 20, 1)] == [1, 2, 3, 4, 5] * 4


def test_a_table_of_pairs(tmp_path):
    made = pairs(split(1)["train"], 7, 1)
    write_pairs(made, tmp_path / "pairs.tsv")
    lines = (tmp_path / "pairs.tsv").read_text().splitlines()
    write_pairs(made, tmp_path / "pairs.tsv")  # the same again is no fault
    with pytest.raises(ValueError, match="holds pairs of another seed or size"):
        write_pairs(made[1:], tmp_path / "pairs.tsv")
    assert lines == ["source\ttarget", *(f"{one.source}\t{one.target}" for one in made)]
