"""The front: HAProxy as Ray starts it, with the doors closed that Ray leaves open.

Ray writes HAProxy's configuration itself, again whenever a replica comes or goes, and lets one name the program. This
file is that program: it amends the configuration and becomes HAProxy. It imports nothing of ours, so that it starts at
once.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

SLOW = 8  # seconds in which a request must have come in; the server's own, see there
MARK = "# amended by clearhead"
BUSY = '{"error":{"message":"no replica answers now: ask again","type":"server_error","code":"busy","param":null}}'


def closed(config: str, *, host: str, port: int, metrics: int, stats: int, busy: str, largest: int) -> str:
    """The configuration, amended; ValueError where it is not as this was written for."""
    if config.startswith(MARK):
        return config
    for old, new in (
        (f"    bind :{metrics}\n", f"    bind 127.0.0.1:{metrics}\n"),
        (f"  bind *:{stats}\n", f"  bind 127.0.0.1:{stats}\n"),
        (" mode 666 level admin", " mode 600 level admin"),
        (f"    bind 127.0.0.1:{port}\n", f"    bind {host}:{port}\n{_rules(largest)}"),
    ):
        if config.count(old) != 1:
            raise ValueError(f"HAProxy's configuration has not one line {old.strip()!r}: another version of Ray?")
        config = config.replace(old, new)
    kept: list[str] = []
    for line in config.splitlines():
        words = line.split()
        if words[:1] == ["errorfile"]:
            line = f"    errorfile {words[1]} {busy}"
        if words[:1] != ["log"] or words[1:] == ["global"]:  # paths in a log are the users'
            kept.append(line)
    return "\n".join([MARK, *kept, ""])


def _rules(largest: int) -> str:
    return "".join(
        f"    {line}\n"
        for line in (
            f"timeout http-request {SLOW}s",
            f"http-request return status 413 content-type application/json string '{_large(largest)}' "
            f"if {{ req.hdr_val(content-length) gt {largest} }}",  # before it is passed on, and the way back is lost
            "option http-buffer-request",
            # what a client says of its own address is believed from 127.0.0.1 alone, where a proxy may stand
            "http-request set-header X-Forwarded-For %[src] unless { src 127.0.0.1 ::1 }",
            "http-request deny deny_status 404 if { path_beg /-/ }",  # Ray's own pages, which ask for no key
            "http-response del-header server",
            "http-response set-header x-request-id %[res.fhdr(x-request-id,1)]",  # ours, which is in our log
        )
    )


def _large(largest: int) -> str:
    message = f"a request has at most {largest:,} bytes: send it in parts"
    fault = {"message": message, "type": "invalid_request_error", "code": "too_large", "param": None}
    return json.dumps({"error": fault})


def written(folder: Path, binary: str, *, largest: int, **ports: str | int) -> Path:
    """A program to be named to Ray, in this folder."""
    busy = folder / "busy.http"
    head = f"HTTP/1.1 503 Service Unavailable\r\ncontent-length: {len(BUSY)}\r\ncontent-type: application/json"
    busy.write_bytes(f"{head}\r\nretry-after: 1\r\ncache-control: no-store\r\n\r\n{BUSY}".encode())
    facts = {**ports, "largest": largest, "busy": str(busy)}
    (folder / "front.json").write_text(json.dumps({"binary": binary, "facts": facts}))
    program = folder / "haproxy"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{__file__}" "{folder}/front.json" "$@"\n')
    program.chmod(0o700)
    return program


def main() -> None:
    """Amend the file after -f, then be HAProxy."""
    told = json.loads(Path(sys.argv[1]).read_text())
    words = sys.argv[2:]
    if "-f" in words:
        file = Path(words[words.index("-f") + 1])
        file.write_text(closed(file.read_text(), **told["facts"]))
    _die_with_parent()
    os.execv(told["binary"], [told["binary"], *words])


def _die_with_parent() -> None:
    """HAProxy ends with the process of Ray's that began it, also where that is killed; Linux only."""
    if sys.platform == "linux":
        import ctypes
        import signal

        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG, kept over exec


if __name__ == "__main__":
    main()
