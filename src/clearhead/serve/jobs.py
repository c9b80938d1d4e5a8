"""Jobs: what one request asks of the engine, in parts that are computed together with those of others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from clearhead.serve.shelf import Shelved

WRITE = "write"


@dataclass(frozen=True)
class Group:
    """What may be computed in one batch: the same work of the same model with the same options."""

    model: Shelved
    work: str
    options: tuple[Any, ...] = ()


@dataclass(eq=False)
class Job:
    """One request. The engine's thread calls `tell` with the place of a part and what became of it."""

    client: str
    seconds: float  # that it has
    tell: Callable[[int, Any], None]
    cancelled: bool = False  # nobody waits any more
    born: float = field(default_factory=time.monotonic)

    @property
    def late(self) -> bool:
        """Has its time passed?"""
        return time.monotonic() > self.born + self.seconds


@dataclass(eq=False)
class Part:
    """A text, a pair, a question or a prompt of a job."""

    job: Job
    place: int
    value: Any
    size: int  # tokens, about: what the line is measured in
    born: float = field(default_factory=time.monotonic)

    def tell(self, what: Any) -> None:
        """A result, or a fault; nothing to somebody who has left."""
        if not self.job.cancelled:
            self.job.tell(self.place, what)
