"""Longer positions: a trained model that reads longer texts than it was trained on."""

from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.layers import LearnedPositions, RopeScaling
from clearhead.models.model import Model, ModelConfig, shared_copy
from clearhead.models.transformer import TransformerStack, make_local, make_positions, make_rotary
from clearhead.models.transformer_config import TransformerConfig

PositionMethod = Literal["repeat", "interpolate"]


def with_max_len(
    model: Model, config: ModelConfig, max_len: int, positions: PositionMethod = "repeat"
) -> tuple[Model, ModelConfig]:
    """A model that shares all weights but its positions with this one, and reads texts of up to `max_len` tokens.

    Learned positions are repeated, so that neighbours stay neighbours (Beltagy et al. 2020, section 5), or
    interpolated. Rotary positions are interpolated (Chen et al. 2023, section 2.3). Sinusoidal tables get more rows.
    """
    name = "encoder" if config.encoder is not None else "decoder"
    settings, stack = getattr(config, name), getattr(model, name)
    if not isinstance(settings, TransformerConfig) or not isinstance(stack, TransformerStack):
        raise ValueError(f"the {name} of this model is no Transformer: its texts have no maximum length")
    if positions not in PositionMethod.__args__:
        raise ValueError(f"there is no way {positions!r} to extend positions: choose repeat or interpolate")
    if settings.max_positions is None or settings.patches is not None:
        raise ValueError("the positions of this model do not limit the length of its texts")
    if isinstance(max_len, bool) or not isinstance(max_len, int) or max_len < settings.max_len:
        raise ValueError(
            f"max_len is {max_len!r}: it must be a whole number, at least {settings.max_len}, the present one"
        )
    longer = replace(settings, max_len=max_len)
    if settings.positions == "rotary" and max_len > settings.max_len:
        longer = replace(longer, rope_scaling=_scaling(settings, max_len, positions))
    changed = shared_copy(model)
    new: TransformerStack = getattr(changed, name)
    if settings.positions == "rotary":
        new.rotary, new.local = make_rotary(longer, longer.rotary_base), make_local(longer)
    else:
        table = make_positions(longer)
        assert table is not None
        old = stack.embedding.positions
        if isinstance(old, LearnedPositions) and isinstance(table, LearnedPositions):
            weight = _longer_table(old.table.weight.detach(), settings, max_len, positions)
            table.table.weight = nn.Parameter(weight, requires_grad=old.table.weight.requires_grad)
        new.embedding.positions = table.to(next(model.parameters()).device)
    return changed, replace(config, **{name: longer})


def _longer_table(table: Tensor, settings: TransformerConfig, max_len: int, positions: PositionMethod) -> Tensor:
    """A table of `max_len` positions after the offset's rows, (offset + max_len, D)."""
    skipped, rows = table[: settings.position_offset], table[settings.position_offset :]
    if positions == "repeat":
        longer = rows.repeat(-(-max_len // len(rows)), 1)[:max_len]
    else:
        shape = rows.T.unsqueeze(0)  # (1, D, length)
        longer = F.interpolate(shape, size=max_len, mode="linear", align_corners=True)[0].T
    return torch.cat([skipped, longer]).contiguous()


def _scaling(settings: TransformerConfig, max_len: int, positions: PositionMethod) -> RopeScaling:
    if positions == "repeat":
        raise ValueError("rotary positions are angles, which are not repeated: choose interpolate")
    if settings.rope_scaling is not None:
        raise ValueError("the rotary positions of this model are scaled already: load its original")
    return RopeScaling(factor=max_len / settings.max_len)
