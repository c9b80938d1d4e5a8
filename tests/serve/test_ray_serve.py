"""Ray Serve: the same results as from one process, while replicas are killed, stopped and replaced."""

from __future__ import annotations

import concurrent.futures
import contextlib
import ipaddress
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import httpx
import psutil
import pytest

from clearhead.serve.engine import Engine
from clearhead.serve.haproxy import secured_config
from clearhead.serve.middleware import SecurityConfig
from clearhead.serve.model_registry import ModelRegistry
from clearhead.serve.ray_serve import RayConfig, parse_count, run_on_ray
from clearhead.serve.replica import Replica, ReplicaConfig
from tests.serve.conftest import Running, start

KEY = "a-key-of-more-than-sixteen-letters"
ASKED = [
    ("/classify", {"text": ["the old man", "a small dog"]}),
    ("/pair", {"text": "the old man", "second": "a small dog"}),
    ("/tag", {"text": "the old man sees a small dog"}),
    ("/qa", {"question": "the man?", "context": "the old man sees a small dog under one tree"}),
    ("/translate", {"text": "the old man"}),
    ("/embed", {"text": "the old man"}),
    ("/generate", {"prompt": "the old man", "max_new_tokens": 12, "temperature": 0}),
    ("/generate", {"prompt": "the old", "max_new_tokens": 12, "temperature": 1.0, "seed": 7}),
    ("/chat", {"turns": ["the old man"], "max_new_tokens": 8, "temperature": 0}),
    ("/attention", {"text": "the old man", "model": "classify"}),
]


# What needs no cluster


def test_replicas_are_counted():
    assert parse_count("3") == (3, 3)
    assert parse_count("1-4") == (1, 4)
    for wrong in ("0", "4-1", "two", "-1", "1-", "2000"):
        with pytest.raises(ValueError, match="is not a number of replicas: give a number"):
            parse_count(wrong)


def test_a_service_without_keys_is_not_exposed(folders):
    plan = ReplicaConfig(sources={"lm": str(folders["lm"])})
    refused = pytest.raises(ValueError, match=r"0\.0\.0\.0 is reachable from other machines.*--api-keys")
    with refused, run_on_ray(plan, RayConfig(host="0.0.0.0")):
        pass


def test_a_replica_is_healthy_while_its_engine_answers(folders):
    replica, hold = _replica(folders, health_timeout_s=5), threading.Event()
    _check(replica)
    model = replica._registry.all()[0]
    blocked = replica._engine.call(model, hold.wait)
    _check(replica)  # busy for a second is not ill
    with pytest.raises(RuntimeError, match="has not responded for"):
        _check(replica, times=9)
    hold.set()
    assert blocked.result(5)
    _check(replica)
    replica._engine.close()
    with pytest.raises(RuntimeError, match="thread has ended"):
        _check(replica)


def test_a_full_queue_is_not_taken_for_a_hang(folders):
    """The probe is accepted where requests are refused, and runs between two batches."""
    from clearhead.serve.engine import EngineLimits
    from clearhead.serve.errors import ApiError
    from clearhead.serve.jobs import BatchKey, RequestJob

    engine, hold = Engine(EngineLimits(queue_tokens=10)), threading.Event()
    model = ModelRegistry({"lm": str(folders["lm"])}).all()[0]
    engine.call(model, hold.wait)
    time.sleep(0.1)
    engine.put(BatchKey(model, "embed", (None, None)), RequestJob("", 60, lambda *_: None), ["the"] * 9, [1] * 9)
    with pytest.raises(ApiError, match="tokens are waiting"):
        engine.put(BatchKey(model, "embed", (None, None)), RequestJob("", 60, lambda *_: None), ["the"] * 9, [1] * 9)
    probe = engine.probe(model)
    hold.set()
    probe.result(10)
    engine.close()


