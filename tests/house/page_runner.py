"""Page runner: the blocks of a documentation page, run in page order in a copy of the files of a clone.

`python` blocks run in one interpreter per page. The `$ ` lines of `console` blocks are commands. An `sh` block that
starts `clearhead serve` and requests it with `curl` runs too: the server in the background, then each `curl` line.
Other blocks (`text`, `yaml`, `py`, other `sh`) are not run.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import time
import tomllib
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.warm_command import warm_folder

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.S | re.M)
SERVER_PORT = "8000"  # the port in the pages; a free one takes its place, so that tests can run side by side
SERVER_TIMEOUT_S = 180
LOOPBACK = f"curl http://127.0.0.1:{SERVER_PORT}/"

INTERPRETER = """
import json, sys, traceback
replies, sys.stdout = sys.stdout, sys.stderr
names = {"__name__": "__main__"}
for line in sys.stdin:
    error = ""
    try:
        exec(compile(json.loads(line), "block", "exec"), names)
    except BaseException:
        error = traceback.format_exc()
    print(json.dumps(error), file=replies, flush=True)
"""


@dataclass(frozen=True)
class PageBlock:
    """A block with the line of the page where it starts."""

    language: str
    text: str
    line: int

    @property
    def is_server(self) -> bool:
        lines = joined_lines(self.text)
        return (
            self.language == "sh"
            and any(line.startswith("clearhead serve ") for line in lines)
            and any(line.startswith(LOOPBACK) for line in lines)
        )

    @property
    def runs(self) -> bool:
        return self.language in ("python", "console") or self.is_server

    @property
    def commands(self) -> list[str]:
        if self.language == "console":
            return [line.removeprefix("$ ") for line in joined_lines(self.text) if line.startswith("$ ")]
        return joined_lines(self.text) if self.is_server else []


def joined_lines(text: str) -> list[str]:
    """The lines of a block; a line that ends with a backslash continues on the next."""
    return re.sub(r"\\\n\s*", "", text).splitlines()


def page_blocks(page: Path) -> list[PageBlock]:
    """All blocks of a page with a language, in page order."""
    text = page.read_text(encoding="utf-8")
    return [PageBlock(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in BLOCK.finditer(text)]


def copy_clone(folder: Path) -> None:
    """Copy the files that a clone of this repository has."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in listed.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def check_install(command: str) -> None:
    """Check that a `pip install` line names files that exist, extras that pyproject.toml has, and its requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    requirements = [*project["dependencies"], *(r for rs in extras.values() for r in rs)]
    known = {re.split(r"[^\w-]", r)[0].lower() for r in requirements}
    words = shlex.split(command, comments=True)
    assert words[:2] == ["pip", "install"], command
    for before, word in pairwise(words[1:]):
        if before == "-r":
            assert (ROOT / word).is_file(), f"{command}: no file {word}"
        elif match := re.fullmatch(r"(?:\.|clearhead)\[([\w,]+)\]", word):
            assert set(match[1].split(",")) <= extras.keys(), f"{command}: pyproject.toml has the extras {list(extras)}"
        elif word != "." and not word.startswith("-"):
            name = re.split(r"[^\w-]", word)[0].lower()
            assert name in known, f"{command}: {name} is no requirement in pyproject.toml"
            pins = {r for r in requirements if r.startswith(f"{name}==")}
            assert not pins or word in pins, f"{command}: pyproject.toml pins {pins}"


@dataclass
class PageRunner:
    """Runs blocks in `folder` with the executables of `bin_folder`; `install` also runs the `pip` lines."""

    folder: Path
    bin_folder: Path
    install: bool = False
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def __post_init__(self) -> None:
        self.environment |= {
            "PATH": f"{self.bin_folder}{os.pathsep}{os.environ['PATH']}",
            "BROWSER": "true",  # `show` opens no browser
        }
        self._interpreter: subprocess.Popen[str] | None = None
        self._output = (self.folder / ".output").open("w+", encoding="utf-8")

    def __enter__(self) -> PageRunner:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._interpreter is not None:
            self._interpreter.kill()
            self._interpreter.communicate()
        self._output.close()

    def run_page(self, page: Path) -> None:
        """Run all blocks of a page, in page order."""
        for block in page_blocks(page):
            self.run(block)

    def run(self, block: PageBlock) -> None:
        """Run one block; an error names the block's line."""
        place = f"line {block.line}"
        if block.language == "python":
            self._run_python(block.text, place)
        elif block.is_server:
            self._run_server(block, place)
        elif block.language == "console":
            for command in block.commands:
                self._run_command(command, place)

    def _run_python(self, code: str, place: str) -> None:
        if self._interpreter is None:
            self._interpreter = subprocess.Popen(
                [self.bin_folder / "python", "-c", INTERPRETER], cwd=self.folder, env=self.environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._output,
            )  # fmt: skip
        assert self._interpreter.stdin is not None and self._interpreter.stdout is not None
        self._interpreter.stdin.write(json.dumps(code) + "\n")
        self._interpreter.stdin.flush()
        reply = self._interpreter.stdout.readline()
        assert reply, f"{place}: the interpreter ended\n{self._tail()}"
        assert not json.loads(reply), f"{place}: {json.loads(reply)}"

    def _run_command(self, command: str, place: str) -> None:
        if command.startswith("pip "):
            check_install(command)
            if not self.install:
                return
        environment = dict(self.environment)
        if not self.install:
            environment["PATH"] = f"{warm_folder()}{os.pathsep}{environment['PATH']}"
        shell = ["bash", "-e", "-o", "pipefail", "-c", command]
        result = subprocess.run(shell, cwd=self.folder, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, f"{place}: {command}\n{result.stdout[-3000:]}{result.stderr[-3000:]}"

    def _run_server(self, block: PageBlock, place: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server: subprocess.Popen[bytes] | None = None
        try:
            for command in block.commands:
                if command.startswith("clearhead serve "):
                    words = [w for w in shlex.split(command, comments=True) if w not in ("--port", SERVER_PORT)]
                    server = subprocess.Popen(
                        [*words, "--port", str(port)], cwd=self.folder, env=self.environment,
                        stdout=self._output, stderr=self._output,
                    )  # fmt: skip
                    self._wait(server, port, f"{place}: {command}")
                else:
                    command = command.replace("curl ", "curl --fail-with-body --silent --show-error ", 1)
                    self._run_command(command.replace(f"127.0.0.1:{SERVER_PORT}", f"127.0.0.1:{port}"), place)
        finally:
            if server is not None:
                server.terminate()
                server.wait()

    def _wait(self, server: subprocess.Popen[bytes], port: int, place: str) -> None:
        deadline = time.monotonic() + SERVER_TIMEOUT_S
        while time.monotonic() < deadline and server.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"{place}: no server within {SERVER_TIMEOUT_S} s\n{self._tail()}")

    def _tail(self) -> str:
        self._output.flush()
        return Path(self._output.name).read_text(encoding="utf-8")[-3000:]
