"""The engine: one thread that runs all models, batch by batch and decoding step by decoding step.

Batches are taken round robin from the queues, each up to a budget of tokens; a batch has no padding, so texts of any
length share it. Between two batches every sequence that is being generated gets its next token. Only this thread
touches a model, so a request never sees it half changed.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakSet

from clearhead.serve.batch_ops import BATCH_OPS
from clearhead.serve.continuous_batch import ContinuousBatch
from clearhead.serve.errors import ApiError, deadline_exceeded, overloaded, shutting_down, to_api_error
from clearhead.serve.fair_queue import FairQueue
from clearhead.serve.jobs import GENERATE, BatchKey, RequestJob, WorkItem
from clearhead.serve.model_registry import ServedModel
from clearhead.serve.prometheus import ServerMetrics

R = TypeVar("R")
INITIAL_TOKENS_PER_S = 2000.0  # assumed throughput before any is measured
MIN_JOIN_RATIO = 6  # running sequences per joining one; fewer wait this many steps, so that prompts are read together
DEADLINE_FRACTION = 0.8  # a request is refused if its expected time exceeds this part of its deadline
MIN_BATCH_S = 1e-4  # shortest time that throughput is computed from


@dataclass(frozen=True, kw_only=True)
class EngineLimits:
    """How much work the engine accepts and runs at once."""

    batch_tokens: int = 4096  # per batch
    batch_window_s: float = 0.002  # how long an idle engine waits for a batch to fill
    deadline_s: float = 60.0  # from request to response
    queue_tokens: int = 2**18  # waiting in all queues
    max_sequences: int = 64  # generated at once by a model
    cache_slots: int = 2**17  # key/value positions that these may need


class Engine:
    """Accepts jobs from any thread with `put`; results are delivered from the engine's own thread."""

    def __init__(self, limits: EngineLimits | None = None, metrics: ServerMetrics | None = None) -> None:
        self.limits = EngineLimits() if limits is None else limits
        self.metrics = ServerMetrics() if metrics is None else metrics
        self._queues: OrderedDict[BatchKey, FairQueue] = OrderedDict()
        self._batches: dict[ServedModel, ContinuousBatch] = {}
        self._changed = threading.Condition()
        self._queued_tokens = 0
        self._rates: dict[str, float] = {}  # recent tokens per second of each kind of work
        self._retired: WeakSet[ServedModel] = WeakSet()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="clearhead-engine", daemon=True)
        self._thread.start()

    def put(self, key: BatchKey, job: RequestJob, values: Sequence[Any], tokens: Sequence[int]) -> None:
        """Queues all items of a job or none; raises an ApiError if the queue is full or the engine is closed."""
        total = sum(tokens)
        with self._changed:
            self.check(key.work, total, job.deadline_s)
            queue = self._queues.setdefault(key, FairQueue())
            for index, (value, size) in enumerate(zip(values, tokens, strict=True)):
                queue.put(WorkItem(job, index, value, size))
            self._count_queued(total)
            self._changed.notify()

    def check(self, work: str, tokens: int, deadline_s: float | None = None) -> None:
        """Raises an ApiError if this much work is refused now. Called before tokenizing, with a lower bound."""
        with self._changed:
            if self._closed:
                raise shutting_down()
            seconds = tokens / self._rate(work)
            error = self.refuse(tokens, seconds, deadline_s)
        if error is not None:
            raise error

    def refuse(self, tokens: int = 1, seconds: float = 0.0, deadline_s: float | None = None) -> ApiError | None:
        """Returns the error to refuse this many tokens with, which take this long; None if they are accepted."""
        limit = self.limits.deadline_s if deadline_s is None else deadline_s
        with self._changed:
            ahead = self._seconds_ahead()
            too_many = self._queued_tokens + tokens > self.limits.queue_tokens
            too_slow = ahead + seconds > DEADLINE_FRACTION * limit
        if ahead == 0 or not (too_many or too_slow) or limit == math.inf:
            return None
        self.metrics.refused.labels("full").inc()
        return overloaded(
            f"the queue is full: {self._queued_tokens:,} tokens are waiting, about {ahead:.0f} s of work; retry later",
            ahead,
        )

    def _seconds_ahead(self) -> float:
        queued = sum(queue.tokens / self._rate(key.work) for key, queue in self._queues.items())
        generating = sum(batch.tokens for batch in list(self._batches.values()))
        return queued + generating / self._rate(GENERATE)

    def _rate(self, work: str) -> float:
        return self._rates.get(work, INITIAL_TOKENS_PER_S)

    def call(self, model: ServedModel, function: Callable[[], R], client: str = "") -> Future[R]:
        """Runs a function that needs the model for itself, in the engine's thread."""
        done: Future[R] = Future()

        def deliver(_: int, result: Any) -> None:
            if isinstance(result, ApiError):
                done.set_exception(result)
            else:
                done.set_result(result)

        job = RequestJob(client, self.limits.deadline_s, deliver)
        self.put(BatchKey(model, "call", (done,)), job, [function], [1])
        return done

    def probe(self, model: ServedModel) -> Future[None]:
        """Queues an empty call for a health check. It is never refused and has no deadline."""
        done: Future[None] = Future()
        job = RequestJob("", math.inf, lambda _index, _result: done.set_result(None))
        self.put(BatchKey(model, "probe", (done,)), job, [lambda: None], [1])
        return done

    def retire(self, model: ServedModel) -> None:
        """Frees a replaced model once its last queued or running request is answered. Never refused."""
        with self._changed:
            self._retired.add(model)
            self._changed.notify()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """Refuses new work, finishes what is queued or running, and stops the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while self._wait_for_work():
            self._run_next_batch()
            self._decode_all()
            self._free_retired()

    def _decode_all(self) -> None:
        for model in self._generating_models():  # not in _run, where the variable would keep the last model alive
            self._decode_step(model)

    def _generating_models(self) -> list[ServedModel]:
        with self._changed:
            queued = [key.model for key in self._queues if key.work == GENERATE]
        return list(dict.fromkeys([*queued, *(model for model, batch in self._batches.items() if len(batch))]))

    def _free_retired(self) -> None:
        with self._changed:
            retired = [model for model in self._batches if model in self._retired]
        for model in set(retired) - set(self._generating_models()):
            del self._batches[model]

    def _wait_for_work(self) -> bool:
        """Blocks until there is something to do; returns False when the engine is closed and all work is done."""
        with self._changed:
            generating = any(len(batch) for batch in self._batches.values())
            while not self._queues and not generating:
                if any(model in self._retired for model in self._batches):
                    return True
                if self._closed:
                    return False
                self._changed.wait()
            if self._queues and not generating and not self._closed:  # idle: wait a moment for the batch to fill
                until = min(queue.oldest for queue in self._queues.values()) + self.limits.batch_window_s
                while self._queued_tokens < self.limits.batch_tokens and (left := until - time.monotonic()) > 0:
                    self._changed.wait(left)
        return True

    def _run_next_batch(self) -> None:
        with self._changed:
            key = next((key for key in self._queues if key.work != GENERATE), None)
            if key is None:
                return
            # a large batch would delay the next token of every running stream
            generating = any(len(batch) for batch in self._batches.values())
            items = self._take(key, self.limits.batch_tokens // (4 if generating else 1))
        if items:
            start = time.perf_counter()
            self._compute(key, items)
            self._record_batch(key.work, items, time.perf_counter() - start)

    def _take(self, key: BatchKey, budget: int, limit: int | None = None) -> list[WorkItem]:
        """Takes the next items of a queue without late ones; the queue moves behind the others."""
        queue = self._queues[key]
        before = queue.tokens
        taken = queue.take(budget, limit)
        self._count_queued(queue.tokens - before)
        if queue:
            self._queues.move_to_end(key)
        else:
            del self._queues[key]
        now = time.monotonic()
        for item in taken:
            self.metrics.waited.labels(key.work).observe(now - item.created)
            if item.job.is_late:
                item.deliver(deadline_exceeded(item.job.deadline_s))
        return [item for item in taken if not item.job.is_late]

    def _compute(self, key: BatchKey, items: list[WorkItem]) -> None:
        """Runs a batch; if it fails, runs each item alone, so that only the faulty one gets the error."""
        try:
            results = list(BATCH_OPS[key.work](key.model, [item.value for item in items], *key.options))
        except Exception as error:
            if len(items) > 1:
                for item in items:
                    self._compute(key, [item])
                return
            results = [to_api_error(error, key.work)]
        for item, result in zip(items, results, strict=True):
            item.deliver(result)

    def _decode_step(self, model: ServedModel) -> None:
        """Lets waiting requests join where there is room, then decodes one token of each sequence."""
        batch = self._batches.get(model) or self._batches.setdefault(model, ContinuousBatch(model))
        start = time.perf_counter()
        try:
            self._admit(batch)
            count = batch.step()
        except Exception as error:  # these sequences are lost; later ones start afresh
            api_error = to_api_error(error, GENERATE)
            for item in self._batches.pop(model).items():
                item.deliver(api_error)
            return
        if count:  # steps in which every client had disconnected say nothing about speed
            self._record_rate(GENERATE, count, time.perf_counter() - start)
        self.metrics.generated.labels(model.name).inc(count)
        self.metrics.sequences.labels(model.name).set(len(batch))

    def _admit(self, batch: ContinuousBatch) -> None:
        key = BatchKey(batch.model, GENERATE)
        with self._changed:
            if key not in self._queues or len(batch) >= self.limits.max_sequences:
                return
            if len(self._queues[key]) < len(batch) // MIN_JOIN_RATIO and batch.steps_since_join < MIN_JOIN_RATIO:
                return
            room = self.limits.cache_slots - batch.tokens
            if room <= 0:
                return
            items = self._take(key, min(room, self.limits.batch_tokens), self.limits.max_sequences - len(batch))
        if items:
            batch.join(items)

    def _count_queued(self, tokens: int) -> None:
        self._queued_tokens += tokens
        self.metrics.queued.set(self._queued_tokens)

    def _record_batch(self, work: str, items: Sequence[WorkItem], seconds: float) -> None:
        tokens = sum(item.tokens for item in items)
        self.metrics.batch_tokens.labels(work).observe(tokens)
        self.metrics.batch_items.labels(work).observe(len(items))
        self._record_rate(work, tokens, seconds)

    def _record_rate(self, work: str, tokens: int, seconds: float) -> None:
        self.metrics.busy.labels(work).inc(seconds)
        old, new = self._rate(work), tokens / max(seconds, MIN_BATCH_S)
        self._rates[work] = old + 0.1 * (new - old)
