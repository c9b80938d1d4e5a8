"""Draw the output of `clearhead doctor` on this machine: python docs/pictures/doctor.py"""

from __future__ import annotations

import os
import re
from pathlib import Path

from rich.console import Console

os.environ.setdefault("KINETO_LOG_LEVEL", "99")

from clearhead.analysis.kernel_check import check_kernels, devices
from clearhead.cli.doctor import show

target = Path(__file__).with_suffix(".svg")
console = Console(record=True, width=96, highlight=False, file=open(os.devnull, "w"))  # noqa: SIM115
show(console, [finding for device in devices() for finding in check_kernels(device, repeats=20)])
drawn = console.export_svg(title="clearhead doctor")
drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.S)  # no remote fonts
drawn = re.sub(r"<!--.*?-->", "", drawn, flags=re.S).replace("Fira Code, monospace", "monospace")
target.write_text(re.sub(r"[ \t]+$", "", drawn, flags=re.M), encoding="utf-8")
