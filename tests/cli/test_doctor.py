import json

import pytest
from typer.testing import CliRunner

from clearhead.analysis import kernel_check as checkup
from clearhead.attention.kernels import KERNELS, grouped
from clearhead.cli import app

run = CliRunner().invoke


@pytest.fixture(scope="module")
def report():
    result = run(app, ["doctor", "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_every_kernel_in_every_dtype(report):
    assert report["ok"]
    cpu = [f for f in report["findings"] if f["device"] == "cpu"]
    assert {(f["kernel"], f["dtype"]) for f in cpu} == {
        (k, d) for k in KERNELS for d in ("float64", "float32", "bfloat16", "float16")
    }
    for finding in cpu:
        reason = {"varlen": "CUDA only", "cached_step": "full mask"}.get(finding["kernel"])
        if finding["kernel"] == "bucketed" and finding["dtype"] in ("float64", "float16"):
            reason = "float32 and bfloat16"
        if reason is not None:
            assert reason in finding["unsupported"]
            continue
        assert finding["forward_ms"] > 0
        assert finding["peak_mb"] > 0
        if finding["kernel"] == "flex":
            assert "no backward" in finding["unsupported"]
        else:
            assert finding["backward_error"] is not None and finding["backward_ms"] > 0
    assert all(f["auto"] == "forward, backward" for f in cpu if f["kernel"] == "grouped")


@pytest.mark.parametrize(
    ("wrong", "says"), [pytest.param("off", "is over", marks=pytest.mark.slow), ("dies", "RuntimeError: no")]
)
def test_a_wrong_kernel_is_found(monkeypatch, wrong, says):
    right = grouped.run

    def off(call, dropout):
        if wrong == "dies":
            raise RuntimeError("no")
        return right(call, dropout) * 1.001

    monkeypatch.setattr(grouped, "run", off)
    findings = [f for f in checkup.check_kernels("cpu", repeats=1) if f.kernel == "grouped"]
    assert any(not f.ok and says in f.failed for f in findings)
    monkeypatch.setattr(checkup, "DTYPES", checkup.DTYPES[1:2])
    result = run(app, ["doctor"])
    assert result.exit_code == 1
    assert "wrong" in result.stdout


def test_help_and_version():
    assert "Example: clearhead doctor --json" in run(app, ["doctor", "--help"]).stdout
    assert run(app, ["--version"]).stdout.startswith("clearhead ")
    assert run(app, ["nonsense"]).exit_code == 2
