"""Every defence is missed when it is gone: RELIABILITY 25. Each is switched off in a copy of the source, and a test must fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SERVE = "src/clearhead/serve"

DEFENCES = {
    "keys": ("guard.py", 'if scope["path"] not in OPEN and self._rules.keys:', "if False:", "test_guard.py::test_every_route_wants_a_key_but_health"),
    "digest": ("guard.py", "if hmac.compare_digest(held, digest)", "if True", "test_guard.py::test_every_route_wants_a_key_but_health"),
    "host": ("guard.py", 'if "*" not in self._rules.hosts and', "if False and", "test_guard.py::test_a_browser_of_another_site_is_refused"),
    "site": ("guard.py", 'not in ("none", "same-origin")', 'in ("nowhere",)', "test_guard.py::test_a_browser_of_another_site_is_refused"),
    "policy": ("guard.py", '    "content-security-policy": POLICY,\n', "", "test_guard.py::test_a_browser_of_another_site_is_refused"),
    "length": ("guard.py", "or int(length) > self._rules.largest", "or False", "test_guard.py::test_a_large_body_is_refused_before_it_is_read"),
    "body": ("guard.py", "if seen > largest:", "if False:", "test_guard.py::test_a_large_body_is_refused_before_it_is_read"),
    "open": ("server.py", "if not near and not keys:", "if False:", "test_guard.py::test_it_does_not_stand_open"),
    "short keys": ("guard.py", "if len(key) < 16:", "if False:", "test_guard.py::test_keys_are_read"),
    "the log": ("guard.py", 'facts |= scope.get("noted", {})', 'facts["path"] = str(scope["query_string"])', "test_guard.py::test_nothing_that_was_said_is_written_down"),
    "slow senders": ("server.py", "self._clock = self.loop.call_later(SLOW, self._cut)", "pass", "test_load.py::test_slow_and_rude_clients_do_not_hurt_the_others"),
    "slow readers": ("server.py", "self._reading = self.loop.call_later(SLOW, self._cut)", "pass", "test_load.py::test_who_does_not_read_is_cut_off"),
    "heaps": ("server.py", "if len(self.pipeline) >= BEHIND:", "if False:", "test_load.py::test_requests_behind_one_another"),
    "blank lines": ("server.py", "if rested and self.cycle.response_complete:", "if False:", "test_load.py::test_blank_lines_do_not_keep_a_connection"),
    "the line's end": ("engine.py", "if ahead == 0 or not much or most == math.inf:", "if True:", "test_load.py::test_too_many_are_told_when_to_come_again"),
    "bounds": ("asked.py", "Field(None, ge=0, le=100", "Field(None", "test_load.py::test_every_number_is_bounded"),
    "no words": ("asked.py", "if not text.strip():", "if False:", "test_app.py"),
    "fairness": ("line.py", "self._clients.move_to_end(client)", "pass", "test_line.py"),
    "seeds": ("writing.py", "top_p=how.top_p, seed=seed", "top_p=how.top_p, seed=0", "test_app.py::test_generate"),
    "order": ("engine.py", "in zip(parts, results, strict=True):", "in zip(parts, results[::-1], strict=True):", "test_app.py::test_classify"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFENCES)
def test_it_is_missed(name, tmp_path):
    file, old, new, test = DEFENCES[name]
    shutil.copytree(ROOT / "src", tmp_path / "src")
    shutil.copytree(ROOT / "tests", tmp_path / "tests")
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    path = tmp_path / SERVE / file
    text = path.read_text()
    assert text.count(old) == 1, f"{file} has not one {old!r}"
    path.write_text(text.replace(old, new))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/serve/{test}"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path / "src")}, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 1, f"nobody misses it: {done.stdout[-600:]}"
