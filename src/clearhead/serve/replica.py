"""A replica: the same application as in a single process, inside a Ray actor, with a health check."""

import asyncio
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from clearhead.decode.translation_engine import EngineName
from clearhead.serve.app import make_app
from clearhead.serve.engine import Engine, EngineLimits
from clearhead.serve.middleware import SecurityConfig, SecurityMiddleware
from clearhead.serve.model_registry import ModelRegistry
from clearhead.serve.ray_private import bind_replicas_to_loopback
from clearhead.serve.server import SWITCH_INTERVAL_S, set_logs

PROBE_TIMEOUT_S = 1  # of one health check


@dataclass(frozen=True, kw_only=True)
class ReplicaConfig:
    """What every replica is created from. It is pickled; the models are not."""

    sources: Mapping[str, str]  # name: folder, as every machine sees it
    dtype: str = "auto"
    device: str = "cpu"
    engine: EngineName = "auto"  # of translation
    limits: EngineLimits = field(default_factory=EngineLimits)
    security: SecurityConfig = field(default_factory=SecurityConfig)
    threads: int = 1  # of PyTorch
    health_timeout_s: float = 10.0  # seconds without a response of the engine until the replica counts as unhealthy
    quiet: bool = False
    local: bool = False  # all replicas run on this machine


class Replica:
    """Models and their application. Ray creates it in the process where it runs."""

    def __init__(self, config: ReplicaConfig) -> None:
        import torch

        torch.set_num_threads(config.threads)
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        set_logs(quiet=config.quiet)
        if config.local:
            bind_replicas_to_loopback()
        self._config = config
        self._registry = ModelRegistry(config.sources, dtype=config.dtype, device=config.device, engine=config.engine)
        self._engine = Engine(config.limits)
        self._probe: Future[None] | None = None
        self._probe_start = 0.0

    def __serve_build_asgi_app__(self) -> SecurityMiddleware:
        """Returns the application. Ray calls it once, in this process, so nothing of it is pickled."""
        return make_app(self._registry, security=self._config.security, engine=self._engine)

    async def check_health(self) -> None:
        """Raises if the engine does not respond. Ray calls it every few seconds, and replaces the replica after three
        failures in a row.

        A thread that is alive may still hang, so the engine gets a probe, which waits for its turn like all work.
        """
        if not self._engine.is_alive:
            raise RuntimeError("the engine's thread has ended")
        if self._probe is None or self._probe.done():
            self._probe, self._probe_start = self._engine.probe(self._registry.all()[0]), time.monotonic()
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._probe)), PROBE_TIMEOUT_S)
        except TimeoutError:
            silent = time.monotonic() - self._probe_start
            if silent > self._config.health_timeout_s:
                raise RuntimeError(f"the engine has not responded for {silent:.0f} s") from None
