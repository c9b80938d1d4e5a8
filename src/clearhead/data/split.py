"""Train/validation splits: the first rows, or a seeded stratified split that keeps groups together."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np

from clearhead.data.rows import Row, Rows, SkippedRow

T = TypeVar("T")

RowKey = Callable[[Row], Hashable]


def chain_rows(parts: Sequence[Rows]) -> Rows:
    return Rows(lambda: (row for rows in parts for row in rows.raw()))


def first_rows(rows: Rows, count: int) -> tuple[Rows, Rows]:
    """Return the first `count` rows and the rest; for running text and for corpora in random order."""

    def rest() -> Iterator[Row | SkippedRow]:
        seen = 0
        for row in rows.raw():
            seen += isinstance(row, Row)
            if isinstance(row, SkippedRow) or seen > count:
                yield row

    return Rows(lambda: islice(iter(rows), count)), Rows(rest)


def stratified_split(rows: Rows, count: int, seed: int, *, group: RowKey, label: RowKey) -> tuple[Rows, Rows]:
    """Return about `count` randomly drawn rows and the rest; skipped rows are reported by the rest.

    Rows of one group (a patient, a duplicated text) stay on the same side; about the same fraction of every label is
    drawn.
    """
    chosen = validation_groups(rows, count, seed, group=group, label=label)

    def rest() -> Iterator[Row | SkippedRow]:
        return (row for row in rows.raw() if isinstance(row, SkippedRow) or group(row) not in chosen)

    return Rows(lambda: (row for row in rows if group(row) in chosen)), Rows(rest)


def validation_groups(rows: Rows, count: int, seed: int, *, group: RowKey, label: RowKey) -> set[Hashable]:
    sizes: dict[Hashable, int] = defaultdict(int)
    labels: dict[Hashable, Hashable] = {}  # a group has the label of its first row
    for row in rows:
        name = group(row)
        sizes[name] += 1
        labels.setdefault(name, label(row))
    total = sum(sizes.values())
    strata: dict[Hashable, list[Hashable]] = defaultdict(list)
    for name, group_label in labels.items():
        strata[group_label].append(name)
    rng, chosen, missing = np.random.default_rng(seed), set[Hashable](), 0.0  # rows still to be chosen
    for stratum in sorted(strata, key=str):
        names = strata[stratum]
        missing += count * sum(sizes[name] for name in names) / max(total, 1)
        for i in rng.permutation(len(names)):
            if sizes[names[i]] / 2 > missing:
                break
            chosen.add(names[i])
            missing -= sizes[names[i]]
    if not chosen and count and len(sizes) > 1:  # all groups are large, but the validation part must not be empty
        order = rng.permutation(len(sizes))
        names = list(sizes)
        chosen.add(min((names[i] for i in order), key=lambda name: sizes[name]))
    return chosen


def rename_columns(rows: Rows, names: Mapping[str, str]) -> Rows:
    """Return the rows with labels and tags replaced according to `names`."""

    def renamed() -> Iterator[Row | SkippedRow]:
        for row in rows.raw():
            if isinstance(row, SkippedRow):
                yield row
                continue
            changed = {
                column: [names.get(v, v) for v in value] if isinstance(value, list) else names.get(value, value)
                for column, value in row.values.items()
                if column in ("label", "labels", "tags")
            }
            yield Row({**row.values, **changed}, row.file, row.line)

    return Rows(renamed)


def spread(values: Sequence[T], count: int | None) -> list[T]:
    """Return `count` of these values in their order, evenly spread; all where there are no more, or None is given."""
    count = len(values) if count is None else min(count, len(values))
    return [values[i * len(values) // count] for i in range(count)]
