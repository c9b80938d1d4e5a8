"""Kernel check: every kernel in every dtype on the devices of this machine, compared with the reference kernel."""

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from clearhead.attention.attend import dispatch
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels import KERNELS, choose, unsupported_reason
from clearhead.attention.layout import Layout
from clearhead.attention.masks import Causal
from clearhead.attention.scores import ScaledDot

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)

# The largest accepted error relative to the largest reference value. Measured on a CPU (forward, backward):
# float64 9e-16, 1e-15; float32 5e-7, 6e-7; bfloat16 7e-3, 1.3e-2; float16 8e-4, 1.4e-3.
TOLERANCE = {torch.float64: 1e-13, torch.float32: 5e-6, torch.bfloat16: 3e-2, torch.float16: 4e-3}


@dataclass(frozen=True)
class KernelReport:
    """The result of one kernel in one dtype on one device; None where it was not measured."""

    device: str
    dtype: str
    kernel: str
    forward_error: float | None = None
    backward_error: float | None = None
    forward_ms: float | None = None
    backward_ms: float | None = None  # forward and backward together
    peak_mb: float | None = None  # forward and backward, without the inputs
    auto: str = ""  # "forward", "backward" or both, where `auto` chooses this kernel
    unsupported: str | None = None  # the reason
    failed: str | None = None  # the error

    @property
    def ok(self) -> bool:
        return self.failed is None


def devices() -> list[str]:
    found = ["cpu"]
    if torch.cuda.is_available():
        found.append("cuda")
    if torch.backends.mps.is_available():
        found.append("mps")
    return found


def check_kernels(device: str, repeats: int = 5) -> Iterator[KernelReport]:
    """Run every kernel in every dtype on one device, forward and backward, against the reference in float64."""
    for dtype in DTYPES:
        if device == "mps" and dtype == torch.float64:
            continue
        for kernel in KERNELS:
            yield _examine(device, dtype, kernel, repeats)


def _examine(device: str, dtype: torch.dtype, kernel: str, repeats: int) -> KernelReport:
    finding = KernelReport(device, str(dtype).removeprefix("torch."), kernel)
    ragged, equal = [7, 64, 1, 30, 64, 120, 12, 33], [40] * 8
    cases = (_case(lengths, device, dtype) for lengths in (ragged, equal))
    inputs = next((case for case in cases if not _refusal(kernel, case, False)), None)
    if inputs is None:
        return replace(finding, unsupported=_refusal(kernel, _case(ragged, device, dtype), False))
    truth = _case(inputs.layout_q.host_lengths, device, torch.float64 if device != "mps" else torch.float32)
    no_backward = _refusal(kernel, inputs, True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # uncompiled FlexAttention says that it is slow; the time says it too
            want, got = _run(truth, "reference", True), _run(inputs, kernel, no_backward is None)
            errors = [float((a.to(b.dtype) - b).abs().max() / b.abs().max()) for a, b in zip(got, want, strict=False)]
            forward = _clock(lambda: _run(inputs, kernel, False), repeats)
            both = None if no_backward else _clock(lambda: _run(inputs, kernel, True), repeats)
            peak = _peak(lambda: _run(inputs, kernel, no_backward is None), device)
    except Exception as problem:  # a kernel that dies here is what the user came to find out
        return replace(finding, failed=f"{type(problem).__name__}: {problem}")
    backward_error = max(errors[1:]) if len(errors) > 1 else None
    finding = replace(finding, forward_error=errors[0], backward_error=backward_error, forward_ms=forward)
    finding = replace(finding, backward_ms=both, peak_mb=peak, auto=_chosen(inputs, kernel), unsupported=no_backward)
    worst = max(errors)
    if not worst <= TOLERANCE[dtype]:  # also catches NaN
        return replace(finding, failed=f"error {worst:.1e} is over {TOLERANCE[dtype]:.0e}")
    return finding


def _case(lengths: list[int] | tuple[int, ...], device: str, dtype: torch.dtype) -> AttentionInputs:
    """A causal self-attention of 8 heads, 64 wide, the same numbers in every dtype."""
    generator = torch.Generator().manual_seed(0)
    drawn = (torch.randn(sum(lengths), 8, 64, generator=generator).to(torch.bfloat16) for _ in range(3))
    q, k, v = (x.to(device=device, dtype=dtype).requires_grad_() for x in drawn)
    layout = Layout.from_lengths(lengths, device=device)
    return AttentionInputs(q, k, v, layout, layout, Causal(), ScaledDot())


def _refusal(kernel: str, inputs: AttentionInputs, backward: bool) -> str | None:
    with torch.set_grad_enabled(backward):
        return unsupported_reason(kernel, inputs, 0.0)


def _chosen(inputs: AttentionInputs, kernel: str) -> str:
    names = []
    for what, backward in (("forward", False), ("backward", True)):
        with torch.set_grad_enabled(backward):
            if choose(inputs, 0.0) == kernel:
                names.append(what)
    return ", ".join(names)


def _run(inputs: AttentionInputs, kernel: str, backward: bool) -> tuple[Tensor, ...]:
    """The output, and with `backward` the gradients of queries, keys and values."""
    with torch.set_grad_enabled(backward):
        out = dispatch(inputs, 0.0, kernel)
        if not backward:
            return (out,)
        weights = torch.linspace(-1, 1, out.numel(), device=out.device).view(out.shape).to(out.dtype)
        return out, *torch.autograd.grad(out, (inputs.q, inputs.k, inputs.v), weights)


def _clock(work: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begin)
    return best * 1e3


def _peak(work: Callable[[], object], device: str) -> float | None:
    """The most memory that was held at once during the work, in MB."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    if device != "cpu":
        return None
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        work()
    assert profiled.profiler is not None and profiled.profiler.kineto_results is not None
    held = peak = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()  # type: ignore[attr-defined]
            peak = max(peak, held)
    return peak / 2**20
