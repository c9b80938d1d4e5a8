"""Errors of the API: HTTP status, machine-readable code, and a message that says what is wrong and how to fix it."""

import logging
from typing import Any

from starlette.exceptions import HTTPException

log = logging.getLogger("clearhead.serve")


class ApiError(HTTPException):
    """An error response: HTTP status, a code for programs and a message for people."""

    def __init__(
        self, status: int, code: str, message: str, *, param: str | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(status, message)
        self.status, self.code, self.message, self.param, self.retry_after = status, code, message, param, retry_after

    def body(self) -> dict[str, Any]:
        """Returns the JSON body in OpenAI's error format."""
        kind = "invalid_request_error" if self.status < 500 and self.status != 429 else "server_error"
        return {"error": {"message": self.message, "type": kind, "code": self.code, "param": self.param}}


def bad_request(message: str, param: str | None = None) -> ApiError:
    return ApiError(422, "invalid", message, param=param)


def overloaded(message: str, seconds: float) -> ApiError:
    """Returns a 429 with the expected wait in `Retry-After`, between 1 and 60 seconds."""
    return ApiError(429, "overloaded", message, retry_after=max(1, min(60, round(seconds))))


def deadline_exceeded(seconds: float) -> ApiError:
    message = f"the request exceeded its deadline of {seconds:g} s: retry, or send less in one request"
    return ApiError(503, "deadline_exceeded", message, retry_after=1)


def shutting_down() -> ApiError:
    return ApiError(503, "shutting_down", "the server is shutting down: retry", retry_after=1)


def internal_error() -> ApiError:
    """Returns a 500 without details: they are in the log, and may quote a user's text."""
    return ApiError(500, "internal", "internal server error: see the server's log under this request's id")


def error_location(error: Exception) -> str:
    """Returns `file:line` of the innermost frame. Only this is logged: the message of an error may quote a text."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return "" if frame is None else f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}"


def to_api_error(error: Exception, work: str) -> ApiError:
    """Converts any exception: a ValueError describes the request (422), anything else is logged and hidden (500)."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ValueError):
        return bad_request(str(error))
    fields = {"error": type(error).__name__, "location": error_location(error), "work": work}
    log.error("failed", extra={"fields": fields})
    if isinstance(error, MemoryError) or "not enough memory" in str(error):  # PyTorch's wording
        message = "not enough memory for this request: send less in one request"
        return ApiError(503, "out_of_memory", message, retry_after=1)
    return internal_error()
