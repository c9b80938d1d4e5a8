"""Warm commands: `clearhead` in a new process that is forked from one with all imports done.

The process has its own arguments, folder, environment, standard streams and exit code, like a fresh one; it lacks only the
seconds of importing torch. Tests of the start itself, of signals and of kills use the real command.
"""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SERVER = """
import json, os, signal, socket, sys
import clearhead.cli.main
from importlib import import_module
for section in clearhead.cli.main.COMMANDS.values():
    for name in section:
        import_module("clearhead.cli." + name.replace("-", "_"))
for name in ("pipeline", "tasks", "train", "decode", "viz", "cli.task_rows", "cli.prediction_output", "data"):
    import_module("clearhead." + name)
import rich.console, rich.progress, rich.table

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("ready", flush=True)
while True:
    connection, _ = listener.accept()
    if os.fork():
        connection.close()
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, fds, _, _ = socket.recv_fds(connection, 2**20, 3)
    size = int.from_bytes(request[:8], "big")
    while len(request) < 8 + size:
        request += connection.recv(2**20)
    given = json.loads(request[8:])
    if child := os.fork():
        _, status = os.waitpid(child, 0)
        connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
        os._exit(0)
    connection.close()
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(given["folder"])
    os.environ.clear()
    os.environ.update(given["environment"])
    sys.argv = ["clearhead", *given["arguments"]]
    sys.stdin, sys.stdout = open(0, encoding="utf-8"), open(1, "w", encoding="utf-8")
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1)
    code = 0
    try:
        clearhead.cli.main.app(given["arguments"], prog_name="clearhead")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
"""

CLIENT = """#!{python} -S
import json, os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
given = json.dumps({{"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}).encode()
socket.send_fds(connection, [len(given).to_bytes(8, "big")], [0, 1, 2])
connection.sendall(given)
code = int.from_bytes(connection.recv(4), "big", signed=True)
os._exit(code if code >= 0 else 128 - code)
"""


@functools.cache
def warm_folder() -> Path:
    """Start the server of this process; return a folder with an executable `clearhead` that uses it."""
    folder = Path(tempfile.mkdtemp(prefix="clearhead-warm-"))
    address = str(folder / "socket")
    server = subprocess.Popen([sys.executable, "-c", SERVER, address], stdout=subprocess.PIPE, text=True)
    atexit.register(server.communicate)
    atexit.register(server.kill)  # runs first
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n", "the server of warm commands did not start"
    client = folder / "clearhead"
    client.write_text(CLIENT.format(python=sys.executable, address=address))
    client.chmod(0o755)
    return folder


def run_command(
    *arguments: object, text: str | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `clearhead ARGUMENTS` to its end."""
    command = [str(warm_folder() / "clearhead"), *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, text=True, cwd=cwd, env=dict(os.environ))
