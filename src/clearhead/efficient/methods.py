"""Methods: all ways to compute attention efficiently, by the name that recipes use."""

import inspect
from collections.abc import Mapping
from typing import Any

from clearhead.attention.method import AttentionMethod
from clearhead.efficient.gated_linear import GatedLinear
from clearhead.efficient.global_projections import ProjectedLongformer
from clearhead.efficient.low_rank import Linformer, Nystrom
from clearhead.efficient.lsh import LSH
from clearhead.efficient.patterns import BigBird, Longformer, SinkWindow, Strided
from clearhead.efficient.performer import Performer
from clearhead.efficient.selected_blocks import SelectedBlocks
from clearhead.efficient.sorted_chunks import ReformerLocal, ReformerLSH

METHODS: dict[str, type[AttentionMethod]] = {
    method.kind: method
    for method in (
        BigBird,
        Longformer,
        ProjectedLongformer,
        SinkWindow,
        Strided,
        SelectedBlocks,
        LSH,
        Linformer,
        Nystrom,
        Performer,
        GatedLinear,
        ReformerLSH,
        ReformerLocal,
    )
}
"""The methods in place of exact attention, by the `kind` of a recipe."""


def make_method(options: Mapping[str, Any], **sizes: int) -> AttentionMethod:
    """The method that options describe, as in a recipe: its `kind` and its own options.

    `sizes` are those of the model, for methods that have such an option and are not given it.
    """
    values = dict(options)
    kind = values.pop("kind", None)
    if kind not in METHODS:
        raise ValueError(f"there is no attention method {kind!r}: choose {', '.join(METHODS)}")
    known = inspect.signature(METHODS[kind]).parameters
    if unknown := sorted(values.keys() - known.keys()):
        raise ValueError(f"{kind} attention has no option {', '.join(unknown)}: it has {', '.join(known)}")
    return METHODS[kind](**{name: size for name, size in sizes.items() if name in known} | values)
