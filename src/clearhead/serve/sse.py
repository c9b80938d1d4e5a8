"""Responses: JSON, and server-sent events for streams."""

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
        "description": "JSON, or with `stream` server-sent events with JSON data.",
    }
}


class OrjsonResponse(JSONResponse):
    """JSON by orjson, tensors as lists. FastAPI documents the response of a route only for a JSONResponse."""

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content, default=_to_array, option=orjson.OPT_SERIALIZE_NUMPY)


def _to_array(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.float().numpy()
    raise TypeError(f"{type(value).__name__} cannot be encoded as JSON")


def sse_event(event: Any) -> bytes:
    return b"data: " + orjson.dumps(event) + b"\n\n"
