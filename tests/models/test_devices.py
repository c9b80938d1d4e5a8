"""Every kind of model on the meta device, forward and backward: no tensor on another device, and no wait for the device.

Meta tensors have shapes and no numbers. What waits for a GPU raises on them: `item`, `tolist`, `bool`, `nonzero`, a
copy to the host. So this is the census of host synchronizations. (Fake CUDA tensors need a build with CUDA: without it
indexing one of them fails, and their backward ends the process.) `auto` selects kernels as on a GPU.
"""

from __future__ import annotations

import traceback
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import clearhead
from clearhead.attention import Causal, DenseMask, Global, KVCache, Layout, Prefix, Window, attend
from clearhead.attention.device_info import DeviceInfo
from clearhead.efficient.methods import METHODS
from clearhead.layers import POOLINGS, linear_cross_entropy
from clearhead.models import HeadConfig, ModelConfig, RecurrentConfig, TransformerConfig, build
from clearhead.models.transformer import tokens_before
from clearhead.vision import PatchConfig
from clearhead.vision.image_codec import ImageCodec, ImageCodecConfig

SOURCE = str(Path(clearhead.__file__).parent)
C = TransformerConfig(
    vocab_size=40, width=32, num_layers=1, num_heads=4, ffn_dim=48, dropout=0.1, max_len=64, norm_first=True
)
IMAGES = replace(C, patches=PatchConfig(image_size=16, patch_size=4), positions="learned")
ENCODER = RecurrentConfig(vocab_size=40, width=32, hidden_size=16, bidirectional=True)
DECODER = RecurrentConfig(vocab_size=40, width=32, hidden_size=32)

MODELS: dict[str, ModelConfig] = {
    "decoder": ModelConfig(
        decoder=replace(
            C,
            num_layers=2,
            positions="rotary",
            num_kv_heads=2,
            qk_norm=True,
            gated=True,
            window=(8, 0),
            local_layers=(1,),
        ),
        head=HeadConfig(kind="lm", width=32, vocab_size=40),
    ),
    "images": ModelConfig(encoder=IMAGES, head=HeadConfig(kind="sequence", width=32, labels=("a",), pool="attention")),
    "captions": ModelConfig(encoder=IMAGES, decoder=replace(DECODER, attention="additive"), shared_embedding=False),
}
for positions in ("rotary", "sinusoidal", "learned", "t5", "alibi"):
    MODELS[f"encoder {positions}"] = ModelConfig(encoder=replace(C, positions=positions))
for positions in ("rotary", "t5"):
    stack = replace(C, positions=positions)
    MODELS[f"encoder-decoder {positions}"] = ModelConfig(encoder=stack, decoder=stack)
for kind in ("lm", "sequence", "token", "pretraining"):
    labels = ("a", "b") if kind in ("sequence", "token") else ()
    MODELS[f"{kind} head"] = ModelConfig(
        encoder=C, head=HeadConfig(kind=kind, width=32, vocab_size=40, labels=labels, tied=kind != "token")
    )
for attention, feeding in (("none", False), ("dot", False), ("general", True), ("additive", True)):
    decoder = replace(DECODER, attention=attention, input_feeding=feeding)
    MODELS[f"recurrent {attention}"] = ModelConfig(encoder=ENCODER, decoder=decoder)
for name in METHODS:
    role = "decoder" if name == "gated_linear" else "encoder"
    MODELS[f"method {name}"] = ModelConfig(**{role: replace(C, attention=({"kind": name},))})  # pyright: ignore[reportArgumentType]

WAITS = {"method lsh": "lsh.py"}  # reads the widths of its buckets on the host


