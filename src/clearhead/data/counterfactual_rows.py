"""Counterfactual augmentation: a copy of each training row that names a group, about another group (Lu et al. 2018).

In a copy the terms, names and pronouns of two groups are exchanged, in all texts of the row alike. Labels are kept, and
spans are where the exchange moves them. The terms are English.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from clearhead.data.group_terms import SwappedText, categories, swap
from clearhead.data.rows import Row, Rows, SkippedRow
from clearhead.data.squad import nearest

TEXT_COLUMNS = ("text", "second", "question", "context", "anchor", "positive", "negative", "turns", "words")
ANSWER_COLUMNS = ("answers", "answer")  # spans of `context`
COPIES = "counterfactuals of "  # before the file name of a copy


def row_texts(values: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the texts of a row by column; words are one text, with a space between them."""
    texts: dict[str, list[str]] = {}
    for name in TEXT_COLUMNS:
        if name in values:
            value = values[name]
            texts[name] = [" ".join(value)] if name == "words" else value if isinstance(value, list) else [value]
    return texts


def swap_row(values: Mapping[str, Any], first: str, second: str) -> dict[str, Any] | None:
    """Return the values of a row with two groups exchanged, equal ones where it names none of them.

    None: the counterpart of a term is not known.
    """
    swapped = {name: [swap(text, first, second) for text in texts] for name, texts in row_texts(values).items()}
    parts = [part for column in swapped.values() for part in column]
    if any(part.unresolved for part in parts):
        return None
    changed = dict(values)
    if not any(part.count for part in parts):
        return changed
    for name, column in swapped.items():
        texts = [part.text for part in column]
        if name == "words":
            words = texts[0].split(" ")
            if len(words) != len(values["words"]):  # of which each has a tag
                return None
            changed["words"] = words
        else:
            changed[name] = texts if isinstance(values[name], list) else texts[0]
    for name in ANSWER_COLUMNS:
        if name in values:
            changed[name] = _moved_answers(values[name], values["context"], swapped["context"][0])
    return changed


def _moved_answers(answers: Any, context: str, swapped: SwappedText) -> list[dict[str, Any]]:
    """Return the answers to a question with their places in the new context; one that is not in the old is left out."""
    moved: list[dict[str, Any]] = []
    for answer in answers if isinstance(answers, list) else [answers]:
        text = answer["text"] if isinstance(answer, dict) else answer.strip()
        at = answer["start"] if isinstance(answer, dict) else nearest(context, text)
        if text and at is not None:
            start, end = swapped.moved(at, at + len(text))
            moved.append({"text": swapped.text[start:end], "start": start})
    return moved


class CounterfactualRows(Rows):
    """Rows, and behind them the copies of those that name a group of a category, one for each other group of it.

    A row is kept without a copy in a category where the counterpart of a term is not known. Running text is read by
    line numbers: the copies of consecutive rows are consecutive lines of a file of their own, others are apart.
    """

    def __init__(self, rows: Rows, names: Sequence[str]) -> None:
        super().__init__(self._with_copies)
        self._originals, self._names = rows, tuple(dict.fromkeys(names))
        self.num_copies = self.num_copied = self.num_unresolved = 0

    def _with_copies(self) -> Iterator[Row | SkippedRow]:
        yield from self._originals.raw()
        self.num_copies = self.num_copied = self.num_unresolved = 0
        line, previous = 0, ("", 0, ("", ""))
        for row in self._originals:
            for pair, values in self._copies(row):
                line += 1 if previous == (row.file, row.line - 1, pair) else 2
                previous = row.file, row.line, pair
                yield Row(values, f"{COPIES}{row.file}", line)

    def _copies(self, row: Row) -> list[tuple[tuple[str, str], dict[str, Any]]]:
        """Return the groups that are exchanged in each copy of a row, and its values."""
        copies: list[tuple[tuple[str, str], dict[str, Any]]] = []
        is_unresolved = False
        for name in self._names:
            swapped = {pair: swap_row(row.values, *pair) for pair in combinations(categories()[name].groups, 2)}
            if None in swapped.values():
                is_unresolved = True
            else:
                copies += [(pair, values) for pair, values in swapped.items() if values and values != row.values]
        self.num_copies += len(copies)
        self.num_copied += bool(copies)
        self.num_unresolved += is_unresolved
        return copies

    def notes(self) -> list[str]:
        names = ", ".join(self._names)
        added = f"counterfactual copies ({names}): {self.num_copies:,}, of {self.num_copied:,} rows that name a group"
        skipped = f"rows without a copy, as grammar does not decide the counterpart of a term: {self.num_unresolved:,}"
        return [*self._originals.notes(), added, *([skipped] if self.num_unresolved else [])]
