"""Pieces: texts cut into the ids of a vocabulary, before special tokens; shortened, windowed and put into a frame."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

import numpy as np
import tokenizers
import torch
from numpy.typing import NDArray

from clearhead.attention import Layout
from clearhead.text.frame import Item
from clearhead.text.tokens import Cut, Tokens

Integers = NDArray[np.int64]
Shorten = Literal["longest", "second"]


@dataclass(frozen=True, eq=False)
class Pieces:
    """Texts as pieces: text i is rows `first[i] : first[i] + count[i]` of `ids`, so taking less copies nothing."""

    ids: Integers  # (M,)
    first: Integers  # (B,)
    count: Integers  # (B,)
    offsets: Integers | None  # (M, 2)
    words: Integers | None  # (M,)

    @staticmethod
    def of(encodings: Sequence[tokenizers.Encoding], offsets: bool) -> Pieces:
        ids = [e.ids for e in encodings]
        count = np.fromiter(map(len, ids), np.int64, len(ids))
        total = int(count.sum())
        spans = words = None
        if offsets:
            ends = chain.from_iterable(chain.from_iterable(e.offsets for e in encodings))
            spans = np.fromiter(ends, np.int64, 2 * total).reshape(total, 2)
            found = np.array(list(chain.from_iterable(e.word_ids for e in encodings)), np.float64)  # None is nan
            words = np.nan_to_num(found, nan=-1).astype(np.int64)
        return Pieces(np.fromiter(chain.from_iterable(ids), np.int64, total), _starts(count), count, spans, words)

    def trim(self, opening: Collection[int], closing: Collection[int]) -> Pieces:
        """Without these ids at the front and at the back of each text."""
        first, count = self.first.copy(), self.count.copy()
        for i in range(len(first)):
            while count[i] and self.ids[first[i]] in opening:
                first[i] += 1
                count[i] -= 1
            while count[i] and self.ids[first[i] + count[i] - 1] in closing:
                count[i] -= 1
        return replace(self, first=first, count=count)

    def window(self, texts: Integers, begin: Integers | int, count: Integers) -> Pieces:
        """Part of each of these texts: `count` pieces after the first `begin`."""
        return replace(self, first=self.first[texts] + begin, count=count)


def frame_pieces(items: Sequence[Item], parts: Sequence[Pieces], sources: Integers, cut: Sequence[Cut] = ()) -> Tokens:
    """Texts and special tokens in the order of a frame, for all sequences at once."""
    special = sum(item.part < 0 for item in items)
    length = special + sum(part.count for part in parts)  # (B,)
    length = np.broadcast_to(np.asarray(length, np.int64), sources.shape)
    total = int(length.sum())
    tracked = parts[0].offsets is not None
    ids, segments, origin = (np.full(total, -1) for _ in range(3))
    offsets, words = np.full((total, 2), -1), np.full(total, -1)
    cursor = _starts(length)
    for item in items:
        if item.part < 0:
            rows, step = cursor, 1
            ids[rows] = item.id
        else:
            part = parts[item.part]
            rows, step = _rows(cursor, part.count), part.count
            taken = _rows(part.first, part.count)
            ids[rows] = part.ids[taken]
            origin[rows] = item.part
            if part.offsets is not None and part.words is not None:
                offsets[rows] = part.offsets[taken]
                words[rows] = part.words[taken]
        segments[rows] = item.segment
        cursor = cursor + step
    return Tokens(
        ids=torch.from_numpy(ids),
        layout=Layout.of(length.tolist()),
        segments=torch.from_numpy(segments),
        parts=torch.from_numpy(origin),
        sources=torch.from_numpy(sources),
        offsets=torch.from_numpy(offsets) if tracked else None,
        words=torch.from_numpy(words) if tracked else None,
        cut=tuple(cut),
    )


def fit(counts: Sequence[Integers], room: int, shorten: Shorten) -> list[Integers]:
    """How many pieces of each part to keep so that together they fit into `room`.

    "longest" takes from the longer part until both are equally long; "second" takes from the second only.
    """
    if shorten not in ("longest", "second"):
        raise ValueError(f"shorten is {shorten!r}: say 'longest' or 'second'")
    if len(counts) == 1:
        return [np.minimum(counts[0], room)]
    a, b = counts
    if shorten == "second":
        return [a, np.minimum(b, room - a)]
    short = np.minimum(np.minimum(a, b), room // 2)
    long = np.minimum(np.maximum(a, b), room - short)
    return [np.where(a <= b, short, long), np.where(a <= b, long, short)]


def split_windows(count: Integers, room: Integers, stride: int) -> tuple[Integers, Integers, Integers]:
    """Windows over texts of `count` pieces, `room` in each: the text, first piece and length of every window."""
    if stride < 1:
        raise ValueError(f"stride is {stride}: windows must move on by 1 token or more")
    step = np.minimum(stride, room)  # no piece between two windows
    windows = 1 + -(-np.maximum(count - room, 0) // step)  # rounded up
    texts = np.repeat(np.arange(len(windows)), windows)  # (B,)
    begin = (np.arange(len(texts)) - _starts(windows)[texts]) * step[texts]
    return texts, begin, np.minimum(room[texts], count[texts] - begin)


def _starts(count: Integers) -> Integers:
    return np.cumsum(count) - count


def _rows(first: Integers, count: Integers) -> Integers:
    """The row numbers `first[i], first[i] + 1, ...`, `count[i]` of them, one text after another."""
    return np.repeat(first - _starts(count), count) + np.arange(count.sum())
