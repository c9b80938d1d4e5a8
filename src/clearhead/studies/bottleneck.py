"""The bottleneck: what a translation is worth against the length of the source, with attention and without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from clearhead.app import load
from clearhead.see import Curve, Panel, draw_curves
from clearhead.studies import demo
from clearhead.studies.dates import pairs, split
from clearhead.studies.trained import Heard, unheard
from clearhead.tasks.bleu import scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STARTS = (1, 8, 11, 14, 17, 21)  # words of the shortest source in each bucket
SAMPLES = 1000  # of the bootstrap
SEED = 1  # of its draws


@dataclass(frozen=True)
class Bucket:
    """Sources of like length, and what their translations are worth."""

    shortest: int  # words, of the sources that are in it
    longest: int
    sentences: int
    bleu: float
    low: float  # 95 % of the bootstrap's samples lie between these
    high: float


@dataclass(frozen=True)
class Translator:
    """One model's translations of the test sentences."""

    label: str
    parameters: int
    bleu: float
    chrf: float
    buckets: tuple[Bucket, ...]


@dataclass(frozen=True)
class Bottleneck:
    """What was measured."""

    sentences: int
    beam: int
    translators: tuple[Translator, ...]


def measure(
    models: Mapping[str, Path],
    sources: Sequence[str],
    references: Sequence[str],
    *,
    beam: int = 5,
    starts: Sequence[int] = STARTS,
    samples: int = SAMPLES,
    heard: Heard = unheard,
) -> Bottleneck:
    """BLEU of each model (its label, and its folder or that of its run) in buckets of the sources' number of words."""
    if not models:
        raise ValueError("no model to measure: give at least one")
    if len(sources) != len(references) or not sources:
        raise ValueError(f"{len(sources)} sources and {len(references)} references: as many of the one as of the other")
    found: list[Translator] = []
    for place, (label, folder) in enumerate(models.items()):
        heard("translating", place, len(models))
        app = load(folder / "model" if (folder / "model").is_dir() else folder)
        said = [t.text for t in app.translate(sources, beam=beam)]
        whole = scores(said, references)
        buckets = tuple(
            _bucket([sources[i] for i in part], [said[i] for i in part], [references[i] for i in part], samples)
            for part in by_length(sources, starts)
        )
        size = sum(p.numel() for p in app.model.parameters())
        found.append(Translator(label, size, whole["bleu"], whole["chrf"], buckets))
    heard("translating", len(models), len(models))
    return Bottleneck(len(sources), beam, tuple(found))


def by_length(sources: Sequence[str], starts: Sequence[int] = STARTS) -> list[list[int]]:
    """The numbers of the sources in each bucket, the shortest first; buckets without any are left out."""
    lengths = [len(source.split()) for source in sources]
    edges = [0, *starts[1:], max(lengths) + 1]
    parts = ([i for i, n in enumerate(lengths) if low <= n < high] for low, high in pairwise(edges))
    return [part for part in parts if part]


def _bucket(sources: Sequence[str], said: Sequence[str], references: Sequence[str], samples: int) -> Bucket:
    lengths = [len(source.split()) for source in sources]
    low, high = interval(said, references, samples)
    return Bucket(min(lengths), max(lengths), len(sources), scores(said, references)["bleu"], low, high)


def interval(said: Sequence[str], references: Sequence[str], samples: int = SAMPLES) -> tuple[float, float]:
    """Between what 95 % of the BLEU scores of sentences drawn anew, with replacement, lie (Koehn 2004)."""
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU()
    each = [bleu.corpus_score([s], [[r]]) for s, r in zip(said, references, strict=True)]
    counts = np.array([(*e.counts, *e.totals, e.sys_len, e.ref_len) for e in each])  # (sentences, 10)
    drawn = np.random.default_rng(SEED).integers(len(each), size=(samples, len(each)))
    found: list[float] = []
    for sums in counts[drawn].sum(axis=1).tolist():
        matched, total, said_len, right_len = sums[:4], sums[4:8], sums[8], sums[9]
        found.append(bleu.compute_bleu(matched, total, said_len, right_len, smooth_method=bleu.smooth_method).score)
    low, high = np.percentile(found, (2.5, 97.5)).tolist()
    return round(low, 2), round(high, 2)


def quick(folder: Path, *, seed: int = 1, seconds: float = 1.0, tested: int = 30, heard: Heard = unheard) -> Bottleneck:
    """The same on tiny models of the demo, trained a little: what can be seen of it in a moment."""
    demo.measure(folder, seconds=seconds, seed=seed, examples=500, tested=5, heard=heard)
    test = pairs(split(seed)["test"], tested, seed)
    models = {label: folder / name for label, name in demo.FOLDERS.items()}
    targets = [pair.target for pair in test]
    return measure(models, [p.source for p in test], targets, beam=1, starts=(1, 8, 14), samples=100, heard=heard)


def draw(measured: Bottleneck) -> Figure:
    """BLEU against the length of the source, with the bootstrap's intervals."""
    curves = [
        Curve(
            t.label,
            [float(i) for i in range(len(t.buckets))],
            [b.bleu for b in t.buckets],
            [b.low for b in t.buckets],
            [b.high for b in t.buckets],
        )
        for t in measured.translators
    ]
    buckets = measured.translators[0].buckets
    ticks = [(float(i), f"{_span(b)}\n({b.sentences:,})") for i, b in enumerate(buckets)]
    top = max(b.high for t in measured.translators for b in t.buckets)
    panel = Panel(
        curves,
        "words of the source (sentences)",
        "BLEU, with 95 % intervals",
        y_range=(0.0, min(100.0, 5 * (top // 5 + 1))),
        ticks=ticks,
    )
    return draw_curves([panel], "Translation against the length of the source", width=7.4, height=4.2)


def _span(bucket: Bucket) -> str:
    return str(bucket.shortest) if bucket.shortest == bucket.longest else f"{bucket.shortest}–{bucket.longest}"
