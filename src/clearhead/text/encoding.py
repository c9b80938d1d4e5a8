"""Encoded texts before special tokens: truncation, windows, and assembly into a token batch."""

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
from clearhead.text.special_tokens import TemplateItem
from clearhead.text.token_batch import TokenBatch, Truncation

Integers = NDArray[np.int64]
Shorten = Literal["longest", "second"]


@dataclass(frozen=True, eq=False)
class EncodedTexts:
    """Token ids of texts: text i is rows `first[i] : first[i] + count[i]` of `ids`, so truncation copies nothing."""

    ids: Integers  # (M,)
    first: Integers  # (B,)
    count: Integers  # (B,)
    offsets: Integers | None  # (M, 2)
    words: Integers | None  # (M,)

    @staticmethod
    def of(encodings: Sequence[tokenizers.Encoding], offsets: bool) -> EncodedTexts:
        ids = [e.ids for e in encodings]
        count = np.fromiter(map(len, ids), np.int64, len(ids))
        total = int(count.sum())
        spans = words = None
        if offsets:
            ends = chain.from_iterable(chain.from_iterable(e.offsets for e in encodings))
            spans = np.fromiter(ends, np.int64, 2 * total).reshape(total, 2)
            word_ids = np.array(list(chain.from_iterable(e.word_ids for e in encodings)), np.float64)  # None: nan
            words = np.nan_to_num(word_ids, nan=-1).astype(np.int64)
        return EncodedTexts(np.fromiter(chain.from_iterable(ids), np.int64, total), _starts(count), count, spans, words)

    def trim(self, opening: Collection[int], closing: Collection[int]) -> EncodedTexts:
        first, count = self.first.copy(), self.count.copy()
        for i in range(len(first)):
            while count[i] and self.ids[first[i]] in opening:
                first[i] += 1
                count[i] -= 1
            while count[i] and self.ids[first[i] + count[i] - 1] in closing:
                count[i] -= 1
        return replace(self, first=first, count=count)

    def window(self, texts: Integers, begin: Integers | int, count: Integers) -> EncodedTexts:
        return replace(self, first=self.first[texts] + begin, count=count)


def build_batch(
    items: Sequence[TemplateItem],
    parts: Sequence[EncodedTexts],
    sources: Integers,
    truncations: Sequence[Truncation] = (),
) -> TokenBatch:
    """Builds a batch of texts and special tokens in the order of a template."""
    special = sum(item.part < 0 for item in items)
    length = special + sum(part.count for part in parts)  # (B,)
    length = np.broadcast_to(np.asarray(length, np.int64), sources.shape)
    total = int(length.sum())
    has_offsets = parts[0].offsets is not None
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
            source = _rows(part.first, part.count)
            ids[rows] = part.ids[source]
            origin[rows] = item.part
            if part.offsets is not None and part.words is not None:
                offsets[rows] = part.offsets[source]
                words[rows] = part.words[source]
        segments[rows] = item.segment
        cursor = cursor + step
    return TokenBatch(
        ids=torch.from_numpy(ids),
        layout=Layout.from_lengths(length.tolist()),
        segments=torch.from_numpy(segments),
        parts=torch.from_numpy(origin),
        sources=torch.from_numpy(sources),
        offsets=torch.from_numpy(offsets) if has_offsets else None,
        words=torch.from_numpy(words) if has_offsets else None,
        truncations=tuple(truncations),
    )


def fit(counts: Sequence[Integers], room: int, shorten: Shorten) -> list[Integers]:
    """Returns how many tokens of each part to keep so that together they fit into `room`.

    "longest" truncates the longer part until both are equally long; "second" truncates only the second.
    """
    if shorten not in ("longest", "second"):
        raise ValueError(f"shorten is {shorten!r}: choose 'longest' or 'second'")
    if len(counts) == 1:
        return [np.minimum(counts[0], room)]
    a, b = counts
    if shorten == "second":
        return [a, np.minimum(b, room - a)]
    short = np.minimum(np.minimum(a, b), room // 2)
    long = np.minimum(np.maximum(a, b), room - short)
    return [np.where(a <= b, short, long), np.where(a <= b, long, short)]


def split_windows(count: Integers, room: Integers, stride: int) -> tuple[Integers, Integers, Integers]:
    """Splits texts of `count` tokens into windows of `room`; returns text, first token and length of each window."""
    if stride < 1:
        raise ValueError(f"stride is {stride}: it must be at least 1")
    step = np.minimum(stride, room)  # no gap between two windows
    windows = 1 + -(-np.maximum(count - room, 0) // step)  # rounded up
    texts = np.repeat(np.arange(len(windows)), windows)  # (B,)
    begin = (np.arange(len(texts)) - _starts(windows)[texts]) * step[texts]
    return texts, begin, np.minimum(room[texts], count[texts] - begin)


def _starts(count: Integers) -> Integers:
    return np.cumsum(count) - count


def _rows(first: Integers, count: Integers) -> Integers:
    """Returns the row indices `first[i], first[i] + 1, ...`, `count[i]` of them, for each text in turn."""
    return np.repeat(first - _starts(count), count) + np.arange(count.sum())
