"""HAProxy's configuration as Ray generates it, hardened. Only this file knows its text.

tests/serve/test_adapters.py checks it against the template of the installed Ray.

Ray writes the configuration again whenever a replica starts or stops, and lets one set the path of the HAProxy program.
This file is that program: it rewrites the configuration and then executes HAProxy. It imports nothing of this package,
so that it starts at once.
"""

import json
import os
import sys
from pathlib import Path

REQUEST_TIMEOUT_S = 8  # as CLIENT_TIMEOUT_S of uvicorn_protocol
MARK = "# hardened by clearhead"
BUSY = '{"error":{"message":"no replica is available: retry","type":"server_error","code":"busy","param":null}}'


def secured_config(
    config: str, *, host: str, port: int, metrics: int, stats: int, busy: str, max_body_bytes: int
) -> str:
    """Returns the hardened configuration; raises a ValueError if the text is not what this was written for."""
    if config.startswith(MARK):
        return config
    for old, new in (
        (f"    bind :{metrics}\n", f"    bind 127.0.0.1:{metrics}\n"),
        (f"  bind *:{stats}\n", f"  bind 127.0.0.1:{stats}\n"),
        (" mode 666 level admin", " mode 600 level admin"),
        (f"    bind 127.0.0.1:{port}\n", f"    bind {host}:{port}\n{_rules(max_body_bytes)}"),
    ):
        if config.count(old) != 1:
            raise ValueError(
                f"Ray's HAProxy configuration does not contain the line {old.strip()!r} exactly once: "
                "this version of Ray is not supported"
            )
        config = config.replace(old, new)
    lines: list[str] = []
    for line in config.splitlines():
        words = line.split()
        if words[:1] == ["errorfile"]:
            line = f"    errorfile {words[1]} {busy}"
        if words[:1] != ["log"] or words[1:] == ["global"]:  # no access log: paths may contain user data
            lines.append(line)
    return "\n".join([MARK, *lines, ""])


def _rules(max_body_bytes: int) -> str:
    return "".join(
        f"    {line}\n"
        for line in (
            f"timeout http-request {REQUEST_TIMEOUT_S}s",
            # refused here: a replica that refuses early would close the connection before the client reads why
            f"http-request return status 413 content-type application/json string '{_too_large(max_body_bytes)}' "
            f"if {{ req.hdr_val(content-length) gt {max_body_bytes} }}",
            "option http-buffer-request",
            # X-Forwarded-For is trusted from 127.0.0.1 only, where another proxy may run
            "http-request set-header X-Forwarded-For %[src] unless { src 127.0.0.1 ::1 }",
            "http-request deny deny_status 404 if { path_beg /-/ }",  # Ray's own routes, which need no key
            "http-response del-header server",
            "http-response set-header x-request-id %[res.fhdr(x-request-id,1)]",  # the id in our log, not Ray's
        )
    )


def _too_large(max_body_bytes: int) -> str:
    message = f"the request body exceeds {max_body_bytes:,} bytes: split the request"
    error = {"message": message, "type": "invalid_request_error", "code": "too_large", "param": None}
    return json.dumps({"error": error})


def write_wrapper(folder: Path, binary: str, *, max_body_bytes: int, **ports: str | int) -> Path:
    """Writes the program that Ray starts instead of HAProxy into this folder, and returns its path."""
    busy = folder / "busy.http"
    head = f"HTTP/1.1 503 Service Unavailable\r\ncontent-length: {len(BUSY)}\r\ncontent-type: application/json"
    busy.write_bytes(f"{head}\r\nretry-after: 1\r\ncache-control: no-store\r\n\r\n{BUSY}".encode())
    arguments = {**ports, "max_body_bytes": max_body_bytes, "busy": str(busy)}
    (folder / "wrapper.json").write_text(json.dumps({"binary": binary, "arguments": arguments}))
    program = folder / "haproxy"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{__file__}" "{folder}/wrapper.json" "$@"\n')
    program.chmod(0o700)
    return program


def main() -> None:
    """Rewrites the configuration file after -f, then executes HAProxy."""
    settings = json.loads(Path(sys.argv[1]).read_text())
    arguments = sys.argv[2:]
    if "-f" in arguments:
        file = Path(arguments[arguments.index("-f") + 1])
        file.write_text(secured_config(file.read_text(), **settings["arguments"]))
    _exit_with_parent()
    os.execv(settings["binary"], [settings["binary"], *arguments])


def _exit_with_parent() -> None:
    """Makes HAProxy exit when the Ray process that started it exits or is killed; Linux only."""
    if sys.platform == "linux":
        import ctypes
        import signal

        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG, which survives exec


if __name__ == "__main__":
    main()
