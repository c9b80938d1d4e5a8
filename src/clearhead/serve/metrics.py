"""Metrics: what Prometheus reads. Counts, sizes and times; never a word of what was asked."""

from __future__ import annotations

from typing import Any

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
TOKENS = (16, 64, 256, 1024, 2048, 4096, 8192, 16384)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._registry = CollectorRegistry()
        kept: dict[str, Any] = {"registry": self._registry}
        self.requests = Counter("clearhead_requests", "Requests answered.", ["route", "status"], **kept)
        self.seconds = Histogram(
            "clearhead_request_seconds", "From request to answer.", ["route"], buckets=SECONDS, **kept
        )
        self.running = Gauge("clearhead_requests_running", "Requests that are being answered.", **kept)
        self.refused = Counter("clearhead_refused", "Requests refused, by reason.", ["reason"], **kept)
        self.waiting = Gauge("clearhead_waiting_tokens", "Tokens that wait to be computed, about.", **kept)
        self.waited = Histogram("clearhead_wait_seconds", "Parts in the line.", ["work"], buckets=SECONDS, **kept)
        self.batch_tokens = Histogram(
            "clearhead_batch_tokens", "Tokens of a batch, about.", ["work"], buckets=TOKENS, **kept
        )
        self.batch_parts = Histogram("clearhead_batch_parts", "Texts of a batch.", ["work"], buckets=ROWS, **kept)
        self.busy = Counter("clearhead_busy_seconds", "Time spent computing.", ["work"], **kept)
        self.rows = Gauge("clearhead_writing", "Texts that are being written.", ["model"], **kept)
        self.written = Counter("clearhead_written_tokens", "Tokens written.", ["model"], **kept)

    def text(self) -> tuple[bytes, str]:
        """All of it in Prometheus' format, and the name of the format."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        return generate_latest(self._registry), CONTENT_TYPE_LATEST
