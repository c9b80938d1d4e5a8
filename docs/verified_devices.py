"""Write the table of verified devices in attention.md from the reports of `clearhead doctor`: python docs/verified_devices.py

The reports are in docs/results/verified/. A device is in the table if a report of it is there, and nowhere else.
"""

from __future__ import annotations

import json
from pathlib import Path

DOCS = Path(__file__).parent
TARGET = DOCS / "attention.md"
BEGIN, END = "<!-- verified devices: begin -->\n", "<!-- verified devices: end -->\n"
DTYPES = ("float64", "float32", "bfloat16", "float16")
EXPECTED = ("cpu", "cuda", "mps")


def reports() -> list[dict]:
    """The reports, by name of file."""
    found = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted((DOCS / "results/verified").glob("*.json"))
    ]
    for report in found:
        if report["format"] != "clearhead doctor 1":
            raise ValueError(
                f"{report['format']!r} is not a known format: write the report with this version of clearhead"
            )
    return found


def rows(report: dict) -> list[str]:
    """A line for each device of a report: which kernels agree with the reference there."""
    machine, lines = report["machine"], []
    for device in dict.fromkeys(kernel["device"] for kernel in report["kernels"]):
        own = [kernel for kernel in report["kernels"] if kernel["device"] == device]
        names = list(dict.fromkeys(kernel["kernel"] for kernel in own))
        ran = {name for name in names if any(k["kernel"] == name and k["forward_error"] is not None for k in own)}
        wrong = {k["kernel"] for k in own if k["failed"]}
        cases = [case for case in report["cases"] if case["device"] == device]
        failed = [case for case in cases if case["failed"]]
        hardware = f"{machine['cpu']} ({machine['cpu_capability']})"
        if device == "cuda":
            hardware = ", ".join(f"{gpu['name']} (sm{gpu['sm']})" for gpu in machine["accelerators"])
        kernels = ", ".join(f"`{name}`" for name in names if name in ran - wrong)
        problems = ", ".join(f"`{name}` is wrong" for name in sorted(wrong)) or "-"
        passed = f"{len(cases) - len(failed)} of {len(cases)}"
        versions = f"{machine['torch']}, {report['date']}"
        lines.append(f"| {device}: {hardware} | {versions} | {kernels} | {passed} | {problems} |")
    return lines


def table() -> str:
    """The text between the two marks."""
    found = reports()
    seen = {kernel["device"] for report in found for kernel in report["kernels"]}
    lines = [
        "| device | torch, date | kernels that agree with the reference | calls by `auto` | problems |",
        "|---|---|---|---|---|",
        *(line for report in found for line in rows(report)),
    ]
    missing = [device.upper() for device in EXPECTED if device not in seen]
    text = "\n".join(lines) + "\n"
    return text + (
        f"\nNo report yet: {', '.join(missing)}. The code for them is **experimental**.\n" if missing else ""
    )


def page(text: str) -> str:
    """The page with the current table."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    TARGET.write_text(page(TARGET.read_text(encoding="utf-8")), encoding="utf-8")
