"""Longer positions: the same model for short texts, and texts longer than it was trained on."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from clearhead.attention import Layout
from clearhead.layers import RopeScaling, Rotary
from clearhead.models import HeadConfig, Model, ModelConfig, TransformerConfig, TransformerStack, build
from clearhead.models.longer_positions import with_max_len


def make(positions: str, offset: int = 0, **options: object) -> tuple[Model, ModelConfig]:
    torch.manual_seed(0)
    settings = {
        "vocab_size": 20,
        "width": 8,
        "num_layers": 2,
        "num_heads": 2,
        "ffn_dim": 16,
        "max_len": 10,
        "dropout": 0.0,
    }
    stack = TransformerConfig(**settings, positions=positions, position_offset=offset, **options)  # type: ignore[arg-type]
    config = ModelConfig(encoder=stack, head=HeadConfig(kind="token", width=8, vocab_size=20, labels=("a", "b")))
    return build(config).eval(), config


def table(model: Model) -> Tensor:
    return model.state_dict()["encoder.embedding.positions.table.weight"]


def rotary(model: Model) -> Rotary:
    assert isinstance(model.encoder, TransformerStack) and model.encoder.rotary is not None
    return model.encoder.rotary


IDS = torch.arange(10) % 20


@pytest.mark.parametrize(("positions", "offset"), [("learned", 0), ("learned", 2), ("sinusoidal", 0)])
def test_short_texts_are_unchanged(positions: str, offset: int) -> None:
    model, config = make(positions, offset)
    longer, new = with_max_len(model, config, 35)
    layout = Layout.from_lengths([7, 3])
    torch.testing.assert_close(longer(IDS, layout), model(IDS, layout), rtol=0, atol=0)
    assert (
        isinstance(new.encoder, TransformerConfig) and new.encoder.max_len == 35 and config.encoder is not new.encoder
    )
    assert longer(torch.arange(35) % 20, Layout.from_lengths([35])).shape == (35, 2)
    with pytest.raises(ValueError, match="positions end at 9"):
        model(torch.arange(11) % 20, Layout.from_lengths([11]))
    own = {id(p) for p in longer.parameters()} - {id(p) for p in model.parameters()}
    assert len(own) == (positions == "learned")  # all other weights are shared
    rebuilt = build(new)
    rebuilt.load_state_dict(longer.state_dict())
    torch.testing.assert_close(rebuilt.eval()(IDS, layout), longer(IDS, layout))


def test_tables_are_repeated_or_interpolated() -> None:
    model, config = make("learned", 2)
    old = table(model)
    repeated = table(with_max_len(model, config, 25, "repeat")[0])
    interpolated = table(with_max_len(model, config, 25, "interpolate")[0])
    torch.testing.assert_close(repeated, torch.cat([old, old[2:], old[2:7]]))
    torch.testing.assert_close(interpolated[[0, 1, 2, -1]], old[[0, 1, 2, -1]])
    middle = 2 + 9 * 8 / 24  # position 8 of 25 lies at 3 of the ten old ones
    torch.testing.assert_close(interpolated[2 + 8], old[int(middle)])


def test_rotary_positions_are_interpolated() -> None:
    """A text of twice the length at half the frequencies: its even tokens have the angles of the short one."""
    model, config = make("rotary")
    longer, new = with_max_len(model, config, 20, "interpolate")
    assert isinstance(new.encoder, TransformerConfig) and new.encoder.rope_scaling == RopeScaling(factor=2.0)
    x = torch.randn(10, 2, 4)
    turned = rotary(model)(torch.arange(10))(x)
    torch.testing.assert_close(rotary(longer)(torch.arange(0, 20, 2))(x), turned)


@pytest.mark.parametrize(
    ("positions", "max_len", "how", "message"),
    [
        ("learned", 9, "repeat", "at least 10, the present one"),
        ("learned", "20", "repeat", "it must be a whole number"),
        ("learned", 20, "stretch", "choose repeat or interpolate"),
        ("rotary", 20, "repeat", "choose interpolate"),
        ("alibi", 20, "repeat", "do not limit the length"),
    ],
)
def test_refusals(positions: str, max_len: int, how: str, message: str) -> None:
    model, config = make(positions)
    with pytest.raises(ValueError, match=message):
        with_max_len(model, config, max_len, how)  # type: ignore[arg-type]
