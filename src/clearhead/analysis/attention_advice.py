"""Attention advice: the fastest attention of each layer for long texts whose error stays below a limit.

Errors are measured in the model on a text, layer by layer; times and memory on random tokens of the wanted length.
Where the model reads fewer tokens than that, a method is tried with options that read the same share of the keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clearhead.analysis.attention_error import candidates, exact_run, method_errors, states_error
from clearhead.attention import Full
from clearhead.efficient import make_method
from clearhead.efficient.cost import peak_megabytes, random_inputs, seconds
from clearhead.hub.folder import LoadedModel
from clearhead.models import TransformerConfig
from clearhead.models.attention_methods import entries_with_layers, with_attention

SHARES = (32, 16, 8, 4)  # a query reads 1 / this of the keys
MIN_KEYS = 64  # fewer are not worth a method
MIN_TOKENS = 128
MAX_TOKENS = 4096  # of the text on which errors are measured


@dataclass(frozen=True, eq=False)
class Choice:
    """A method that was tried in all layers; exact attention has no options."""

    options: dict[str, Any] | None  # for the wanted length
    tried: dict[str, Any] | None  # for the tokens of the text
    errors: tuple[float, ...]  # of the output, by layer: the mean of its heads
    seconds: float  # of one layer at the wanted length

    @property
    def name(self) -> str:
        return "exact" if self.options is None else str(self.options["kind"])


@dataclass(frozen=True)
class Advice:
    """The advised attention of each layer."""

    length: int
    tokens: int  # of the text
    max_error: float
    layers: tuple[Choice, ...]
    exact_seconds: float  # of one layer
    megabytes: float  # the most that one layer needs, with its inputs and output
    error: float  # of the hidden states on the text, with all layers as advised

    @property
    def speedup(self) -> float:
        """Exact time / advised time of all layers' attention."""
        return self.exact_seconds * len(self.layers) / sum(choice.seconds for choice in self.layers)

    @property
    def attention(self) -> list[dict[str, Any]]:
        """The value of `model.attention` in a recipe."""
        return entries_with_layers([choice.options for choice in self.layers])


def advise_attention(
    loaded: LoadedModel,
    text: str,
    *,
    length: int,
    max_error: float = 0.1,
    max_megabytes: float = float("inf"),
    on_progress: Callable[[str, int, int], object] = lambda name, step, steps: None,
) -> Advice:
    """Try methods that read a thirty-second to a quarter of the keys, and choose for each layer."""
    stack = loaded.config.encoder or loaded.config.decoder
    if not isinstance(stack, TransformerConfig) or stack.patches is not None:
        raise ValueError(f"{loaded.architecture} is no Transformer that reads text: there is nothing to advise")
    limit = min(n for n in (loaded.max_len, length, MAX_TOKENS) if n is not None)
    tokens = loaded.require_tokenizer([text], max_len=limit)
    count = len(tokens.ids)
    if count < MIN_TOKENS:
        raise ValueError(
            f"errors are measured on {count} tokens, but that needs {MIN_TOKENS} or more: give a longer text, and a "
            "model that reads it"
        )
    exact, maps = exact_run(loaded.model, tokens)
    sizes = maps[0].num_heads, maps[0].inputs.q.shape[2]
    causal = not isinstance(maps[0].inputs.mask, Full)
    one_head = random_inputs(length, 1, sizes[1], causal=causal)
    choices = [Choice(None, None, (0.0,) * len(maps), seconds(None, one_head, 1) * sizes[0])]
    pairs = _pairs(length, count, causal)
    for number, (options, tried) in enumerate(pairs):
        on_progress(str(options["kind"]), number, len(pairs))
        spent = seconds(options, one_head, 1 if length > 8192 else 3) * sizes[0]
        if spent < choices[0].seconds:  # a method that is slower than exact attention is never advised
            errors = [method_errors(make_method(tried), attention)[0] for attention in maps]
            choices.append(Choice(options, tried, tuple(sum(row) / len(row) for row in errors), spent))
    layers, megabytes = _choose(
        choices, len(maps), max_error, max_megabytes, lambda c: peak_megabytes(c.options, length, *sizes, causal=causal)
    )
    model, config = loaded.model, loaded.config
    for layer, choice in enumerate(layers):
        if choice.tried is not None:
            model, config = with_attention(model, config, make_method(choice.tried), [layer])
    error = states_error(model, tokens, exact)
    return Advice(length, count, max_error, layers, choices[0].seconds, megabytes, error)


def _pairs(length: int, count: int, causal: bool) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Options for the wanted length, and those that read the same share of the keys of a text of `count` tokens."""
    result: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for share in SHARES:
        if length // share >= MIN_KEYS:
            short = candidates(count, max(8, count // share), causal=causal)
            result += [(o, short[kind]) for kind, o in candidates(length, length // share, causal=causal).items()]
    return result


def _choose(
    choices: list[Choice], num_layers: int, max_error: float, max_megabytes: float, memory: Callable[[Choice], float]
) -> tuple[tuple[Choice, ...], float]:
    """The fastest choice of each layer within both limits, and the memory of the largest one."""
    used: dict[int, float] = {}
    while True:
        layers: list[Choice] = []
        for layer in range(num_layers):
            near = [c for c in choices if c.errors[layer] <= max_error]
            if not near:
                raise ValueError(
                    f"no attention of layer {layer} with an error of at most {max_error} needs less than "
                    f"{max_megabytes:,.0f} MB: allow more of either"
                )
            layers.append(min(near, key=lambda c: c.seconds))
        used |= {id(c): memory(c) for c in set(layers) if id(c) not in used}
        large = [c for c in layers if used[id(c)] > max_megabytes]
        if not large:
            return tuple(layers), max(used[id(c)] for c in layers)
        choices = [c for c in choices if c not in large]
