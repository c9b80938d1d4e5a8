"""Encoder-decoder bottleneck: BLEU by source length, with and without attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from clearhead.metrics.evaluation import bleu_scores
from clearhead.pipeline import load
from clearhead.studies import demo
from clearhead.studies.dates import pairs, split
from clearhead.studies.training import OnProgress, no_progress
from clearhead.viz import Curve, Panel, draw_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STARTS = (1, 8, 11, 14, 17, 21)  # minimum number of words of each bucket
BOOTSTRAP_SAMPLES = 1000
BOOTSTRAP_SEED = 1


@dataclass(frozen=True)
class LengthBucket:
    """Sources of similar length and the BLEU of their translations."""

    shortest: int  # words
    longest: int
    sentences: int
    bleu: float
    low: float  # 95 % confidence interval (bootstrap)
    high: float


@dataclass(frozen=True)
class TranslatorScores:
    """Scores of one model on the test sentences."""

    label: str
    parameters: int
    bleu: float
    chrf: float
    buckets: tuple[LengthBucket, ...]


@dataclass(frozen=True)
class BottleneckResult:
    """Results of the study."""

    sentences: int
    beam: int
    translators: tuple[TranslatorScores, ...]


def measure(
    models: Mapping[str, Path],
    sources: Sequence[str],
    references: Sequence[str],
    *,
    beam: int = 5,
    starts: Sequence[int] = STARTS,
    samples: int = BOOTSTRAP_SAMPLES,
    on_progress: OnProgress = no_progress,
) -> BottleneckResult:
    """Return BLEU by source length for each model, given as label and folder (of the model or its run)."""
    if not models:
        raise ValueError("no model to measure: pass at least one")
    if len(sources) != len(references) or not sources:
        raise ValueError(f"{len(sources)} sources and {len(references)} references: pass equally many, at least one")
    translators: list[TranslatorScores] = []
    for index, (label, folder) in enumerate(models.items()):
        on_progress("translating", index, len(models))
        pipeline = load(folder / "model" if (folder / "model").is_dir() else folder)
        predicted = [t.text for t in pipeline.translate(sources, beam=beam)]
        overall = bleu_scores(predicted, references)
        buckets = tuple(
            _bucket([sources[i] for i in part], [predicted[i] for i in part], [references[i] for i in part], samples)
            for part in by_length(sources, starts)
        )
        size = sum(p.numel() for p in pipeline.model.parameters())
        translators.append(TranslatorScores(label, size, overall["bleu"], overall["chrf"], buckets))
    on_progress("translating", len(models), len(models))
    return BottleneckResult(len(sources), beam, tuple(translators))


def by_length(sources: Sequence[str], starts: Sequence[int] = STARTS) -> list[list[int]]:
    """Return the indices of the sources in each bucket, shortest first; empty buckets are omitted."""
    lengths = [len(source.split()) for source in sources]
    edges = [0, *starts[1:], max(lengths) + 1]
    parts = ([i for i, n in enumerate(lengths) if low <= n < high] for low, high in pairwise(edges))
    return [part for part in parts if part]


def _bucket(sources: Sequence[str], predicted: Sequence[str], references: Sequence[str], samples: int) -> LengthBucket:
    lengths = [len(source.split()) for source in sources]
    low, high = interval(predicted, references, samples)
    return LengthBucket(min(lengths), max(lengths), len(sources), bleu_scores(predicted, references)["bleu"], low, high)


def interval(
    predicted: Sequence[str], references: Sequence[str], samples: int = BOOTSTRAP_SAMPLES
) -> tuple[float, float]:
    """Return the 95 % confidence interval of corpus BLEU, by bootstrap resampling of sentences (Koehn 2004)."""
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU()
    each = [bleu.corpus_score([s], [[r]]) for s, r in zip(predicted, references, strict=True)]
    counts = np.array([(*e.counts, *e.totals, e.sys_len, e.ref_len) for e in each])  # (sentences, 10)
    drawn = np.random.default_rng(BOOTSTRAP_SEED).integers(len(each), size=(samples, len(each)))
    scores: list[float] = []
    for sums in counts[drawn].sum(axis=1).tolist():
        matched, total, predicted_len, reference_len = sums[:4], sums[4:8], sums[8], sums[9]
        score = bleu.compute_bleu(matched, total, predicted_len, reference_len, smooth_method=bleu.smooth_method)
        scores.append(score.score)
    low, high = np.percentile(scores, (2.5, 97.5)).tolist()
    return round(low, 2), round(high, 2)


def quick(
    folder: Path, *, seed: int = 1, seconds: float = 1.0, tested: int = 30, on_progress: OnProgress = no_progress
) -> BottleneckResult:
    """Run the study on briefly trained tiny models of the demo, as a quick check."""
    demo.measure(folder, seconds=seconds, seed=seed, examples=500, tested=5, on_progress=on_progress)
    test = pairs(split(seed)["test"], tested, seed)
    models = {label: folder / name for label, name in demo.FOLDERS.items()}
    sources, targets = [pair.source for pair in test], [pair.target for pair in test]
    return measure(models, sources, targets, beam=1, starts=(1, 8, 14), samples=100, on_progress=on_progress)


def draw(measured: BottleneckResult) -> Figure:
    """Plot BLEU against source length with 95 % confidence intervals."""
    buckets = measured.translators[0].buckets
    x = [float(i) for i in range(len(buckets))]
    curves = [
        Curve(t.label, x, [b.bleu for b in t.buckets], [b.low for b in t.buckets], [b.high for b in t.buckets])
        for t in measured.translators
    ]
    ticks = [(float(i), f"{_span(b)}\n({b.sentences:,})") for i, b in enumerate(buckets)]
    top = max(b.high for t in measured.translators for b in t.buckets)
    y_range = 0.0, min(100.0, 5 * (top // 5 + 1))
    labels = "words in the source (number of sentences)", "BLEU, with 95 % confidence intervals"
    panel = Panel(curves, *labels, y_range=y_range, ticks=ticks)
    return draw_curves([panel], "Translation quality by source length", width=7.4, height=4.2)


def _span(bucket: LengthBucket) -> str:
    return str(bucket.shortest) if bucket.shortest == bucket.longest else f"{bucket.shortest}–{bucket.longest}"
