"""uvicorn's HTTP protocol with timeouts. Only this file uses uvicorn's internals.

tests/serve/test_adapters.py names what changed when a new version of uvicorn breaks it.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

CLIENT_TIMEOUT_S = 8.0  # for a request to arrive completely, and for a client to read more of its response
MAX_PIPELINED_REQUESTS = 16  # received on a connection before the first of them is answered


class TimeoutProtocol(HttpToolsProtocol):
    """Closes a connection whose client sends or reads too slowly, for which uvicorn waits without limit.

    It also closes a connection with too many pipelined requests: uvicorn accepts any number of them.
    """

    _request_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_request_timer()

    def data_received(self, data: bytes) -> None:
        was_idle = self.timeout_keep_alive_task is not None
        super().data_received(data)
        if was_idle and self.cycle.response_complete:  # blank lines cancel uvicorn's keep-alive timer
            self._start_request_timer()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED_REQUESTS:
            self._abort()
            raise ConnectionAbortedError(f"{MAX_PIPELINED_REQUESTS} pipelined requests")  # ends the parsing
        super().on_message_begin()
        self._start_request_timer()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._request_timer = _cancelled(self._request_timer)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(CLIENT_TIMEOUT_S, self._abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._write_timer = _cancelled(self._write_timer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._request_timer, self._write_timer = _cancelled(self._request_timer), _cancelled(self._write_timer)
        super().connection_lost(exc)

    def _start_request_timer(self) -> None:
        if self._request_timer is None:
            self._request_timer = self.loop.call_later(CLIENT_TIMEOUT_S, self._abort)

    def _abort(self) -> None:
        """Closes the socket at once and tells the application that its client disconnected."""
        cycle: Any = self.cycle  # None before the first request
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        self.flow.resume_writing()
        self.transport.abort()


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