def test_the_haproxy_configuration_is_hardened():
    config = (
        "global\n    log 127.0.0.1:514 local0 info\n    stats socket /x mode 666 level admin expose-fd listeners\n"
        "defaults\n    log global\n    errorfile 503 /tmp/500.http\nfrontend prometheus\n    bind :9101\n"
        "frontend http_frontend\n    bind 127.0.0.1:8000\nlisten stats\n  bind *:8404\n"
    )
    facts = {"host": "10.0.0.1", "port": 8000, "metrics": 9101, "stats": 8404, "busy": "/b", "max_body_bytes": 1000}
    amended = secured_config(config, **facts)
    binds = [line.split()[1] for line in amended.splitlines() if line.split()[:1] == ["bind"]]
    assert binds == ["127.0.0.1:9101", "10.0.0.1:8000", "127.0.0.1:8404"]
    assert "mode 600" in amended and ":514" not in amended and "errorfile 503 /b" in amended
    assert secured_config(amended, **facts) == amended
    with pytest.raises(ValueError, match="version of Ray is not supported"):
        secured_config(config.replace("bind *:8404", "bind :8404"), **facts)


def _replica(folders, **options) -> Replica:
    return Replica(ReplicaConfig(sources={"classify": str(folders["classify"])}, security=SecurityConfig(), **options))


def _check(replica: Replica, times: int = 1) -> None:
    import asyncio

    for _ in range(times):
        asyncio.run(replica.check_health())


# What needs one


@pytest.fixture(scope="module")
def ray(folders, tmp_path_factory):
    """Two replicas of all models, in float32, behind a key."""
    yield from _started(folders, tmp_path_factory, "--replicas", "2", "--cores-per-replica", "1")


def _started(folders, tmp_path_factory, *more: str):
    folder = tmp_path_factory.mktemp("ray")
    (folder / "keys").write_text(f"me {KEY}\n")
    running = start(
        folder / "log", *(f"{n}={p}" for n, p in folders.items()), "--dtype", "float32", "--on", "ray", *more,
        "--api-keys", str(folder / "keys"),
    )  # fmt: skip
    family = psutil.Process(running.process.pid).children(recursive=True)
    yield running
    assert running.stop() == 0, running.log.read_text()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive, "processes of Ray outlive the command"


def asking(running: Running) -> httpx.Client:
    return running.client(headers={"authorization": f"Bearer {KEY}"})


def replicas(running: Running) -> list[psutil.Process]:
    """Those that answer: the processes of Ray's that are named so once the replica is made."""
    return [
        one
        for one in psutil.Process(running.process.pid).children(recursive=True)
        if _words(one)[:1] and _words(one)[0].startswith("ray::ServeReplica")
    ]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it is gone
        return []


@pytest.mark.slow
def test_every_task_answers_the_same(ray, client):
    with asking(ray) as there:
        for path, body in ASKED:
            here, far = client.post(path, json=body), there.post(path, json=body)
            assert far.status_code == here.status_code == 200, (path, far.text)
            a, b = here.json(), far.json()
            a.pop("page", None)  # its name is drawn
            b.pop("page", None)
            assert _close(a, b), (path, a, b)
        assert {one["name"] for one in there.get("/models").json()["models"]} == {
            one["name"] for one in client.get("/models").json()["models"]
        }
        assert there.get("/nothing").status_code == 404
        assert there.post("/embed", content=b"x" * (9 * 2**20)).status_code == 413
        assert there.post("/embed", json={"text": "a"}, headers={"host": "evil.example"}).status_code == 400


