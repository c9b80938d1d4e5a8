"""Compares an exported encoder with the original: outputs and speed."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.attention import Layout
from clearhead.export.outputs import OutputSpec, compute_outputs
from clearhead.hub.folder import LoadedModel

Run = Callable[[Tensor, Layout, Tensor | None], dict[str, Tensor]]
"""Maps ids (N,), their layout and segments (N,) to outputs by name: (N, …) per token, (B, …) per text."""
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
    "every word passes alone through two layers, and the next block begins with what has been gathered so far.",
)
COPIES = 4  # of a text in a batch: equal lengths, so that neither model pays for padding
MEASURE_SECONDS = 2.0  # for both models together


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The maximum absolute differences of an exported model, the largest absolute output, and both speeds."""

    max_diff_single: float  # each text as its own batch
    max_diff_batch: float  # all texts in one batch
    max_abs_output: float
    sequences_per_s: float  # sequences per second
    original_sequences_per_s: float  # sequences per second of the original


def ragged(loaded: LoadedModel) -> Run:
    """Returns a function that runs a loaded model on ragged batches."""
    spec = OutputSpec.for_model(loaded)

    @torch.inference_mode()
    def run(ids: Tensor, layout: Layout, segments: Tensor | None) -> dict[str, Tensor]:
        return {name: out.float() for name, out in compute_outputs(loaded.model, spec, ids, layout, segments).items()}

    return run


def compare_exported(loaded: LoadedModel, exported: Run, *, seconds: float = MEASURE_SECONDS) -> Comparison:
    """Runs both models on the same short and long texts; returns differences and speeds."""
    original = ragged(loaded)
    tokens = loaded.require_tokenizer(TEXTS, max_len=loaded.max_len, offsets=False)
    segments = tokens.segments if loaded.has_segments else None
    batch_of_all = tokens.ids, tokens.layout, segments
    singles = _split(*batch_of_all)
    expected = [original(*batch) for batch in singles]
    alone = max(map(_difference, (exported(*batch) for batch in singles), expected))
    together = _difference(exported(*batch_of_all), {n: torch.cat([e[n] for e in expected]) for n in expected[0]})
    batches = [_repeat(*batch) for batch in singles]
    speeds = _speeds((exported, original), batches, COPIES * len(TEXTS), seconds)
    largest = max(float(out.abs().max()) for e in expected for out in e.values())
    return Comparison(
        max_diff_single=alone,
        max_diff_batch=together,
        max_abs_output=largest,
        sequences_per_s=speeds[0],
        original_sequences_per_s=speeds[1],
    )


def _difference(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    assert actual.keys() == expected.keys()
    return max(float((actual[name] - expected[name]).abs().max()) for name in expected)


def _split(ids: Tensor, layout: Layout, segments: Tensor | None) -> list[Batch]:
    parts = [None] * layout.num_sequences if segments is None else layout.split(segments)
    return [
        (part, Layout.from_lengths([len(part)]), segment)
        for part, segment in zip(layout.split(ids), parts, strict=True)
    ]


def _repeat(ids: Tensor, layout: Layout, segments: Tensor | None) -> Batch:
    repeated = None if segments is None else segments.repeat(COPIES)
    return ids.repeat(COPIES), Layout.from_lengths([len(ids)] * COPIES), repeated


def _speeds(runs: tuple[Run, ...], batches: list[Batch], texts: int, seconds: float) -> list[float]:
    """Returns sequences per second: the runs alternate, and the best round of each counts."""
    best = [float("inf")] * len(runs)
    end = time.perf_counter() + seconds
    for round in range(1_000_000):
        for i, run in enumerate(runs):
            begin = time.perf_counter()
            for batch in batches:
                run(*batch)
            best[i] = min(best[i], time.perf_counter() - begin)
        if round >= 2 and time.perf_counter() > end:
            break
    return [texts / duration for duration in best]
