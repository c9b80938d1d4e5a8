import getpass
import json
import platform
import runpy
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from clearhead.analysis import doctor_report
from clearhead.analysis import kernel_check as checkup
from clearhead.attention.kernels import KERNELS, grouped
from clearhead.cli import app
from tests.attention.emulated_flash import emulated_flash

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
        reason = {"varlen": "runs on CUDA", "cached_step": "full mask"}.get(finding["kernel"])
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
    assert "Example: clearhead doctor --report doctor.json" in run(app, ["doctor", "--help"]).stdout
    assert run(app, ["--version"]).stdout.startswith("clearhead ")
    assert run(app, ["nonsense"]).exit_code == 2


def test_the_report_is_complete_and_names_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(checkup, "DTYPES", checkup.DTYPES[1:2])
    monkeypatch.setattr(doctor_report, "LINEAR_TOLERANCE", {torch.float32: 1e-5})
    path = tmp_path / "doctor.json"
    result = run(app, ["doctor", "--report", str(path)])
    assert result.exit_code == 0, result.output
    text = path.read_text(encoding="utf-8")
    report = json.loads(text)
    assert report["format"] == doctor_report.FORMAT and report["ok"]
    assert {"clearhead", "torch", "cpu", "accelerators"} <= report["machine"].keys()
    assert {k["kernel"] for k in report["kernels"]} == set(KERNELS)
    assert {c["case"] for c in report["cases"]} == {*doctor_report.CASES, "dropout"}
    assert all(c["error"] <= c["tolerance"] for c in report["cases"])
    for private in (platform.node(), getpass.getuser(), str(Path.home()), str(tmp_path)):
        assert private == "root" or private not in text


def test_a_wrong_case_is_in_the_report(monkeypatch):
    monkeypatch.setattr(doctor_report, "LINEAR_TOLERANCE", {torch.float32: 1e-5})
    with emulated_flash(top_left=True):  # float32 does not reach the operator
        assert not [case for case in doctor_report.check_cases("cpu") if case.failed]
    monkeypatch.setattr(doctor_report, "LINEAR_TOLERANCE", {torch.bfloat16: 3e-2})
    with emulated_flash():
        cases = {case.case: case for case in doctor_report.check_cases("cpu")}
    assert not [case for case in cases.values() if case.failed]
    others = {"prefix": "grouped", "heads of 20": "grouped"}
    assert {name: case.kernel for name, case in cases.items()} == {n: others.get(n, "varlen") for n in cases}
    with emulated_flash(top_left=True):
        failed = {case.case for case in doctor_report.check_cases("cpu") if case.failed}
    assert failed == {"last tokens of a cache"}


def test_the_table_of_devices_is_current():
    """`python docs/verified_devices.py` writes it."""
    docs = Path(__file__).parents[2] / "docs"
    script = runpy.run_path(str(docs / "verified_devices.py"))
    text = (docs / "attention.md").read_text(encoding="utf-8")
    assert script["page"](text) == text
    names = [path.name for path in (docs / "results" / "verified").glob("*.json")]
    assert names and all(report["ok"] for report in script["reports"]())