def _close(a, b) -> bool:
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_close(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(_close(x, y) for x, y in zip(a, b, strict=True))
    return abs(a - b) <= 1e-5 * max(1, abs(a)) if isinstance(a, float) else a == b


@pytest.mark.slow
def test_a_stream_arrives_piece_by_piece(ray):
    body = {"prompt": "the old man", "max_new_tokens": 40, "temperature": 0, "stream": True}
    with asking(ray) as there, there.stream("POST", "/generate", json=body) as answer:
        assert answer.status_code == 200
        times = [time.perf_counter() for line in answer.iter_lines() if line.startswith("data:")]
    assert len(times) > 10
    assert times[-1] - times[0] > 0.005, "all of it came at once"


@pytest.mark.slow
def test_nothing_answers_without_a_key(ray):
    with ray.client() as stranger:
        assert stranger.get("/health").status_code == 200
        for path, body in ASKED:
            assert stranger.post(path, json=body).status_code == 401, path
        for path in ("/models", "/metrics", "/ready", "/docs", "/openapi.json", "/see/x/", "/"):
            assert stranger.get(path).status_code == 401, path
        for path in ("/-/healthz", "/-/routes"):  # Ray's own
            assert stranger.get(path).status_code == 404, path
        wrong = {"authorization": "Bearer " + "x" * 20}
        assert stranger.get("/models", headers=wrong).status_code == 401


@pytest.mark.slow
def test_it_listens_on_loopback_alone(ray):
    family = [psutil.Process(ray.process.pid), *psutil.Process(ray.process.pid).children(recursive=True)]
    ports = [
        (one.name(), c.laddr) for one in family for c in one.net_connections("tcp") if c.status == psutil.CONN_LISTEN
    ]
    assert len(ports) > 5
    for name, address in ports:
        ip = ipaddress.ip_address(address.ip)
        assert (getattr(ip, "ipv4_mapped", None) or ip).is_loopback, (name, address)


@pytest.mark.slow
def test_ray_itself_requires_the_token(ray):
    """A client without the token can run nothing on the head node."""
    command = next(
        one.cmdline() for one in psutil.Process(ray.process.pid).children(recursive=True) if one.name() == "raylet"
    )
    address = next(word.partition("=")[2] for word in command if word.startswith("--gcs-address="))
    code = f"from ray._raylet import GcsClient; GcsClient(address={address!r}).get_all_node_info(timeout=10)"
    for stranger in ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}, {"RAY_AUTH_MODE": "disabled"}):
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **stranger}, capture_output=True, text=True
        )
        assert done.returncode != 0 and "nauth" in done.stderr, done.stderr[-500:]


@pytest.mark.slow
def test_a_replica_unpickles_nothing_of_a_stranger(ray):
    """A replica has a port for others of its kind, where pickles go in."""
    import grpc

    refused = 0
    for one in replicas(ray):
        for c in one.net_connections("tcp"):
            if c.status != psutil.CONN_LISTEN:
                continue
            with grpc.insecure_channel(f"127.0.0.1:{c.laddr.port}") as channel:
                call = channel.unary_unary("/ray.serve.ASGIService/HandleRequest")
                with pytest.raises(grpc.RpcError) as info:
                    call(b"", timeout=5, metadata=(("authorization", "Bearer " + "0" * 64),))
                refused += info.value.code() == grpc.StatusCode.UNAUTHENTICATED
    assert refused >= 2


class Load:
    """Clients that ask one after the other, and ask again at most three times."""

    def __init__(self, running: Running, clients: int = 4) -> None:
        self._running, self._over = running, threading.Event()
        self._pool = concurrent.futures.ThreadPoolExecutor(clients)
        self.asked, self.again, self.failed, self.worst = 0, 0, list[str](), 0.0
        self._lock = threading.Lock()
        self._work = [self._pool.submit(self._ask, number) for number in range(clients)]

    def _ask(self, number: int) -> None:
        with asking(self._running) as there:
            for turn in itertools.count():
                if self._over.is_set():
                    return
                path, body = ASKED[(number + turn) % 8]
                began, tries, info = time.perf_counter(), 0, ""
                while tries <= 3:
                    if tries:
                        time.sleep(2 ** (tries - 2))  # 0.5, 1, 2 seconds
                    try:
                        answer = there.post(path, json=body)
                        info = f"{path} {answer.status_code} {answer.text[:100]}"
                        if answer.status_code == 200:
                            break
                    except httpx.TransportError as error:
                        info = f"{path} {error!r}"
                    tries += 1
                with self._lock:
                    self.asked += 1
                    self.again += tries
                    self.worst = max(self.worst, time.perf_counter() - began)
                    if tries > 3:
                        self.failed.append(info)

    def end(self) -> dict[str, float]:
        self._over.set()
        for one in self._work:
            one.result(120)
        assert not self.failed, self.failed[:5]
        return {"requests": self.asked, "retries": self.again, "worst_seconds": round(self.worst, 2)}


