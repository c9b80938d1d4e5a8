"""Jobs: a request, split into work items that are batched with those of other requests."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from clearhead.serve.model_registry import ServedModel

GENERATE = "generate"  # work that runs in the model's continuous batch; all other work runs in one batch


@dataclass(frozen=True)
class BatchKey:
    """Items with equal keys may share a batch: same model, same work, same options."""

    model: ServedModel
    work: str
    options: tuple[Any, ...] = ()


@dataclass(eq=False)
class RequestJob:
    """One request. The engine thread calls `deliver(index, result)` for each work item; a result may be an error."""

    client: str
    deadline_s: float
    deliver: Callable[[int, Any], None]
    cancelled: bool = False  # the client disconnected, or one item failed
    created: float = field(default_factory=time.monotonic)

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self.created + self.deadline_s


@dataclass(eq=False)
class WorkItem:
    """One text, pair, question or prompt of a job."""

    job: RequestJob
    index: int
    value: Any
    tokens: int  # counted by the model's tokenizer; with the tokens that may be generated
    created: float = field(default_factory=time.monotonic)

    def deliver(self, result: Any) -> None:
        """Passes a result or an error to the request, unless it was cancelled."""
        if not self.job.cancelled:
            self.job.deliver(self.index, result)
