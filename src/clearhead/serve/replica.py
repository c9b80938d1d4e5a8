"""A replica: the same application as on one machine, in a process of Ray's, and what Ray asks about its health."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from clearhead.serve.app import make_app
from clearhead.serve.engine import Engine, Limits
from clearhead.serve.guard import Guard, Rules
from clearhead.serve.server import SWITCH, set_logs
from clearhead.serve.shelf import Shelf


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What every replica is made from; it travels, the models do not."""

    sources: Mapping[str, str]  # name: folder, as every machine sees it
    dtype: str = "auto"
    device: str = "cpu"
    limits: Limits = field(default_factory=Limits)
    rules: Rules = field(default_factory=Rules)
    threads: int = 1  # of torch
    patience: float = 10.0  # seconds that a replica is believed whose engine does not answer
    quiet: bool = False
    near: bool = False  # all replicas are on one machine


class Replica:
    """Models and their application. Ray makes it where it is to run."""

    def __init__(self, plan: Plan) -> None:
        import torch

        torch.set_num_threads(plan.threads)
        sys.setswitchinterval(SWITCH)
        set_logs(quiet=plan.quiet)
        if plan.near:
            _stay_near()
        self._plan = plan
        self._shelf = Shelf(plan.sources, dtype=plan.dtype, device=plan.device)
        self._engine = Engine(plan.limits)
        self._canary: Future[None] | None = None
        self._asked = 0.0

    def __serve_build_asgi_app__(self) -> Guard:
        """What answers; Ray calls it once, here, so nothing of it is ever pickled."""
        return make_app(self._shelf, rules=self._plan.rules, engine=self._engine)

    async def check_health(self) -> None:
        """Ray asks every few seconds; an error or silence, three times in a row, and another takes this one's place.

        A thread that lives may still hang, so the engine is given something to do; it has its turn like everybody's.
        """
        if not self._engine.is_alive:
            raise RuntimeError("the engine's thread has ended")
        if self._canary is None or self._canary.done():
            self._canary, self._asked = self._engine.canary(self._shelf.all()[0]), time.monotonic()
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._canary)), 1)
        except TimeoutError:
            silent = time.monotonic() - self._asked
            if silent > self._plan.patience:
                raise RuntimeError(f"the engine has not answered for {silent:.0f} s") from None


def _stay_near() -> None:
    """The port on which a replica hears others of its kind, which Ray opens to the network, opens on loopback instead.

    It asks for the cluster's token, but what comes in there is unpickled. Ray has no setting for it.
    """
    from ray.serve._private import replica as module

    replica: Any = module
    opened = replica.add_port_to_grpc_server
    replica.add_port_to_grpc_server = lambda server, address: opened(server, address.replace("[::]", "127.0.0.1"))