@pytest.mark.slow
def test_a_replica_is_killed_under_load(ray, capsys):
    """RELIABILITY 20 in short."""
    load = Load(ray)
    time.sleep(3)
    victim = replicas(ray)[0]
    victim.kill()
    _until(lambda: victim not in replicas(ray) and len(replicas(ray)) == 2, 90)
    time.sleep(3)
    info = load.end()
    with capsys.disabled():
        print(f"\none kill: {json.dumps(info)}")
    assert info["requests"] > 20


@pytest.mark.slow
def test_a_replica_is_killed_every_ten_seconds_for_three_minutes(ray, capsys):
    """RELIABILITY 20."""
    load, kills = Load(ray), 0
    ends = time.monotonic() + 180
    while time.monotonic() < ends:
        there = replicas(ray)
        if there:
            min(there, key=lambda one: one.create_time()).kill()  # the oldest: it answers for certain
            kills += 1
        time.sleep(10)
    info = load.end()
    with capsys.disabled():
        print(f"\n{kills} kills in 180 s: {json.dumps(info)}")
    assert kills >= 12, "replicas came back too slowly to be killed so often: is the machine busy?"
    assert info["requests"] >= 100, "too few were answered to prove anything: is the machine busy?"


@pytest.mark.slow
def test_a_replica_that_hangs_is_replaced(ray, capsys):
    _until(lambda: len(replicas(ray)) == 2, 90)
    time.sleep(5)
    victim = replicas(ray)[0]
    victim.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    _until(lambda: not victim.is_running() or victim.status() == psutil.STATUS_ZOMBIE, 60)
    ended = time.monotonic() - began
    _until(lambda: len([one for one in replicas(ray) if one != victim]) == 2, 90)
    with capsys.disabled():
        print(f"\nhung: ended after {ended:.0f} s, replaced after {time.monotonic() - began:.0f} s")
    assert ended < 40
    with asking(ray) as there:
        for _ in range(20):
            assert there.post("/embed", json={"text": "the old man"}).status_code == 200


def _until(true, seconds: float) -> None:
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, "it took too long"
        time.sleep(0.25)


@pytest.mark.slow
def test_a_cluster_is_joined_only_if_it_asks_for_a_token(folders, tmp_path):
    """Two small clusters on loopback: one without a token, and one with."""
    lm = f"lm={folders['lm']}"
    with _cluster(tmp_path / "open", RAY_AUTH_MODE="disabled") as (address, _):
        done = _refused(lm, "--ray-address", address)
        assert "requires no token" in done and "RAY_AUTH_MODE=token" in done
    assert "no Ray cluster answers at 127.0.0.1:1" in _refused(lm, "--ray-address", "127.0.0.1:1")
    token = tmp_path / "token"
    token.write_text("0123456789abcdef" * 4)
    token.chmod(0o600)
    variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    with _cluster(tmp_path / "closed", **variables) as (address, _):
        running = start(tmp_path / "log", lm, "--on", "ray", "--ray-address", address, **variables, **NEAR)
        with running.client() as client:
            assert client.post("/embed", json={"text": "the old man"}).status_code == 200
        assert running.stop() == 0


NEAR = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}


@contextlib.contextmanager
def _cluster(folder, **variables: str):
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    short = tempfile.mkdtemp(prefix="ch-")
    words = ["start", "--head", "--block", f"--port={port}", "--include-dashboard=false", "--num-cpus=3"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ray.scripts.scripts", *words, "--temp-dir", short, "--object-store-memory=80000000"],
        env={**os.environ, **NEAR, **variables}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _until(lambda: _listens(port), 120)
        time.sleep(5)
        yield f"127.0.0.1:{port}", process
    finally:
        family = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        process.wait(60)
        _, alive = psutil.wait_procs(family, timeout=20)
        for one in alive:
            one.kill()
        shutil.rmtree(short, ignore_errors=True)


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def _refused(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "clearhead.cli", "serve", *words, "--on", "ray", "--port", "0"],
        env={**os.environ, **NEAR}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    return done.stderr
