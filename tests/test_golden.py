"""Two runs of the golden script in fresh processes give the same hashes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_two_processes_give_the_same_hashes():
    script = Path(__file__).with_name("golden.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
