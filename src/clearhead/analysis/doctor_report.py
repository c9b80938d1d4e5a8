"""Doctor report: what `clearhead doctor --report` writes, so that the result of a machine can be sent and published."""

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.analysis.kernel_check import TOLERANCE, KernelReport, devices
from clearhead.attention import AttentionInputs, Causal, Full, Layout, Mask, Prefix, ScaledDot, Window, choose
from clearhead.attention.attend import dispatch
from clearhead.attention.device_info import DeviceInfo

FORMAT = "clearhead doctor 1"
DROPOUT = 0.25
DROPOUT_TOLERANCE = 0.03  # of the mean of 64 draws; measured on a CPU: 0.004
LINEAR_TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}  # as the backward errors


@dataclass(frozen=True)
class CaseReport:
    """What `auto` computes for one kind of call: the kernel that it selects, and its largest relative error."""

    device: str
    dtype: str
    case: str
    kernel: str = ""
    error: float | None = None
    tolerance: float = 0.0
    failed: str | None = None


@dataclass(frozen=True)
class AttentionCase:
    """The shape of a call: lengths, mask, the key heads of 8 heads, and the width of a head."""

    queries: Sequence[int]
    mask: Mask
    keys: Sequence[int] | None = None  # None: those of the queries, in self-attention
    groups: int = 8
    width: int = 64


RAGGED, LONGER = (7, 64, 1, 130, 33), (20, 64, 9, 140, 33)

CASES = {
    "full": AttentionCase(RAGGED, Full()),
    "causal": AttentionCase(RAGGED, Causal()),
    "window": AttentionCase(RAGGED, Window(16, 0)),
    "window both sides": AttentionCase(RAGGED, Window(5, 9)),
    "shared key heads": AttentionCase(RAGGED, Causal(), groups=2),
    "cross-attention": AttentionCase(RAGGED, Full(), LONGER),
    "last tokens of a cache": AttentionCase((3, 1, 1, 7, 33), Causal(), LONGER),
    "one query each, shared key heads": AttentionCase((1, 1, 1, 1, 1), Full(), LONGER, groups=2),
    "one length": AttentionCase((64,) * 6, Causal()),
    "prefix": AttentionCase(RAGGED, Prefix(torch.tensor([2, 9, 0, 40, 3]))),
    "heads of 256": AttentionCase(RAGGED, Causal(), width=256),
    "heads of 20": AttentionCase(RAGGED, Causal(), width=20),
}


def check_cases(device: str) -> Iterator[CaseReport]:
    """Each case in three dtypes against the reference in float64 on the CPU, and dropout in each dtype."""
    for dtype in LINEAR_TOLERANCE:
        report = CaseReport(device, str(dtype).removeprefix("torch."), "", tolerance=TOLERANCE[dtype])
        for name, case in CASES.items():
            yield _check_case(replace(report, case=name), case, device, dtype)
        yield _check_dropout(replace(report, case="dropout", tolerance=DROPOUT_TOLERANCE), device, dtype)


def _inputs(case: AttentionCase, device: str, dtype: torch.dtype) -> AttentionInputs:
    """The same numbers in every dtype; the last query of a sequence has the position of its last key."""
    generator = torch.Generator().manual_seed(0)
    keys = case.queries if case.keys is None else case.keys
    uniform = case.keys is None and len(set(keys)) == 1
    layout_k = Layout.uniform(len(keys), keys[0]) if uniform else Layout.from_lengths(keys)
    causal = case.keys is not None and not isinstance(case.mask, Full)
    starts = [m - n for n, m in zip(case.queries, keys, strict=True)] if causal else None
    layout_q = (layout_k if case.keys is None else Layout.from_lengths(case.queries, starts)).to(device)
    layout_k = layout_q if case.keys is None else layout_k.to(device)
    shapes = (layout_q.num_tokens, 8), (layout_k.num_tokens, case.groups), (layout_k.num_tokens, case.groups)
    drawn = (torch.randn(*shape, case.width, generator=generator).to(torch.bfloat16) for shape in shapes)
    q, k, v = (x.to(device=device, dtype=dtype).requires_grad_() for x in drawn)
    return AttentionInputs(q, k, v, layout_q, layout_k, case.mask.to(device), ScaledDot())


