"""Every defence is tested: RELIABILITY 25. Each is switched off in a copy of the source, and a test must fail."""

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
    "keys": ("middleware.py", 'if scope["path"] not in PUBLIC_PATHS and self._config.keys:', "if False:", "test_middleware.py::test_every_route_except_health_requires_a_key"),
    "digest": ("middleware.py", "if hmac.compare_digest(known, digest)", "if True", "test_middleware.py::test_every_route_except_health_requires_a_key"),
    "host": ("middleware.py", 'if "*" not in self._config.hosts and', "if False and", "test_middleware.py::test_a_browser_of_another_site_is_refused"),
    "site": ("middleware.py", 'not in ("none", "same-origin")', 'in ("nowhere",)', "test_middleware.py::test_a_browser_of_another_site_is_refused"),
    "policy": ("middleware.py", '    "content-security-policy": POLICY,\n', "", "test_middleware.py::test_a_browser_of_another_site_is_refused"),
    "length": ("middleware.py", "or int(length) > self._config.max_body_bytes", "or False", "test_middleware.py::test_a_large_body_is_refused_before_it_is_read"),
    "body": ("middleware.py", "if received > max_bytes:", "if False:", "test_middleware.py::test_a_large_body_is_refused_before_it_is_read"),
    "exposure": ("server.py", "if not is_loopback and not keys:", "if False:", "test_middleware.py::test_a_server_without_keys_is_not_exposed"),
    "short keys": ("middleware.py", "if len(key) < MIN_KEY_LENGTH:", "if False:", "test_middleware.py::test_keys_are_read"),
    "log": ("middleware.py", 'fields |= scope.get("log_fields", {})', 'fields["path"] = str(scope["query_string"])', "test_middleware.py::test_no_user_text_is_logged"),
    "slow senders": ("uvicorn_protocol.py", "self._request_timer = self.loop.call_later(CLIENT_TIMEOUT_S, self._abort)", "pass", "test_load.py::test_slow_clients_do_not_hurt_the_others"),
    "slow readers": ("uvicorn_protocol.py", "self._write_timer = self.loop.call_later(CLIENT_TIMEOUT_S, self._abort)", "pass", "test_load.py::test_a_client_that_does_not_read_is_disconnected"),
    "pipelining": ("uvicorn_protocol.py", "if len(self.pipeline) >= MAX_PIPELINED_REQUESTS:", "if False:", "test_load.py::test_requests_behind_one_another"),
    "blank lines": ("uvicorn_protocol.py", "if was_idle and self.cycle.response_complete:", "if False:", "test_load.py::test_blank_lines_do_not_keep_a_connection"),
    "queue limit": ("engine.py", "if ahead == 0 or not (too_many or too_slow) or limit == math.inf:", "if True:", "test_load.py::test_overload_is_refused_with_retry_after"),
    "bounds": ("schemas.py", "None, ge=0, le=100,", "None,", "test_load.py::test_every_number_is_bounded"),
    "blank text": ("schemas.py", "if not text.strip():", "if False:", "test_app.py"),
    "fairness": ("fair_queue.py", "self._clients.move_to_end(client)", "pass", "test_fair_queue.py"),
    "seeds": ("generation.py", "top_p=options.top_p, seed=seed", "top_p=options.top_p, seed=0", "test_app.py::test_generate"),
    "order": ("engine.py", "in zip(items, results, strict=True):", "in zip(items, results[::-1], strict=True):", "test_app.py::test_classify"),
    "reload of a full server": ("middleware.py", ' and scope["path"] not in UNQUEUED_PATHS', "", "test_reload.py"),
    "token counts": ("dispatcher.py", "tokens += await self.tokenize(count_tokens, model, work, chunk)", "tokens += [len(value) // 4 for value in chunk]", "test_token_counts.py"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFENCES)
def test_a_test_fails_without_it(name, tmp_path):
    file, old, new, test = DEFENCES[name]
    shutil.copytree(ROOT / "src", tmp_path / "src")
    shutil.copytree(ROOT / "tests", tmp_path / "tests")
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    path = tmp_path / SERVE / file
    text = path.read_text()
    assert text.count(old) == 1, f"{file} does not contain {old!r} exactly once"
    path.write_text(text.replace(old, new))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/serve/{test}"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path / "src")}, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 1, f"no test fails without it: {done.stdout[-600:]}"
