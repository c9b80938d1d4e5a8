"""Weights that are initialized one after the other have the bits of those of a model that is built in one piece."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clearhead.distributed.deferred_init import InitRecorder
from clearhead.models import ModelConfig, TransformerConfig, build
from clearhead.models.heads import HeadConfig
from clearhead.models.recurrent import RecurrentConfig
from clearhead.train.init_model import initialize

SIZES: dict[str, Any] = {"vocab_size": 50, "width": 16, "num_heads": 2, "num_layers": 2, "ffn_dim": 32}
LM = HeadConfig(kind="lm", width=16, vocab_size=50)
CONFIGS = {
    "tied decoder": ModelConfig(decoder=TransformerConfig(**SIZES), head=LM),
    "untied": ModelConfig(decoder=TransformerConfig(**SIZES), head=replace(LM, tied=False)),
    "learned positions": ModelConfig(encoder=TransformerConfig(**SIZES, positions="learned", num_segments=2)),
    "rotary": ModelConfig(decoder=TransformerConfig(**SIZES, positions="rotary", norm="rms", gated=True, qk_norm=True)),
    "t5": ModelConfig(encoder=TransformerConfig(**SIZES, positions="t5"), decoder=TransformerConfig(**SIZES)),
    "shared layers": ModelConfig(encoder=TransformerConfig(**SIZES, num_groups=1, layer_scale=0.1)),
    "gru": ModelConfig(decoder=RecurrentConfig(kind="gru", vocab_size=50, width=16, hidden_size=24)),
    "classifier": ModelConfig(
        encoder=TransformerConfig(**SIZES), head=HeadConfig(kind="sequence", width=16, labels=("a", "b"))
    ),
}


def deferred(config: ModelConfig) -> tuple[nn.Module, dict[str, Tensor], list[str]]:
    """The model on the meta device, its weights as they are initialized, and their order."""
    values: dict[str, Tensor] = {}
    order: list[str] = []

    def place(name: str, value: Tensor) -> None:
        values[name] = value.clone()
        order.append(name)

    with InitRecorder() as recorder:
        model = initialize(build(config))
    assert all(param.is_meta for param in model.parameters())
    recorder.replay(recorder.parameters(model), place)
    return model, values, order


@pytest.mark.parametrize("name", CONFIGS)
def test_the_bits_and_the_numbers_drawn_are_those_of_a_model_in_one_piece(name):
    torch.manual_seed(3)
    whole = dict(initialize(build(CONFIGS[name])).named_parameters())
    state = torch.get_rng_state()
    torch.manual_seed(3)
    _, values, order = deferred(CONFIGS[name])
    assert sorted(order) == sorted(whole), "each once"
    for key, param in whole.items():
        assert torch.equal(values[key], param) and values[key].dtype == param.dtype, key
    assert torch.equal(torch.get_rng_state(), state)


def test_buffers_are_real():
    model, _, _ = deferred(CONFIGS["rotary"])
    assert not any(buffer.is_meta for buffer in model.buffers())


class Odd(nn.Module):
    """What models of the package do not do today: a view that is changed, a product, a value that is read later."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(30, 4, padding_idx=2)
        self.scaled = nn.Parameter(torch.randn(3, 5) * 0.1)
        self.copied = nn.Parameter(self.table.weight.detach().t().clone())
        self.constant = nn.Parameter(torch.full((2,), 7.0))
        with torch.no_grad():
            self.scaled[1:, ::2].mul_(3.0)
            self.scaled += 1.0


def test_views_products_and_copies_are_run_too():
    torch.manual_seed(5)
    whole = dict(Odd().named_parameters())
    torch.manual_seed(5)
    with InitRecorder() as recorder:
        model = Odd()
    values: dict[str, Tensor] = {}
    recorder.replay(recorder.parameters(model), lambda name, value: values.update({name: value.clone()}))
    assert values.keys() == whole.keys()
    assert all(torch.equal(values[name], param) for name, param in whole.items())


def test_a_weight_without_values_is_refused():
    """torch's `trunc_normal_` does nothing on the meta device: else the shards would hold whatever was in memory."""
    with InitRecorder() as recorder:
        model = nn.ParameterDict({"cut": nn.Parameter(nn.init.trunc_normal_(torch.empty(40)))})
    with pytest.raises(ValueError, match="cut is not initialized"):
        recorder.replay(recorder.parameters(model), lambda name, value: None)


def test_no_more_than_one_weight_is_in_memory():
    """Glorot's values replace those of nn.Linear long after: the first are drawn and dropped."""
    config = ModelConfig(decoder=TransformerConfig(**{**SIZES, "num_layers": 12, "width": 64, "ffn_dim": 128}))
    with InitRecorder() as recorder:
        model = initialize(build(config))
    weights = recorder.parameters(model)
    largest = max(param.numel() for _, param in weights.values())
    total = sum(param.numel() for _, param in weights.values())
    live: list[int] = []

    def place(name: str, value: Tensor) -> None:
        real = [t.untyped_storage() for t in gc.get_objects() if type(t) is Tensor and not t.is_meta]
        live.append(sum({memory.data_ptr(): memory.nbytes() // 4 for memory in real}.values()))

    gc.collect()
    gc.freeze()  # what was there before is not listed
    try:
        recorder.replay(weights, place)
    finally:
        gc.unfreeze()
    assert largest == max(live) < 0.1 * total
    assert len(live) == len(weights) > 100
