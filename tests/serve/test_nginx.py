"""nginx before the server: the file that the docs give, with other ports, before a real server on loopback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest

from clearhead.serve.app import make_app
from clearhead.serve.continuous_batch import ContinuousBatch
from clearhead.serve.middleware import LOOPBACK, SecurityConfig, SecurityMiddleware
from clearhead.serve.model_registry import ModelRegistry
from clearhead.serve.server import Server

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
FILE = Path(__file__).parents[2] / "docs" / "deploy" / "nginx.conf"
KEY = "a-key-of-more-than-sixteen-letters"
NAME = "api.example.org"
AUTH = {"authorization": f"Bearer {KEY}"}

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


class Watched:
    """A guard, and where its requests seem to come from."""

    def __init__(self, guard: SecurityMiddleware) -> None:
        self._guard, self.seen = guard, list[str]()
        self.drain = guard.drain

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "http":
            self.seen.append(scope["client"][0])
        await self._guard(scope, receive, send)


@pytest.fixture(scope="module")
def watched(folders) -> Watched:
    rules = SecurityConfig(keys={"me": SecurityConfig.digest(KEY)}, hosts=(*LOOPBACK, NAME))
    return Watched(make_app(ModelRegistry({"lm": str(folders["lm"])}, dtype="float32"), security=rules))


@pytest.fixture(scope="module")
def behind(watched):
    """The server's own address."""
    server = Server(watched, "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_here)
    thread.start()
    yield server.address
    server.should_exit = True
    thread.join(30)


@pytest.fixture(scope="module")
def front(behind, tmp_path_factory):
    """nginx's address."""
    folder = tmp_path_factory.mktemp("nginx")
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    text = FILE.read_text()
    for old, new in (
        ("server 127.0.0.1:8000;", f"server {behind.removeprefix('http://').rstrip('/')};"),
        ("    listen 80;", f"    listen 127.0.0.1:{port};"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "site.conf").write_text(text)
    temps = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "main.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
        f"http {{ {temps} include {folder}/site.conf; }}\n"
    )
    process = subprocess.Popen([str(NGINX), "-p", str(folder), "-c", str(folder / "main.conf")], stderr=subprocess.PIPE)
    address = f"http://127.0.0.1:{port}/"
    for _ in range(100):
        try:
            httpx.get(address + "health", headers={"host": NAME})
            break
        except httpx.TransportError:
            assert process.stderr is not None
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
    yield address
    process.terminate()
    process.communicate(timeout=10)


def through(address: str, source: str = "127.0.0.1", **headers: str) -> httpx.Client:
    return httpx.Client(
        base_url=address,
        headers={"host": NAME, **headers},
        timeout=30,
        transport=httpx.HTTPTransport(local_address=source),
    )


def test_it_answers_and_passes_keys_on(front):
    body = {"text": "the old man"}
    with through(front) as client:
        assert client.get("/health").status_code == 200
        assert client.post("/embed", json=body).status_code == 401
        assert client.post("/embed", json=body, headers={"authorization": "Bearer wrong"}).status_code == 401
        answer = client.post("/embed", json=body, headers=AUTH)
        assert answer.status_code == 200 and len(answer.json()["vectors"]) == 1
        assert client.get("/models", auth=("anybody", KEY)).status_code == 200  # as a browser sends it
        assert client.get("/health", headers={"host": "evil.example"}).status_code == 400


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/generate", {"prompt": "the old man"}),
        ("/v1/completions", {"model": "lm", "prompt": "the old man"}),
        ("/v1/chat/completions", {"model": "lm", "messages": [{"role": "user", "content": "the old man"}]}),
    ],
)
def test_a_stream_arrives_piece_by_piece(front, monkeypatch, path, body):
    step = ContinuousBatch.step

    def slow(self):
        time.sleep(0.03)
        return step(self)

    monkeypatch.setattr(ContinuousBatch, "step", slow)
    count = "max_new_tokens" if path == "/generate" else "max_tokens"
    body = {**body, count: 20, "temperature": 1, "seed": 3, "stream": True}
    began, times = time.perf_counter(), []
    with through(front) as client, client.stream("POST", path, json=body, headers=AUTH) as answer:
        assert answer.status_code == 200
        for _ in answer.iter_raw():
            times.append(time.perf_counter() - began)
    assert len(times) >= 5, "it came in one piece"
    assert times[0] < times[-1] / 2, "the first piece waited for the others"


def test_clients_are_told_apart_and_cannot_pretend(front, behind, watched):
    def seen(address: str, source: str, **headers: str) -> str:
        watched.seen.clear()
        with through(address, source, **headers) as client:
            assert client.get("/health").status_code == 200
        return watched.seen[-1]

    assert seen(front, "127.0.0.2") == "127.0.0.2"
    assert seen(front, "127.0.0.3") == "127.0.0.3"
    assert seen(front, "127.0.0.2", **{"x-forwarded-for": "9.9.9.9"}) == "127.0.0.2"
    # without the proxy, X-Forwarded-For is not trusted
    assert seen(behind, "127.0.0.2", **{"x-forwarded-for": "9.9.9.9"}) == "127.0.0.2"


def test_large_bodies_are_refused(front):
    with through(front) as client:
        answer = client.post("/embed", content=b"x" * (9 * 2**20), headers=AUTH)
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "too_large"
        text = "the old man " * 40_000  # 480 kB: nginx keeps it in a file, and passes it on
        assert client.post("/embed", json={"text": text}, headers=AUTH).status_code in (200, 422)


def test_who_asks_too_often_is_told_when_to_ask_again(front):
    with through(front, "127.0.0.9") as client:
        answers = [client.get("/health") for _ in range(200)]
    statuses = {one.status_code for one in answers}
    assert statuses == {200, 429}
    late = next(one for one in answers if one.status_code == 429)
    assert late.headers["retry-after"] == "1" and late.json()["error"]["code"] == "rate"


def test_a_server_that_is_away_is_told_so(tmp_path):
    """With nothing behind it, nginx says so in the server's words."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        dead = one.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    text = FILE.read_text().replace("127.0.0.1:8000", f"127.0.0.1:{dead}")
    text = text.replace("listen 80;", f"listen 127.0.0.1:{port};")
    (tmp_path / "main.conf").write_text(
        f"daemon off; master_process off; pid {tmp_path}/pid; error_log {tmp_path}/e; events {{}}\nhttp {{ {text} }}\n"
    )
    process = subprocess.Popen([str(NGINX), "-p", str(tmp_path), "-c", str(tmp_path / "main.conf")])
    try:
        for _ in range(100):
            try:
                answer = httpx.get(f"http://127.0.0.1:{port}/health", headers={"host": NAME})
                break
            except httpx.TransportError:
                time.sleep(0.1)
        else:
            pytest.fail("nginx does not answer")
        assert answer.status_code == 503 and answer.json()["error"]["code"] == "away"
    finally:
        process.terminate()
        process.wait(10)


def test_the_unit_is_one_that_systemd_reads(tmp_path):
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    text = (FILE.parent / "clearhead.service").read_text().replace("/opt/clearhead/bin/clearhead", "/bin/true")
    (tmp_path / "clearhead.service").write_text(
        text.replace("User=clearhead", "User=daemon").replace("Group=clearhead", "Group=daemon")
    )
    done = subprocess.run([program, "verify", str(tmp_path / "clearhead.service")], capture_output=True, text=True)
    assert not [line for line in done.stderr.splitlines() if "clearhead.service" in line], done.stderr
