"""Scenes of attention methods: what each one reads beside exact attention, on the same queries and keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from clearhead.analysis.attention_error import candidates, exact_run, few_keys
from clearhead.attention import AttentionMap, Full
from clearhead.attention.capture.bins import Pool
from clearhead.efficient import AttentionMethod, make_method
from clearhead.hub.folder import LoadedModel
from clearhead.models import TransformerConfig
from clearhead.viz.scene import Scene, SceneAxis, SceneInput, SceneLayer
from clearhead.viz.sources import Captured, WeightsAlone, pooled
from clearhead.viz.token_labels import token_labels


@dataclass(frozen=True, eq=False)
class Missed(WeightsAlone):
    """The exact weights on the keys that a method does not read."""

    exact: AttentionMap
    used: AttentionMap

    @property
    def num_heads(self) -> int:
        return self.exact.num_heads

    @property
    def shape(self) -> tuple[int, int]:
        return self.exact.shape()

    def head(self, head: int) -> Tensor:
        return self._rows(head, slice(None))

    def tile(self, head: int, queries: slice, keys: slice, size: tuple[int, int], pool: Pool) -> Tensor:
        return pooled(self._rows(head, queries)[:, keys], size, pool)

    def _rows(self, head: int, queries: slice) -> Tensor:
        return self.exact.rows(queries, head).masked_fill(self.used.rows(queries, head) != 0, 0.0)


def method_scene(
    loaded: LoadedModel,
    text: str,
    methods: Sequence[str] | Mapping[str, AttentionMethod],
    *,
    layers: Sequence[str] | None = None,
    title: str = "",
) -> Scene:
    """Return the exact attention of each layer, that of each method on the same queries and keys, and what it missed.

    Methods are given with their names, or by name alone: then a query reads about an eighth of the keys. `missed` is
    the exact weight on keys that are not read; methods that read all keys have none.
    """
    stack = loaded.config.encoder or loaded.config.decoder
    if not isinstance(stack, TransformerConfig) or stack.patches is not None:
        raise ValueError(f"{loaded.architecture} is no Transformer that reads text: its attention has no other methods")
    tokenizer = loaded.require_tokenizer
    tokens = tokenizer([text], max_len=loaded.max_len)
    _, maps = exact_run(loaded.model, tokens)
    name = "decoder" if loaded.config.encoder is None else "encoder"
    exact = {f"{name}.{i}": one for i, one in enumerate(maps)}
    if unknown := [name for name in layers or () if name not in exact]:
        raise ValueError(f"there is no layer {unknown[0]!r}; there are {', '.join(exact)}")
    if not isinstance(methods, Mapping):
        methods = _named(methods, len(tokens.ids), causal=not isinstance(maps[0].inputs.mask, Full))
    found: list[SceneLayer] = []
    for name in layers or exact:
        found.append(SceneLayer(name, "self", 0, 0, Captured(exact[name])))
        for label, method in methods.items():
            used = AttentionMap(exact[name].inputs, method=method)
            found.append(SceneLayer(f"{name} {label}", "self", 0, 0, Captured(used)))
            if method.exact_inputs(exact[name].inputs) is not None:
                found.append(SceneLayer(f"{name} {label} missed", "self", 0, 0, Missed(exact[name], used)))
    labels = token_labels(tokenizer.tokens(tokens.ids.tolist()), set(tokenizer.specials.values()))
    given = SceneInput(text if len(text) <= 60 else f"{text[:59]}…", (SceneAxis("text", labels),), tuple(found))
    return Scene((given,), title or given.label, loaded.architecture)


def _named(names: Sequence[str], length: int, *, causal: bool) -> dict[str, AttentionMethod]:
    known = candidates(length, few_keys(length), causal=causal)
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"there is no method {unknown[0]!r} for this model: choose {', '.join(known)}")
    return {name: make_method(known[name]) for name in names}
