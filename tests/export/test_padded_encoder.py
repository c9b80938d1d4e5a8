"""A padded rectangle says what the ragged batch says: every encoder and head, filled up on either side."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("transformers")

from clearhead.attention import Layout
from clearhead.export.outputs import OutputSpec, compute_outputs
from clearhead.export.padded_encoder import PADDED_POOLINGS, PaddedEncoder
from clearhead.hub.folder import open_folder
from clearhead.layers import POOLINGS
from clearhead.models.heads import POOLS
from tests.files.hostile import valid
from tests.parity.cases import CASES

LENGTHS = (7, 1, 24, 12)
ENCODERS = [
    case
    for case in CASES
    if case.architecture.startswith(
        ("Bert", "Roberta", "XLMR", "Albert", "Electra", "Distil", "Modern", "T5Enc", "T5ForT")
    )
]


def rectangle(layout: Layout, row: torch.Tensor, side: str) -> torch.Tensor:
    padded = layout.pad(row)
    if side == "right":
        return padded
    return torch.stack([line.roll(padded.shape[1] - n) for line, n in zip(padded, layout.host_lengths, strict=True)])


def both(opened, side):
    """Answers at real tokens: of the ragged batch, of the rectangle."""
    layout, ids = Layout.from_lengths(LENGTHS), torch.randint(4, 30, (sum(LENGTHS),))
    segments = torch.randint(2, ids.shape) if getattr(opened.config.encoder, "num_segments", 0) > 1 else None
    says = OutputSpec.for_model(opened)
    mask = rectangle(layout, torch.ones_like(ids), side)
    given = [rectangle(layout, ids, side), mask, *([] if segments is None else [rectangle(layout, segments, side)])]
    with torch.no_grad():
        outs = dict(zip(says.names, PaddedEncoder(opened.model, says)(*given), strict=True))
        want = compute_outputs(opened.model, says, ids, layout, segments)
    return want, {name: out[mask.bool()] if name in says.of_tokens else out for name, out in outs.items()}


@pytest.mark.parametrize("case", ENCODERS, ids=str)
def test_every_encoder_and_head(case, tmp_path):
    case.make(tmp_path)
    opened = open_folder(tmp_path)
    for side in ("right", "left"):
        want, got = both(opened, side)
        assert want.keys() == got.keys()
        for name in want:
            torch.testing.assert_close(got[name], want[name], atol=3e-6, rtol=0)  # measured: 9.5e-7


@pytest.mark.parametrize("pool", [pool for pool in POOLS if pool != "bidirectional_last"])
def test_every_pooling_of_our_own_heads(pool, tmp_path):
    opened = open_folder(valid(tmp_path / "bert"), head="sequence", labels=("a", "b"), pool=pool)
    for side in ("right", "left"):
        want, got = both(opened, side)
        torch.testing.assert_close(got["logits"], want["logits"], atol=3e-6, rtol=0)


def test_a_text_without_tokens_pools_to_zeros():
    x, seen = torch.randn(6, 4), torch.tensor([[True, True, False], [False, False, False]])
    layout = Layout.from_lengths([2, 0])
    for name, pool in PADDED_POOLINGS.items():
        torch.testing.assert_close(pool(x, seen), POOLINGS[name](x[:2], layout))


def test_what_is_hidden_says_nothing(tmp_path):
    """Other ids behind the mask, or a row that is all mask, change no bit of the others."""
    opened = open_folder(valid(tmp_path / "bert"))
    padded = PaddedEncoder(opened.model, OutputSpec.for_model(opened))
    ids, mask = torch.randint(5, 30, (3, 9)), torch.ones(3, 9, dtype=torch.int64)
    mask[0, 4:], mask[1] = 0, 0
    with torch.no_grad():
        states, pooled = padded(ids, mask, torch.zeros_like(ids))
        other, again = padded(torch.where(mask == 1, ids, 7), mask, torch.zeros_like(ids))
    assert torch.isfinite(states).all() and torch.isfinite(pooled).all()
    assert torch.equal(states[mask == 1], other[mask == 1]) and torch.equal(pooled[[0, 2]], again[[0, 2]])
