"""Configuration of a Transformer stack: its sizes and the kinds of its layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from clearhead.efficient import AttentionMethod, make_method
from clearhead.layers import RopeScaling
from clearhead.vision import PatchConfig

Positions = Literal[
    "sinusoidal", "sinusoidal_concat", "sinusoidal_fairseq", "learned", "axial", "rotary", "alibi", "t5", "none"
]


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The sizes and layer kinds of one stack."""

    vocab_size: int = 1  # unused if tokens are patches
    width: int
    num_layers: int
    num_heads: int
    ffn_dim: int  # inner width of the feed-forward layers
    max_len: int = 512
    num_kv_heads: int | None = None  # None: num_heads
    head_dim: int | None = None  # None: width / num_heads
    context_width: int | None = None  # of the encoder output that cross-attention reads; None: width
    num_groups: int | None = None  # layers of a group share weights (ALBERT); None: no sharing

    patches: PatchConfig | None = None  # tokens are image patches
    embedding_width: int | None = None  # None: width
    embedding_norm: bool = False
    num_segments: int = 0
    scale_embeddings: bool | None = None  # multiply token vectors by sqrt(width); None: if positions are sinusoidal

    positions: Positions = "sinusoidal"
    position_offset: int = 0  # rows of the table before the first position
    axes: tuple[tuple[int, int], tuple[int, int]] | None = None  # of axial positions: count and width of both
    rotary_base: float = 10_000.0
    rope_scaling: RopeScaling | None = None
    num_buckets: int = 32  # T5's
    max_distance: int = 128
    window: tuple[int, int] | None = None  # tokens before and after that local layers attend to
    local_layers: tuple[int, ...] = ()
    local_rotary_base: float | None = None  # None: rotary_base, if positions are rotary

    norm: Literal["layer", "rms"] = "layer"
    norm_eps: float = 1e-5
    norm_bias: bool = True
    norm_first: bool = False
    norm_of_embedding: bool = False  # the embedding's norm replaces the first pre-norm (ModernBERT)
    activation: str = "relu"
    gated: bool = False
    bias: bool = True  # of the feed-forward layers; default of attention_bias
    attention_bias: bool | None = None
    output_bias: bool | None = None  # None: attention_bias
    qk_norm: bool = False
    scaled_scores: bool = True
    reversible: bool = False  # two residual streams, whose output is twice as wide (Reformer)
    layer_scale: float | None = None  # sublayers are scaled by a vector that starts at this value; None: not

    dropout: float = 0.1
    attention_dropout: float = 0.0
    hidden_dropout: float = 0.0  # inside the feed-forward layers
    embedding_dropout: float | None = None  # None: dropout
    kernel: str = "auto"
    # methods that replace exact self-attention: {"kind": ..., its options, "layers": [...] (default: all)}
    attention: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if str(field.type).startswith("int") and value is not None:
                may_be_0 = (*(("num_layers",) if self.patches else ()), "num_segments", "position_offset")
                minimum = 0 if field.name in may_be_0 else 1
                _check_count(field.name, value, minimum, 10_000 if field.name == "num_layers" else 2**31)
            elif "float" in str(field.type) and value is not None and (not _is_number(value) or value < 0):
                raise ValueError(f"{field.name} is {value!r}: it must be a number, 0 or more")
            elif str(field.type).startswith("bool") and value is not None and not isinstance(value, bool):
                raise ValueError(f"{field.name} is {value!r}: it must be true or false")
        for name in ("dropout", "attention_dropout", "hidden_dropout", "embedding_dropout"):
            if not 0.0 <= (getattr(self, name) or 0.0) < 1.0:
                raise ValueError(
                    f"{name} is {getattr(self, name)}: it must be a probability from 0 up to, not including, 1"
                )
        if self.positions not in Positions.__args__:
            raise ValueError(f"there are no {self.positions!r} positions: choose {', '.join(Positions.__args__)}")
        if bool(self.local_layers) != (self.window is not None):
            raise ValueError(
                "local_layers and window must be given together: which layers are local, and how far they attend"
            )

        if (self.positions == "axial") != (self.axes is not None):
            raise ValueError("axial positions and axes must be given together: the count and width of rows and columns")
        if self.axes is not None and sum(width for _, width in self.axes) != (self.embedding_width or self.width):
            raise ValueError(f"axes are {self.axes}: their widths must add up to the width of the embedding")
        if self.reversible and not self.norm_first:
            raise ValueError("reversible blocks are pre-norm: set norm_first")

    @property
    def max_positions(self) -> int | None:
        """The maximum length of a sequence; None if positions are unlimited."""
        return None if self.positions in ("t5", "alibi", "none") else self.max_len

    @property
    def encoded_width(self) -> int:
        """The width of an encoder's outputs."""
        return 2 * self.width if self.reversible else self.width


def methods_by_layer(config: TransformerConfig) -> list[dict[str, Any] | None]:
    """The options of the method of each layer; None: exact attention. Of several methods, the last counts."""
    result: list[dict[str, Any] | None] = [None] * config.num_layers
    for given in config.attention:
        options = dict(given)
        layers = options.pop("layers", None)
        for layer in range(config.num_layers) if layers is None else layers:
            if isinstance(layer, bool) or not isinstance(layer, int) or not 0 <= layer < config.num_layers:
                raise ValueError(f"attention.layers has {layer!r}: layers are 0 to {config.num_layers - 1}")
            result[layer] = options
    return result


def method_for(config: TransformerConfig, options: Mapping[str, Any]) -> AttentionMethod:
    """The method that options describe, with the sizes of this model where they are not given."""
    head_dim = config.head_dim or config.width // config.num_heads
    sizes = {"width": config.width, "num_heads": config.num_heads, "head_dim": head_dim, "max_len": config.max_len}
    return make_method(options, **sizes)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value and abs(value) < 1e12


def _check_count(name: str, value: object, minimum: int, maximum: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise ValueError(f"{name} is {value!r}: it must be an integer from {minimum} to {maximum}")


PRESETS: dict[str, TransformerConfig] = {
    "tiny": TransformerConfig(vocab_size=8_000, width=128, num_layers=2, num_heads=4, ffn_dim=512),
    "mini": TransformerConfig(vocab_size=8_000, width=256, num_layers=4, num_heads=4, ffn_dim=1024),
    "small": TransformerConfig(vocab_size=8_000, width=256, num_layers=3, num_heads=4, ffn_dim=1024),
    "base": TransformerConfig(
        vocab_size=37_000, width=512, num_layers=6, num_heads=8, ffn_dim=2048
    ),  # Vaswani et al. 2017
}
"""Sizes of stacks, by name; `base` is that of Vaswani et al. 2017."""