class OneDevice(TorchDispatchMode):
    """Collects operations of the package on tensors of several devices."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor) and x.dim() > 0]
        if len({x.device.type for x in tensors}) > 1 and "copy" not in str(func):
            frames = [frame for frame in traceback.extract_stack() if frame.filename.startswith(SOURCE)]
            self.mixed.append(f"{func} at {frames[-1].filename}:{frames[-1].lineno}" if frames else str(func))
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def as_on_a_gpu():
    with patch.object(DeviceInfo, "of", lambda device: DeviceInfo("cuda", 80)):
        yield


def meta_batch(config: ModelConfig, dtype: torch.dtype) -> tuple[Tensor | Layout, ...]:
    source, target = (Layout.from_lengths(lengths, device="meta") for lengths in ([5, 9, 1], [4, 2, 7]))
    ids = torch.empty(15, dtype=torch.int64, device="meta")
    if config.patches is not None:
        ids, source = torch.empty(2, 3, 16, 16, dtype=dtype, device="meta"), Layout.uniform(2, 17, device="meta")
        target = Layout.from_lengths([6, 7], device="meta")
    if config.encoder is None or config.decoder is None:
        return ids, source
    return ids, source, torch.empty(13, dtype=torch.int64, device="meta"), target


def run_both_ways(config: ModelConfig, dtype: torch.dtype, dropout: float) -> None:
    stacks = {
        name: replace(stack, attention_dropout=dropout)
        for name, stack in (("encoder", config.encoder), ("decoder", config.decoder))
        if isinstance(stack, TransformerConfig)
    }
    with torch.device("meta"):
        model = build(replace(config, **stacks)).to(dtype)
    model.to("meta")
    with OneDevice() as devices:
        with torch.no_grad():
            model.eval()(*meta_batch(config, dtype))
        out = model.train()(*meta_batch(config, dtype))
        leaves = [x for x in tree_leaves(out) if isinstance(x, Tensor)]
        torch.stack([x.float().sum() for x in leaves]).sum().backward()
    assert devices.mixed == []
    assert all(x.is_meta for x in leaves)
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert len(gradients) > 10 and all(g.is_meta for g in gradients)


def cases():
    """Each kind in float32 and, in another kernel, in bfloat16 with dropout; only methods and recurrent layers have one."""
    for name in MODELS:
        same = pytest.mark.slow if name.startswith(("method", "recurrent", "captions")) else ()
        yield pytest.param(name, torch.float32, 0.0, id=f"{name}-f32")
        yield pytest.param(name, torch.bfloat16, 0.1, id=f"{name}-bf16", marks=same)


@pytest.mark.parametrize(("name", "dtype", "dropout"), list(cases()))
def test_forward_and_backward_on_one_device_without_a_wait(name, dtype, dropout):
    if name not in WAITS:
        run_both_ways(MODELS[name], dtype, dropout)
        return
    with pytest.raises(NotImplementedError, match="no data") as caught:
        run_both_ways(MODELS[name], dtype, dropout)
    assert any(WAITS[name] in str(entry.path) for entry in caught.traceback)


def test_chunks_and_steps_over_a_cache():
    config = MODELS["decoder"]
    with torch.device("meta"):
        model = build(config).eval()
    model.to("meta")
    cache = KVCache(2, 2, device="meta")
    with torch.no_grad(), OneDevice() as devices:
        for lengths in ([3, 5], [1, 2]):
            layout = cache.extend(Layout.from_lengths(lengths)).to("meta")
            model(torch.empty(sum(lengths), dtype=torch.int64, device="meta"), layout, cache=cache)
    assert devices.mixed == []


@pytest.mark.parametrize(
    "mask",
    [
        Prefix(torch.empty(3, dtype=torch.int64, device="meta")),
        Global(torch.empty(3, dtype=torch.int64, device="meta")) | Window(2, 2),
        DenseMask(torch.empty(3, 9, 9, dtype=torch.bool, device="meta")),
        Causal() & Window(3, 0),
    ],
    ids=lambda mask: type(mask).__name__,
)
@pytest.mark.parametrize("kernel", ["auto", "grouped", "autograd"])
def test_masks(mask, kernel):
    layout = Layout.from_lengths([5, 9, 1], device="meta")
    q, k, v = (torch.empty(15, heads, 16, device="meta", requires_grad=True) for heads in (4, 2, 2))
    with OneDevice() as devices:
        attend(q, k, v, layout, layout, mask=mask, kernel=kernel, dropout=0.1).sum().backward()
    assert devices.mixed == []


def test_losses_poolings_and_codecs():
    layout = Layout.from_lengths([5, 9, 1], device="meta")
    with torch.device("meta"):
        x, weight = torch.empty(15, 32, requires_grad=True), torch.empty(40, 32, requires_grad=True)
        codec = ImageCodec(ImageCodecConfig(image_size=16, width=16))
    with OneDevice() as devices:
        labels = torch.empty(15, dtype=torch.int64, device="meta")
        linear_cross_entropy(x, weight, None, labels).backward()
        for pool in POOLINGS.values():
            pool(x, layout).sum().backward()
        assert tokens_before(3, labels, layout).is_meta
        codec(torch.empty(2, 3, 16, 16, device="meta"))
    assert devices.mixed == []


def test_a_wait_and_a_tensor_elsewhere_are_found():
    with pytest.raises(RuntimeError):
        torch.empty(3, device="meta").sum().item()
    with OneDevice() as devices:
        torch.cat([torch.empty(3, device="meta")])
        torch.ops.aten.index(torch.empty(3, device="meta"), [torch.zeros(2, dtype=torch.int64)])
    assert len(devices.mixed) == 1
