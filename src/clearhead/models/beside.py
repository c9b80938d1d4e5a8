"""Beside: an exported encoder held against the original, in what it says and how fast."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.attention import Layout
from clearhead.models.answers import Says, answers
from clearhead.models.store import Opened

Run = Callable[[Tensor, Layout, Tensor | None], dict[str, Tensor]]
"""Ids (N,), their layout and segments (N,) to answers by name: (N, …) of tokens, (B, …) of texts."""
Batch = tuple[Tensor, Layout, Tensor | None]

TEXTS = (
    "Hello!",
    "Is there a train to the coast this evening?",
    "The animal did not cross the street, because it was too tired.",
    "We stayed for three nights. The room was small and clean, and the staff found us a table every evening, although "
    "the house was full.",
    "On Tuesday the council voted 14 to 9 to close the bridge for repairs until October; buses will take the road "
    "along the river, and shops on the north side have been promised help with the costs of the detour.",
    "Attention lets each word of a sentence gather what it needs from all the others. Whether a word is near or far "
    "does not matter to it, only whether the two fit, and so a pronoun finds its noun across a whole paragraph. What "
    "is gathered is an average, weighted by how well they fit, and several such averages are taken side by side. Then "
    "every word goes on alone through two layers, and the next block begins with what has been gathered so far.",
)
COPIES = 4  # of a text in a batch: all of one length, so that nobody pays for padding
SECONDS = 2.0  # of measuring, both together


@dataclass(frozen=True, kw_only=True)
class Beside:
    """How an exported model compares; differences are the largest there are, between numbers as large as `largest`."""

    alone: float  # each text by itself
    together: float  # all of them in one batch
    largest: float
    speed: float  # sequences a second
    original: float  # the same of the original


def ragged(opened: Opened) -> Run:
    """An opened model as it runs here."""
    says = Says.of(opened)

    @torch.inference_mode()
    def run(ids: Tensor, layout: Layout, segments: Tensor | None) -> dict[str, Tensor]:
        return {name: out.float() for name, out in answers(opened.model, says, ids, layout, segments).items()}

    return run


def compare(opened: Opened, exported: Run, *, seconds: float = SECONDS) -> Beside:
    """Both on the same texts, of a few words and of a few sentences."""
    original = ragged(opened)
    tokens = opened.words(TEXTS, max_len=opened.max_len, offsets=False)
    segments = tokens.segments if opened.has_segments else None
    whole = tokens.ids, tokens.layout, segments
    one_by_one = _apart(*whole)
    want = [original(*batch) for batch in one_by_one]
    alone = max(map(_difference, (exported(*batch) for batch in one_by_one), want))
    together = _difference(exported(*whole), {n: torch.cat([w[n] for w in want]) for n in want[0]})
    work = [_repeated(*batch) for batch in one_by_one]
    speeds = _speeds((exported, original), work, COPIES * len(TEXTS), seconds)
    largest = max(float(out.abs().max()) for w in want for out in w.values())
    return Beside(alone=alone, together=together, largest=largest, speed=speeds[0], original=speeds[1])


def _difference(got: dict[str, Tensor], want: dict[str, Tensor]) -> float:
    assert got.keys() == want.keys()
    return max(float((got[name] - want[name]).abs().max()) for name in want)


def _apart(ids: Tensor, layout: Layout, segments: Tensor | None) -> list[Batch]:
    """The sequences of a batch, each as one of its own."""
    apart = [None] * layout.num_sequences if segments is None else layout.split(segments)
    return [(part, Layout.of([len(part)]), marks) for part, marks in zip(layout.split(ids), apart, strict=True)]


def _repeated(ids: Tensor, layout: Layout, segments: Tensor | None) -> Batch:
    return ids.repeat(COPIES), Layout.of([len(ids)] * COPIES), None if segments is None else segments.repeat(COPIES)


def _speeds(runs: tuple[Run, ...], work: list[Batch], texts: int, seconds: float) -> list[float]:
    """Sequences a second: the runs take turns, and the best turn of each counts."""
    best = [float("inf")] * len(runs)
    end = time.perf_counter() + seconds
    for turn in range(1_000_000):
        for i, run in enumerate(runs):
            begin = time.perf_counter()
            for batch in work:
                run(*batch)
            best[i] = min(best[i], time.perf_counter() - begin)
        if turn >= 2 and time.perf_counter() > end:
            break
    return [texts / taken for taken in best]
