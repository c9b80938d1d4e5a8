"""Prometheus metrics: counts, sizes and times; never a user's text."""

from typing import Any

SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
TOKEN_BUCKETS = (16, 64, 256, 1024, 2048, 4096, 8192, 16384)
ITEM_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServerMetrics:
    """The metrics of one server, in their own registry."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._registry = CollectorRegistry()
        to: dict[str, Any] = {"registry": self._registry}
        self.requests = Counter("clearhead_requests", "Responses, by route and HTTP status.", ["route", "status"], **to)
        self.seconds = Histogram(
            "clearhead_request_seconds", "Latency of requests, in seconds.", ["route"], buckets=SECONDS_BUCKETS, **to
        )
        self.running = Gauge("clearhead_requests_running", "Requests in progress.", **to)
        self.refused = Counter("clearhead_requests_refused", "Refused requests, by reason.", ["reason"], **to)
        self.queued = Gauge("clearhead_queue_tokens", "Tokens in the queue.", **to)
        self.waited = Histogram(
            "clearhead_queue_seconds", "Time in the queue, in seconds.", ["work"], buckets=SECONDS_BUCKETS, **to
        )
        self.batch_tokens = Histogram(
            "clearhead_batch_tokens", "Tokens per batch.", ["work"], buckets=TOKEN_BUCKETS, **to
        )
        self.batch_items = Histogram("clearhead_batch_size", "Texts per batch.", ["work"], buckets=ITEM_BUCKETS, **to)
        self.busy = Counter("clearhead_compute_seconds", "Compute time, in seconds.", ["work"], **to)
        self.sequences = Gauge("clearhead_running_sequences", "Sequences being generated.", ["model"], **to)
        self.generated = Counter("clearhead_generated_tokens", "Generated tokens.", ["model"], **to)

    def text(self) -> tuple[bytes, str]:
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        return generate_latest(self._registry), CONTENT_TYPE_LATEST
