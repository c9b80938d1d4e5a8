"""A proxy on the loopback that delays what a client sends: `python -m tests.latency_proxy SECONDS TARGET_PORT`.

Its first line of output is its own port.
"""

from __future__ import annotations

import asyncio
import sys


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Copy a stream in order, each piece so many seconds after it came."""
    loop, pieces = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes]]()

    async def deliver() -> None:
        while True:
            at, data = await pieces.get()
            await asyncio.sleep(max(0.0, at - loop.time()))
            if not data:
                break
            writer.write(data)
            await writer.drain()
        writer.close()

    delivering = asyncio.create_task(deliver())
    while data := await reader.read(1 << 16):
        await pieces.put((loop.time() + delay, data))
    await pieces.put((loop.time() + delay, b""))
    await delivering


async def main(delay: float, target: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(copy(reader, there[1], delay), copy(there[0], writer, 0.0), return_exceptions=True)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), int(sys.argv[2])))
