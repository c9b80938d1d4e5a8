"""Answers on the wire: JSON, and server-sent events for what grows."""

from __future__ import annotations

from typing import Any

import orjson
import torch
from starlette.responses import JSONResponse

EVENTS = "text/event-stream"
STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            EVENTS: {"schema": {"type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]}}
        },
        "description": "Whole, or as server-sent events whose data are JSON.",
    }
}


class Json(JSONResponse):
    """JSON by orjson; tensors as lists. FastAPI describes what a route gives only for a JSONResponse."""

    def render(self, content: Any) -> bytes:
        """The bytes of it."""
        return orjson.dumps(content, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY)


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.float().numpy()
    raise TypeError(f"{type(value).__name__} is no JSON")


def sent(event: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + orjson.dumps(event) + b"\n\n"