def _check_case(report: CaseReport, case: AttentionCase, device: str, dtype: torch.dtype) -> CaseReport:
    try:
        inputs = _inputs(case, device, dtype)
        report = replace(report, kernel=choose(inputs, 0.0))
        pairs = zip(_both(inputs, "auto"), _both(_inputs(case, "cpu", torch.float64), "reference"), strict=True)
        errors = [float((a.cpu().double() - b).abs().max() / b.abs().max()) for a, b in pairs]
    except Exception as problem:  # a kernel that fails here is what the report is for
        return replace(report, failed=f"{type(problem).__name__}: {problem}")
    return _judged(replace(report, error=max(errors)))


def _check_dropout(report: CaseReport, device: str, dtype: torch.dtype) -> CaseReport:
    """With values of 1 an output is the sum of its weights, 1 on average; and it is linear in the values.

    So the output with its own gradient gives the values again, if backward drops what forward dropped.
    """
    inputs = _inputs(CASES["causal"], device, dtype)
    inputs = replace(inputs, v=torch.ones_like(inputs.v).requires_grad_())
    try:
        report = replace(report, kernel=choose(inputs, DROPOUT))
        outputs = [dispatch(inputs, DROPOUT) for _ in range(64)]
        mean = float(torch.stack([out.detach().float().mean() for out in outputs]).mean())
        weights = torch.rand(outputs[0].shape, generator=torch.Generator().manual_seed(1)).to(outputs[0])
        (gradient,) = torch.autograd.grad(outputs[0], inputs.v, weights)
        forward, backward = (outputs[0].detach().double() * weights.double()).sum(), gradient.double().sum()
        linear = abs(float(backward / forward) - 1)
    except Exception as problem:
        return replace(report, failed=f"{type(problem).__name__}: {problem}")
    if not linear <= LINEAR_TOLERANCE[dtype]:
        return replace(report, error=linear, failed="backward does not drop what forward dropped")
    return _judged(replace(report, error=abs(mean - 1)))


def _both(inputs: AttentionInputs, kernel: str) -> tuple[Tensor, ...]:
    out = dispatch(inputs, 0.0, kernel)
    weights = torch.linspace(-1, 1, out.numel(), device=out.device).view(out.shape).to(out.dtype)
    return out.detach(), *torch.autograd.grad(out, (inputs.q, inputs.k, inputs.v), weights)


def _judged(report: CaseReport) -> CaseReport:
    if report.error is not None and report.error <= report.tolerance:  # False for NaN
        return report
    return replace(report, failed=f"error {report.error:.1e} is over {report.tolerance:.0e}")


def machine() -> dict[str, Any]:
    """Versions and hardware, without names of hosts, users or folders."""
    accelerators = [
        {
            "name": torch.cuda.get_device_name(i),
            "sm": DeviceInfo.of(torch.device("cuda", i)).sm,
            "memory_gb": round(torch.cuda.get_device_properties(i).total_memory / 2**30),
        }
        for i in range(torch.cuda.device_count())
    ]
    return {
        "clearhead": metadata.version("clearhead"),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": cpu_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "devices": ", ".join(devices()),
        "accelerators": accelerators,
    }


def cpu_name() -> str:
    """The model of the processor as Linux has it; elsewhere what Python knows."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def report(kernels: Sequence[KernelReport], cases: Sequence[CaseReport]) -> dict[str, Any]:
    """One JSON object: the machine, tolerances, each kernel in each dtype, and each case."""
    return {
        "format": FORMAT,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "ok": all(k.ok for k in kernels) and not any(c.failed for c in cases),
        "tolerances": {str(dtype).removeprefix("torch."): value for dtype, value in TOLERANCE.items()},
        "kernels": [asdict(k) for k in kernels],
        "cases": [asdict(c) for c in cases],
    }
