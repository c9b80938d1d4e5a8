"""Efficient attention: what each method reads in a trained model, its error beside its time and memory.

Every method reads about an eighth of the pairs, or as many features as that. Errors are measured on the queries, keys
and values of the trained model, layer by layer, with exact attention below; `all layers` replaces all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING, Any

from clearhead.analysis.attention_error import candidates, exact_run, method_errors, states_error
from clearhead.attention import Full
from clearhead.efficient import make_method
from clearhead.efficient.cost import peak_megabytes, random_inputs, seconds, slope
from clearhead.models import TransformerConfig
from clearhead.models.attention_methods import with_attention
from clearhead.studies.training import OnProgress, no_progress
from clearhead.viz import Curve, Panel
from clearhead.viz.line_plots import draw_panel
from clearhead.viz.style import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from clearhead.pipeline import Pipeline

LENGTHS = (1024, 2048, 4096, 8192, 16_384, 32_768, 65_536)
EXACT_UP_TO = 16_384  # tokens: exact attention takes four times as long for twice as many
KEYS = 512  # that a query reads in measurements of time


@dataclass(frozen=True)
class MethodResult:
    """One method in the model, by layer and head where the outer tuple is the layers'."""

    method: str
    options: dict[str, Any]  # on the text
    output_error: tuple[tuple[float, ...], ...]  # norm of the difference / norm of the exact output
    weight_error: tuple[tuple[float, ...], ...]  # half of the summed differences of a query's weights: 0 to 1
    missed: tuple[tuple[float, ...], ...]  # exact weight on keys that are not read
    all_layers: float  # error of the hidden states if all layers are replaced
    lengths: tuple[int, ...]
    seconds: tuple[float, ...]  # of one head, forward
    megabytes: float | None  # at the longest length, with inputs and output; None: not measured
    slope: float

    @property
    def mean_output_error(self) -> float:
        return _mean(self.output_error)

    @property
    def mean_weight_error(self) -> float:
        return _mean(self.weight_error)

    @property
    def mean_missed(self) -> float:
        return _mean(self.missed)


@dataclass(frozen=True)
class EfficientResult:
    """Results of the study."""

    model: str
    tokens: int
    head_dim: int
    methods: tuple[MethodResult, ...]  # the first is exact attention

    @property
    def exact(self) -> MethodResult:
        return self.methods[0]


def measure(
    pipeline: Pipeline,
    text: str,
    name: str,
    *,
    lengths: Sequence[int] = LENGTHS,
    max_tokens: int = 4096,
    memory: bool = True,
    on_progress: OnProgress = no_progress,
) -> EfficientResult:
    """Measure the methods on a text, cut to what the model reads, and on random tokens of the given lengths."""
    config = pipeline.loaded.config
    stack = config.encoder or config.decoder
    if not isinstance(stack, TransformerConfig) or stack.patches is not None:
        raise ValueError("this study needs a Transformer that reads text: give another --model")
    tokens = pipeline.tokenizer([text], max_len=min(pipeline.max_len or max_tokens, max_tokens))
    count = len(tokens.ids)
    if count < 64:
        raise ValueError(f"the text has {count} tokens, but the study needs 64 or more: give a longer --text")
    exact, maps = exact_run(pipeline.model, tokens)
    causal, head_dim = not isinstance(maps[0].inputs.mask, Full), maps[0].inputs.q.shape[2]
    chosen = candidates(count, count // 8, causal=causal)
    none = tuple((0.0,) * attention.num_heads for attention in maps)
    results: list[MethodResult] = []
    for number, kind in enumerate(("exact", *chosen)):
        on_progress(kind, number, len(chosen) + 1)
        cost = _cost(kind, [n for n in lengths if kind != "exact" or n <= EXACT_UP_TO], head_dim, causal, memory)
        if kind == "exact":
            results.append(MethodResult(kind, {}, none, none, none, 0.0, *cost))
            continue
        method = make_method(chosen[kind])
        all_layers = states_error(with_attention(pipeline.model, config, method)[0], tokens, exact)
        errors = [method_errors(method, attention) for attention in maps]
        output_error, weight_error, missed = (tuple(layer[i] for layer in errors) for i in range(3))
        results.append(MethodResult(kind, chosen[kind], output_error, weight_error, missed, all_layers, *cost))
    return EfficientResult(name, count, head_dim, tuple(results))


def _cost(
    kind: str, lengths: Sequence[int], head_dim: int, causal: bool, memory: bool
) -> tuple[tuple[int, ...], tuple[float, ...], float | None, float]:
    """The lengths, the time at each, the memory at the longest, and the slope of the time."""

    def options(length: int) -> dict[str, Any] | None:
        return None if kind == "exact" else candidates(length, min(KEYS, length), causal=causal)[kind]

    times = {n: seconds(options(n), random_inputs(n, 1, head_dim, causal=causal)) for n in lengths}
    longest = lengths[-1]
    peak = peak_megabytes(options(longest), longest, 1, head_dim, causal=causal) if memory else None
    return tuple(times), tuple(times.values()), peak, slope(times)


def _mean(values: Sequence[Sequence[float]]) -> float:
    flat = [value for row in values for value in row]
    return sum(flat) / len(flat)


def draw(measured: EfficientResult) -> Figure:
    """Plot the time against the length, and the error of the output in each layer."""
    times = [Curve(m.method, [log2(n) for n in m.lengths], m.seconds, color=i) for i, m in enumerate(measured.methods)]
    lengths = sorted({n for m in measured.methods for n in m.lengths})
    ticks = [(log2(n), f"{n // 1024}k" if n >= 1024 else str(n)) for n in lengths]
    layers = range(len(measured.exact.output_error))
    errors = [
        Curve(m.method, [float(layer) for layer in layers], [sum(row) / len(row) for row in m.output_error], color=i)
        for i, m in enumerate(measured.methods)
        if m.method != "exact"
    ]
    title = f"error of the output, {measured.tokens} tokens, 1/8 of the keys"
    with new_figure(13.2, 4.6, f"Efficient attention in {measured.model}") as figure:
        time = Panel(times, "tokens", "seconds, one head, forward", "time", y_scale="log", ticks=ticks)
        draw_panel(figure.add_subplot(1, 2, 1), time, 4.6)
        whole = [(float(layer), str(layer)) for layer in layers]
        error = Panel(errors, "layer", "relative error", title, ticks=whole)
        draw_panel(figure.add_subplot(1, 2, 2), error, 4.6)
    return figure
