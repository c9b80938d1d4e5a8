"""The routing table, line by line: which kernel `auto` selects on a CPU and on GPUs of three generations.

The decision is a pure function: the tensors are on the CPU, the device is an argument.
"""

from __future__ import annotations

import itertools

import pytest
import torch

from clearhead.attention import Additive, Causal, Full, Global, Layout, Prefix, RelativeBias, ScaledDot, Window, choose
from clearhead.attention.biases import DenseBias
from clearhead.attention.device_info import DeviceInfo
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels import KERNELS, unsupported_reason
from clearhead.attention.kernels.routing import ACCELERATOR_ROUTES, CPU_ROUTES, routes

CPU, MPS = DeviceInfo("cpu"), DeviceInfo("mps")
SM75, SM80, SM86, SM90 = (DeviceInfo("cuda", sm) for sm in (75, 80, 86, 90))
F64, F32, BF16, F16 = torch.float64, torch.float32, torch.bfloat16, torch.float16

LAYOUTS = {
    "ragged": Layout.from_lengths([3, 9, 0, 5]),
    "equal": Layout.uniform(6, 64),
    "short": Layout.from_lengths([3, 5] * 10),
    "long": Layout.from_lengths([2100, 30]),
    "none": Layout.from_lengths([]),
}
MASKS = {"full": Full(), "causal": Causal(), "window": Window(7, 0), "band": Window(9, 9) & Causal()}
MASKS |= {"prefix": Prefix(torch.tensor([2] * 20)), "global": Window(3, 3) | Global(1)}
SCORES = {"dot": ScaledDot(), "additive": Additive(4, 8, 8, 6)}


def call(
    lengths="ragged", mask="full", dtype=F32, width=64, bias=None, score="dot", grad=False, groups=4
) -> AttentionInputs:
    layout = LAYOUTS[lengths]
    sizes = (layout.num_tokens, 4, width), *[(layout.num_tokens, groups, width)] * 2
    q, k, v = (torch.empty(size, dtype=dtype, requires_grad=grad) for size in sizes)
    biases = {"relative": RelativeBias(torch.zeros(4, 3), torch.zeros(4)), "own": lambda s, i, j: 0.0 * (i - j)}
    if layout.length:
        biases["dense"] = DenseBias(torch.zeros(layout.num_sequences, 1, 1, layout.length), 4)
    return AttentionInputs(q, k, v, layout, layout, MASKS[mask], SCORES[score], bias and biases[bias])


# dtype, dropout, mask, bias, score, head width, lengths, training: the kernel by device
DEVICES = (CPU, SM75, SM80, SM90)
TABLE = [
    # half precision and a band: FlashAttention from sm80, with dropout too; before it the fused or the grouped kernel
    (BF16, 0.0, "causal", None, "dot", 64, "ragged", True, "grouped grouped varlen varlen"),
    (BF16, 0.1, "causal", None, "dot", 64, "ragged", True, "bucketed grouped varlen varlen"),
    (F16, 0.0, "full", None, "dot", 64, "ragged", False, "grouped grouped varlen varlen"),
    (F16, 0.1, "window", None, "dot", 64, "ragged", True, "grouped grouped varlen varlen"),
    (BF16, 0.0, "band", None, "dot", 128, "ragged", True, "grouped grouped varlen varlen"),
    (BF16, 0.0, "full", None, "dot", 64, "equal", False, "sdpa grouped varlen varlen"),
    (F16, 0.0, "causal", None, "dot", 64, "equal", False, "grouped sdpa varlen varlen"),
    (BF16, 0.0, "full", None, "dot", 64, "short", False, "bucketed grouped varlen varlen"),
    (BF16, 0.0, "window", None, "dot", 64, "long", False, "block_sparse grouped varlen varlen"),
    # half precision that FlashAttention refuses: its width, its mask, its bias, its score
    (BF16, 0.0, "full", None, "dot", 264, "ragged", True, "grouped grouped grouped grouped"),
    (BF16, 0.0, "full", None, "dot", 12, "ragged", True, "grouped grouped grouped grouped"),
    (F16, 0.0, "full", None, "dot", 264, "equal", False, "grouped sdpa sdpa sdpa"),
    (BF16, 0.0, "full", None, "dot", 264, "equal", False, "sdpa grouped sdpa sdpa"),
    (BF16, 0.0, "prefix", None, "dot", 64, "short", True, "grouped grouped grouped grouped"),
    (BF16, 0.0, "global", None, "dot", 64, "ragged", False, "grouped grouped grouped grouped"),
    (BF16, 0.0, "causal", "relative", "dot", 64, "ragged", True, "grouped grouped grouped grouped"),
    (BF16, 0.0, "causal", "own", "dot", 64, "ragged", True, "autograd autograd autograd autograd"),
    (BF16, 0.0, "full", None, "additive", 8, "ragged", True, "autograd autograd autograd autograd"),
    (BF16, 0.0, "full", "dense", "dot", 64, "equal", False, "sdpa sdpa sdpa sdpa"),
    (BF16, 0.0, "full", None, "dot", 64, "none", True, "grouped grouped grouped grouped"),
    # float32: fused where the lengths are equal, else grouped; scores of the whole batch are never held at once
    (F32, 0.0, "causal", None, "dot", 64, "ragged", True, "grouped grouped grouped grouped"),
    (F32, 0.1, "causal", None, "dot", 64, "ragged", True, "bucketed grouped grouped grouped"),
    (F32, 0.0, "full", None, "dot", 64, "equal", True, "sdpa sdpa sdpa sdpa"),
    (F32, 0.1, "full", None, "dot", 64, "equal", True, "bucketed grouped grouped grouped"),
    (F32, 0.0, "full", None, "dot", 12, "equal", True, "sdpa grouped grouped grouped"),
    (F32, 0.0, "prefix", None, "dot", 64, "short", True, "grouped grouped grouped grouped"),
    (F32, 0.0, "window", None, "dot", 64, "long", True, "block_sparse grouped grouped grouped"),
    (F32, 0.0, "causal", "relative", "dot", 64, "equal", True, "grouped grouped grouped grouped"),
    (F32, 0.0, "full", None, "additive", 8, "equal", True, "autograd autograd autograd autograd"),
    (F32, 0.0, "full", None, "dot", 64, "none", True, "grouped grouped grouped grouped"),
    # float64 has no fused kernel on a GPU
    (F64, 0.0, "causal", None, "dot", 64, "ragged", True, "grouped grouped grouped grouped"),
    (F64, 0.0, "full", None, "dot", 64, "equal", True, "sdpa grouped grouped grouped"),
]


