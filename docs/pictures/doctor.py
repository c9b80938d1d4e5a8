"""Draw the screen of `clearhead doctor` on this machine: python docs/pictures/doctor.py"""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console

os.environ.setdefault("KINETO_LOG_LEVEL", "99")

from clearhead.attention.checkup import devices, examine
from clearhead.cli.doctor import show

console = Console(record=True, width=84, file=open(os.devnull, "w"))  # noqa: SIM115
show(console, [finding for device in devices() for finding in examine(device)])
console.save_svg(str(Path(__file__).with_suffix(".svg")), title="clearhead doctor")
