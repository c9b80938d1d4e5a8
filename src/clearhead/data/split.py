"""Splits: rows kept aside for validation, drawn by a seed so that labels keep their shares and groups stay whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from clearhead.data.rows import Bad, Row, Rows

Of = Callable[[Row], Hashable]


def after_one_another(parts: Sequence[Rows]) -> Rows:
    """The rows of several sources, one source after another."""
    return Rows(lambda: (row for rows in parts for row in rows.raw()))


def first_rows(rows: Rows, held: int) -> tuple[Rows, Rows]:
    """The first `held` rows, and all the others: for running text, and for corpora that are in no order."""

    def rest() -> Iterator[Row | Bad]:
        count = 0
        for row in rows.raw():
            count += isinstance(row, Row)
            if isinstance(row, Bad) or count > held:
                yield row

    return Rows(lambda: islice(iter(rows), held)), Rows(rest)


def drawn_rows(rows: Rows, held: int, seed: int, *, group: Of, label: Of) -> tuple[Rows, Rows]:
    """About `held` rows, drawn by the seed, and all the others, which also tell what cannot be read.

    Rows of one group (a patient, a text that comes twice) are never parted; of each label about the same share is
    drawn.
    """
    aside = drawn(rows, held, seed, group=group, label=label)

    def rest() -> Iterator[Row | Bad]:
        return (row for row in rows.raw() if isinstance(row, Bad) or group(row) not in aside)

    return Rows(lambda: (row for row in rows if group(row) in aside)), Rows(rest)


def drawn(rows: Rows, held: int, seed: int, *, group: Of, label: Of) -> set[Hashable]:
    """The groups that are kept aside."""
    sizes: dict[Hashable, int] = defaultdict(int)
    labels: dict[Hashable, Hashable] = {}  # a group has the label of its first row
    for row in rows:
        name = group(row)
        sizes[name] += 1
        labels.setdefault(name, label(row))
    total = sum(sizes.values())
    strata: dict[Hashable, list[Hashable]] = defaultdict(list)
    for name, of in labels.items():
        strata[of].append(name)
    draw, aside, owed = np.random.default_rng(seed), set[Hashable](), 0.0
    for of in sorted(strata, key=str):
        names = strata[of]
        owed += held * sum(sizes[name] for name in names) / max(total, 1)
        for i in draw.permutation(len(names)):
            if sizes[names[i]] / 2 > owed:
                break
            aside.add(names[i])
            owed -= sizes[names[i]]
    if not aside and held and len(sizes) > 1:  # groups are large, and something must be kept
        order = draw.permutation(len(sizes))
        names = list(sizes)
        aside.add(min((names[i] for i in order), key=lambda name: sizes[name]))
    return aside


def renamed(rows: Rows, names: Mapping[str, str]) -> Rows:
    """The same rows with some labels and tags read as others."""

    def read() -> Iterator[Row | Bad]:
        for row in rows.raw():
            if isinstance(row, Bad):
                yield row
                continue
            changed = {
                column: [names.get(v, v) for v in value] if isinstance(value, list) else names.get(value, value)
                for column, value in row.values.items()
                if column in ("label", "labels", "tags")
            }
            yield Row({**row.values, **changed}, row.file, row.line)

    return Rows(read)