@pytest.mark.parametrize("line", TABLE, ids=lambda line: "-".join(str(x).removeprefix("torch.") for x in line[:-1]))
def test_the_table(line):
    dtype, dropout, mask, bias, score, width, lengths, training, expected = line
    inputs = call(lengths, mask, dtype, width, bias, score, training)
    assert [choose(inputs, dropout, device=device) for device in DEVICES] == expected.split()


@pytest.mark.parametrize("device", [CPU, MPS, SM75, SM80, SM86, SM90], ids=str)
def test_every_combination_has_a_kernel_that_supports_it(device):
    grid = itertools.product(
        (F64, F32, BF16, F16), (0.0, 0.1), MASKS, (None, "relative", "own"), (8, 12, 208, 264), (1, 4), (True, False)
    )
    for dtype, dropout, mask, bias, width, groups, training in grid:
        inputs = call("ragged", mask, dtype, width, bias, groups=groups, grad=training)
        kernel = choose(inputs, dropout, device=device)
        assert unsupported_reason(kernel, inputs, dropout, device) is None
        assert kernel not in ("flex", "dense", "cached_step")  # asked for by name
        half = dtype in (BF16, F16) and mask not in ("prefix", "global") and bias is None and width in (8, 208)
        memory = device is not SM86 or width == 8 or not training
        assert (kernel == "varlen") == (device in (SM80, SM86, SM90) and half and memory)


def test_the_routes_are_complete():
    for table in (CPU_ROUTES, ACCELERATOR_ROUTES):
        names = [name for name, _ in table]
        assert set(names) <= set(KERNELS) and len(set(names)) == len(names)
        assert names[-1] == "reference"
    assert routes(CPU) is CPU_ROUTES
    assert routes(MPS) is routes(SM80) is routes(DeviceInfo("xpu")) is ACCELERATOR_ROUTES


def test_a_device_without_flash_or_capability():
    inputs = call(dtype=BF16)
    for device, says in (
        (DeviceInfo("cuda", 90, has_flash=False), "no FlashAttention"),
        (DeviceInfo("cuda"), "this device has none"),
        (MPS, "on mps"),
    ):
        reason = unsupported_reason("varlen", inputs, 0.0, device)
        assert reason is not None and says in reason
        assert choose(inputs, 0.0, device=device) == "grouped"


def test_facts_of_this_machine():
    assert DeviceInfo.of(torch.device("cpu")) == CPU
    assert (SM86.sm, CPU.sm) == (86, 0)
    if not torch.cuda.is_available():
        assert DeviceInfo.of(torch.device("cuda")) == DeviceInfo("cuda")
