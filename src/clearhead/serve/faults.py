"""Faults: what a client did that cannot be answered, or what the server cannot do now, said so that it can act."""

from __future__ import annotations

import logging
from typing import Any

from starlette.exceptions import HTTPException

log = logging.getLogger("clearhead.serve")


class Fault(HTTPException):
    """An answer that is an error: its HTTP status, a word for programs, a sentence for people."""

    def __init__(
        self, status: int, code: str, message: str, *, param: str | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(status, message)
        self.status, self.code, self.message, self.param, self.retry_after = status, code, message, param, retry_after

    def body(self) -> dict[str, Any]:
        """As OpenAI's clients read it."""
        kind = "invalid_request_error" if self.status < 500 and self.status != 429 else "server_error"
        return {"error": {"message": self.message, "type": kind, "code": self.code, "param": self.param}}


def wrong(message: str, param: str | None = None) -> Fault:
    """What was asked cannot be."""
    return Fault(422, "invalid", message, param=param)


def full(message: str, seconds: float) -> Fault:
    """Too much waits already: come again after so long."""
    return Fault(429, "overloaded", message, retry_after=max(1, min(60, round(seconds))))


def late(seconds: float) -> Fault:
    """The deadline passed while it waited."""
    message = f"the answer took longer than the {seconds:g} s that a request has: ask again, or for less at once"
    return Fault(503, "deadline", message, retry_after=1)


def closing() -> Fault:
    """The server is going down."""
    return Fault(503, "closing", "the server is shutting down: ask again, another may answer", retry_after=1)


def broken() -> Fault:
    """Our own fault; the log has what happened, and the text has not left the process."""
    return Fault(500, "internal", "something failed in the server; its log says what, under this request's id")


def where(error: Exception) -> str:
    """Where an error came from, which is all that is written down of it: its message may quote a text."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return "" if frame is None else f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}"


def fault_of(error: Exception, work: str) -> Fault:
    """What is told of an error: a ValueError speaks of what was asked; anything else is ours, and stays here."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, ValueError):
        return wrong(str(error))
    log.error("failed", extra={"facts": {"error": type(error).__name__, "where": where(error), "work": work}})
    if isinstance(error, MemoryError) or "not enough memory" in str(error):  # as torch says it
        return Fault(503, "memory", "there was not enough memory for this: ask for less at once", retry_after=1)
    return broken()
