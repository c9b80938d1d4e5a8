"""Terms of groups: exchanged grammatically, twice back to the same text, and skipped where grammar leaves it open."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data.group_terms import SwappedText, categories, category_of, exchangeable, named_groups, swap
from clearhead.data.pronoun_case import pronoun_case

PAIRS = [
    (category.groups[0], second) for category in categories().values() if category.terms or category.names
    for second in category.groups[1:]
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He lost his keys himself.", "She lost her keys herself."),
        ("I saw him. HE LOST HIS BROTHER!", "I saw her. SHE LOST HER SISTER!"),
        ("I saw her yesterday.", "I saw him yesterday."),
        ("Her old car is hers, not mine.", "His old car is his, not mine."),
        ("They thanked her and her daughter.", "They thanked him and his son."),
        ('"Is that her?" asked Mary.', '"Is that him?" asked John.'),
        ("The actress he met is a widow.", "The actor she met is a widower."),
        ("She hugged him and his mother.", "He hugged her and her father."),
        ("He's the boys' teacher", "She's the girls' teacher"),
        ("the MEN and Women", "the WOMEN and Men"),
        ("Mr Jones called James.", "Ms Jones called Emily."),
        ("His wedding was in the evening", "Her wedding was in the evening"),
    ],
)
def test_gender_is_exchanged_with_its_grammar(text, expected):
    assert swap(text, "male", "female").text == expected
    assert swap(text, "female", "male").text == expected
    assert swap(expected, "male", "female").text == text


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("I gave her books.", "her"),
        ("We saw him leave early.", "him"),
        ("They called her back", "her"),
        ("I saw him running", "him"),
        ("We met her slowly", "her"),
        ("his or her answer", "his"),
        ("Her 3 dogs", "Her"),
        ('Her "friend"', "Her"),
        ("Mrs Jones lost her hat", "Mrs"),
        ("her-", "her"),
    ],
)
def test_what_grammar_leaves_open_is_skipped(text, term):
    found = swap(text, "male", "female")
    assert found == SwappedText(text, unresolved=term)
    assert found.count == 0 and found.direction == 0


def test_words_are_exchanged_as_a_whole():
    for text in (
        "The theme of this history: human shelter.",
        "James_2 and shepherd",
        "",
        "no one here",
        "mark will sue",
    ):
        assert swap(text, "male", "female") == SwappedText(text)
    assert swap("a mary, a Mary", "male", "female").text == "a mary, a John"


def test_an_adjective_is_not_put_for_a_noun():
    """ "Jewish" is no noun: "a Christian" has no counterpart, "a Christian school" has one."""
    assert swap("A Christian school.", "Christian", "Jewish").text == "A Jewish school."
    assert swap("She is Jewish.", "Christian", "Jewish").text == "She is Christian."
    assert swap("He is a Christian.", "Christian", "Jewish").unresolved == "Christian"
    assert swap("He is a Christian.", "Christian", "Muslim").text == "He is a Muslim."
    assert swap("Jews and Christians", "Christian", "Jewish").text == "Christians and Jews"


def test_phrases_are_exchanged_as_one_term():
    found = swap("A gay man in a straight line met gay people.", "straight", "gay")
    assert found.text == "A straight man in a straight line met straight people."
    assert found.count == 2 and found.direction == -1


def test_the_direction_is_that_of_all_terms():
    assert swap("He is here.", "male", "female").direction == 1
    assert swap("He is here.", "female", "male").direction == -1
    assert swap("She is hers.", "male", "female").direction == -1
    assert swap("I saw him.", "male", "female").direction == 1
    assert swap("I saw him.", "female", "male").direction == -1
    assert swap("He and she are here.", "male", "female").direction == 0
    assert swap("It is here.", "male", "female").direction == 0


def words(first: str, second: str) -> st.SearchStrategy[str]:
    category = category_of(first)
    columns = category.groups.index(first), category.groups.index(second)
    terms = [row[i] for row in (*category.terms, *category.names) for i in columns]
    pronouns = ["he", "him", "his", "her", "hers", "Her", "HIS", "himself"]
    plain = [
        "dog",
        "gave",
        "saw",
        "the",
        "and",
        "or",
        "running",
        "slowly",
        "back",
        "is",
        "7",
        "a",
        "school",
        "éclair",
        "😀",
    ]
    marks = [".", ",", '"', "-", "/", "(", "\n", "'", "  "]
    return st.lists(
        st.one_of(st.sampled_from(terms + [t.upper() for t in terms]), st.sampled_from(pronouns + plain + marks)),
        max_size=14,
    ).map(lambda parts: re.sub(r" (?=[.,])", "", " ".join(parts)))


@settings(max_examples=400)
@given(st.data())
def test_swapping_twice_gives_the_text_back_with_the_same_spans(data):
    first, second = data.draw(st.sampled_from(PAIRS))
    text = data.draw(words(first, second))
    there = swap(text, first, second)
    back = swap(there.text, first, second)
    assert back.text == text
    assert bool(back.unresolved) == bool(there.unresolved)
    old = [(part.start, part.end) for part in there.replacements]
    assert [(part.new_start, part.new_end) for part in back.replacements] == old
    assert back.direction == -there.direction
    if not there.count:
        assert there.text == text


@settings(max_examples=200)
@given(st.data())
def test_what_is_outside_of_terms_is_where_moved_says(data):
    first, second = data.draw(st.sampled_from(PAIRS))
    text = data.draw(words(first, second))
    found = swap(text, first, second)
    inside = {i for part in found.replacements for i in range(part.start, part.end)}
    for i, character in enumerate(text):
        if i not in inside:
            start, end = found.moved(i, i + 1)
            assert found.text[start:end] == character and end == start + 1
    for part in found.replacements:
        whole = (part.new_start, part.new_end)
        assert found.moved(part.start, part.end) == whole
        assert found.moved(part.start, part.start + 1) == whole
        assert found.moved(part.end - 1, part.end) == whole
    assert found.moved(0, len(text)) == (0, len(found.text))


def test_random_text_without_terms_is_unchanged():
    @given(st.text(alphabet="bcdf \n.,'\"é😀", max_size=60))
    def check(text):
        assert swap(text, "male", "female") == SwappedText(text)

    check()


def test_groups_of_two_categories_are_refused():
    with pytest.raises(ValueError, match="no group is named 'men'; there are: male, female"):
        swap("x", "men", "women")
    with pytest.raises(ValueError, match="give two groups of one category; gender has male, female"):
        swap("x", "male", "Muslim")
    with pytest.raises(ValueError, match="'male' cannot be exchanged for 'male'"):
        swap("x", "male", "male")


@pytest.mark.parametrize("category", categories().values(), ids=lambda category: category.name)
def test_the_lists_are_aligned(category):
    assert len(category.source) > 40
    assert len(category.people) >= 30 and len(set(category.people)) == len(category.people)
    for row in (*category.terms, *category.names, *category.people):
        assert len(row) == len(category.groups)
        assert len({term[0].isupper() for term in row}) == 1
    for row in category.terms:
        assert len({term[0].lower() in "aeiou" or term.startswith(("heir", "hon")) for term in row}) == 1, row
    for rows in (category.terms, category.names):
        count = Counter(term.lower() for row in rows for term in row)
        assert [term for term, times in count.items() if times > 1] == []
    assert not any(name.lower().endswith("ly") and name.islower() for row in category.names for name in row)
    assert category.persons(category.groups[-1])[3] == category.people[3][-1]


def test_named_groups_do_not_need_a_known_counterpart():
    assert named_groups("I gave her books.", "gender") == {"female"}
    assert named_groups("his or her answer", "gender") == {"male", "female"}
    assert named_groups("HIM", "gender") == {"male"}
    assert named_groups("the theory", "gender") == set()
    assert named_groups("A Hindu in Canada", "religion") == {"Hindu"}
    assert named_groups("Jews and Hindus", "religion") == {"Jewish", "Hindu"}
    assert named_groups("Christians", "religion") == {"Christian"}


def test_categories_without_terms_are_not_exchangeable():
    assert exchangeable() == ["gender", "name_origin", "religion", "nationality", "orientation"]


def test_groups_have_unique_names():
    names = [group for category in categories().values() for group in category.groups]
    assert len(set(names)) == len(names)


def test_a_name_is_of_one_origin():
    names = [name for row in categories()["name_origin"].names for name in row]
    assert len(set(names)) == len(names) == 192


def test_names_of_gender_keep_their_origin():
    assert swap("Fatima met Darnell.", "male", "female").text == "Mohammed met Keisha."


@pytest.mark.parametrize(
    ("text", "case"),
    [
        ("her", "object"), ("her book", "determiner"), ("her's", None), ("her — and", "object"), ('"her"', "object"),
        ("her family", "determiner"), ("her Emily", "determiner"), ("made her sad", None), ("He made. Her book", "determiner"), ("her\nbook", "determiner"),
        ("her\n", "object"), ("her!", "object"), ("her / x", None),
    ],
)  # fmt: skip
def test_the_case_of_a_pronoun(text, case):
    start = text.lower().index("her")
    assert pronoun_case(text, start, start + 3) == case
