"""Many concurrent HTTP clients, one connection each, with minimal overhead."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


class Connection:
    """An HTTP/1.1 connection that is kept alive."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._host, self._port = parts.hostname, parts.port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None or self._writer.is_closing():
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=2**24)
        return self._reader, self._writer

    async def post(self, path: str, body: Any = None, *, raw: bytes | None = None) -> tuple[int, dict[str, str], bytes]:
        """Return the status, headers and body of the response; a closed connection is reopened once."""
        content = json.dumps(body).encode() if raw is None else raw
        head = (
            f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\n\r\n"
        )
        for again in (True, False):
            reader, writer = await self.open()
            try:
                writer.write(head.encode() + content)
                await writer.drain()
                return await self._answer(reader)
            except (ConnectionError, asyncio.IncompleteReadError):
                self.close()
                if not again:
                    raise
        raise AssertionError

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:] if line)}
        if "content-length" in headers:
            content = await reader.readexactly(int(headers["content-length"]))
        else:
            content = b""
            while size := int((await reader.readline()).strip() or b"0", 16):
                content += await reader.readexactly(size)
                await reader.readexactly(2)
            await reader.readexactly(2)
        if headers.get("connection") == "close":
            self.close()
        return int(lines[0].split()[1]), headers, content

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


@dataclass
class Tally:
    """Counts and latencies of all clients."""

    statuses: dict[int, int] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def count(self, status: int, seconds: float) -> None:
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.seconds.append(seconds)

    def quantile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


Ask = Callable[[Connection, int, int, Tally], Awaitable[None]]


async def closed_loop(address: str, clients: int, seconds: float, ask: Ask, patience: float | None = None) -> Tally:
    """Run `count` closed-loop clients, each calling `ask(connection, client, turn, tally)` repeatedly.

    After `seconds` no new request is sent; pending requests are awaited for at most `patience` seconds.
    """
    tally, began = Tally(), time.monotonic()

    async def one(client: int) -> None:
        connection = Connection(address)
        number = 0
        try:
            while time.monotonic() - began < seconds:
                await ask(connection, client, number, tally)
                number += 1
        finally:
            connection.close()

    asking = [asyncio.ensure_future(one(i)) for i in range(clients)]
    _, unanswered = await asyncio.wait(asking, timeout=None if patience is None else seconds + patience)
    for late in unanswered:
        late.cancel()
    await asyncio.wait(asking)
    for answered in set(asking) - unanswered:
        answered.result()  # raises the exception of the task
    return tally
