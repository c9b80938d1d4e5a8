"""Keys, hosts, body sizes, and no user data in the log."""

from __future__ import annotations

import base64
import json
import random
import signal
import socket
import string

import httpx
import pytest

from clearhead.serve.middleware import read_keys
from clearhead.serve.server import check_exposure
from tests.serve.conftest import start

KEY = "correct-horse-battery-staple"
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH")


@pytest.fixture(scope="module")
def locked(folders, tmp_path_factory):
    """A server with keys."""
    here = tmp_path_factory.mktemp("locked")
    (here / "keys").write_text(f"# who may\nanna {KEY}\nother-key-without-a-name\n")
    running = start(
        here / "log", *(f"{n}={p}" for n, p in folders.items()), "--dtype", "float32", "--api-keys", str(here / "keys")
    )
    yield running
    assert running.stop() == -signal.SIGTERM


def test_every_route_except_health_requires_a_key(locked):
    """RELIABILITY 22: every route, every method, with no key, a wrong one and a valid one."""
    with locked.client() as client:
        routes = client.get("/openapi.json", headers={"authorization": f"Bearer {KEY}"}).json()["paths"]
        paths = [
            *routes,
            "/",
            "/page.js",
            "/docs",
            "/openapi.json",
            "/metrics",
            "/see/x/",
            "/nowhere",
            "//health",
            "/health/",
        ]
        wrong = [
            "",
            "Bearer",
            "Bearer wrong",
            f"Bearer {KEY}x",
            f"Basic {KEY}",
            "Basic !!",
            f"bearer{KEY}",
            f"Digest {KEY}",
        ]
        tried = 0
        for path in paths:
            for method in METHODS:
                if path == "/health":
                    continue
                for header in wrong:
                    answer = client.request(method, path, headers={"authorization": header} if header else {})
                    assert answer.status_code == 401, (method, path, header)
                    assert "basic" in answer.headers["www-authenticate"].lower()
                    tried += 1
                good = client.request(method, path, headers={"authorization": f"Bearer {KEY}"})
                assert good.status_code != 401, (method, path)
        assert tried > 500
        assert client.get("/health").status_code == 200
        basic = base64.b64encode(f"anybody:{KEY}".encode()).decode()
        assert client.get("/models", headers={"authorization": f"Basic {basic}"}).status_code == 200
        assert client.get("/models", headers={"authorization": "Bearer other-key-without-a-name"}).status_code == 200


def test_keys_are_named_in_the_log_and_never_written(locked):
    with locked.client(headers={"authorization": f"Bearer {KEY}"}) as client:
        client.post("/classify", json={"text": "the old man"})
    lines = [json.loads(line) for line in locked.log.read_text().splitlines()]
    assert any(line.get("key") == "anna" and line.get("route") == "/classify" for line in lines)
    assert KEY not in locked.log.read_text()


def test_a_browser_of_another_site_is_refused(client):
    body = {"text": "the old man"}
    for headers, status in (
        ({"host": "evil.example"}, 400),  # a foreign name that resolves to this server
        ({"host": "127.0.0.1:1"}, 200),
        ({"host": "localhost"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
    ):
        assert client.post("/classify", json=body, headers=headers).status_code == status, headers
    headers = client.get("/health").headers
    assert "default-src 'none'" in headers["content-security-policy"] and headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers and "server" not in headers


def test_a_large_body_is_refused_before_it_is_read(client, server):
    address = httpx.URL(server.address)
    with socket.create_connection((address.host, address.port), timeout=5) as line:  # nothing is sent but the head
        line.sendall(b"POST /classify HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9000000\r\n\r\n")
        assert line.recv(12) == b"HTTP/1.1 413"
    large = b'{"text": "' + b"a" * 9_000_000 + b'"}'
    assert client.post("/classify", content=large).status_code == 413
    assert client.post("/classify", content=iter([large[:5_000_000], large[5_000_000:]])).status_code == 413
    assert client.post("/classify", content=b'{"text": "' + b"a" * 300_000 + b'"}').status_code == 422


def marked(client, log, count: int, seed: int) -> None:
    """Sends requests with a secret in every place that a user controls; none of it may be logged."""
    draw = random.Random(seed)
    secrets = []
    routes = [("/classify", "text"), ("/tag", "text"), ("/embed", "text"), ("/generate", "prompt"), ("/translate", "text"),
              ("/attention", "text"), ("/nowhere", "text"), ("/v1/completions", "prompt")]  # fmt: skip
    for number in range(count):
        secret = "zq" + "".join(draw.choices(string.ascii_letters, k=16))
        secrets.append(secret)
        path, name = routes[number % len(routes)]
        body = {
            name: f"the {secret} man",
            "max_new_tokens" if name == "prompt" else "model": 2 if name == "prompt" else secret,
        }
        if number % 3:
            body = {name: f"the {secret} man"}
        headers = {"user-agent": secret, "x-thing": secret, "cookie": f"a={secret}"}
        client.post(f"{path}?q={secret}" if number % 5 else f"{path}/{secret}", json=body, headers=headers)
    written = log.read_text() + client.get("/metrics").text
    assert not [secret for secret in secrets if secret in written]


def test_no_user_text_is_logged(client, server):
    marked(client, server.log, 200, 0)


@pytest.mark.slow
def test_no_user_text_is_logged_in_10_000_requests(client, server):
    """RELIABILITY 24; and no connection leaves this machine."""
    import psutil

    marked(client, server.log, 10_000, 1)
    held = psutil.Process(server.process.pid).net_connections("inet")
    assert all(not one.raddr or one.raddr.ip in ("127.0.0.1", "::1") for one in held)


def test_keys_are_read():
    found = read_keys(["", "# a comment", f"anna {KEY}", "bertha's phone " + "x" * 16, "y" * 20])
    assert list(found) == ["anna", "bertha's phone", "key 5"] and KEY not in str(found)
    with pytest.raises(ValueError, match="line 1 has 5 characters"):
        read_keys(["short"])


def test_a_server_without_keys_is_not_exposed():
    for near in ("127.0.0.1", "::1", "localhost", "127.8.9.1"):
        check_exposure(near, {})
    for far in ("0.0.0.0", "::", "192.168.1.4", "example.org"):
        with pytest.raises(ValueError, match=r"no key is set.*--api-keys"):
            check_exposure(far, {})
        check_exposure(far, {"anna": "x"})
