"""The engine: one thread that computes for everybody, batch by batch and step by step.

What waits is taken from the groups in turn, and within a group from each client in turn, up to a budget of tokens; the
batch has no padding, so texts of any length go together. Between two batches every text that is being written gets its
next token. All that touches a model runs here, so nobody ever sees it half changed.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from clearhead.serve.faults import Fault, closing, fault_of, full, late
from clearhead.serve.growing import Growing
from clearhead.serve.jobs import WRITE, Group, Job, Part
from clearhead.serve.line import Line
from clearhead.serve.metrics import Metrics
from clearhead.serve.shelf import Shelved
from clearhead.serve.work import compute

R = TypeVar("R")
RATE = 2000.0  # tokens a second, before any was seen
TOGETHER = 6  # texts that are written for one that joins them; fewer wait for so many steps: prompts are read together
HOPE = 0.8  # of its time that a request may be foreseen to take: what comes too late is work for nothing


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much the engine takes on."""

    tokens: int = 4096  # of a batch
    window: float = 0.002  # seconds that the first of a batch waits for others, where nothing else is to be done
    deadline: float = 60.0  # seconds from a request to its answer
    waiting: int = 2**18  # tokens in the line
    rows: int = 64  # texts that a model writes at once
    held: int = 2**17  # places of keys and values that these may need


class Engine:
    """Takes jobs, tells their results. `put` may be called from any thread, `Job.tell` is called from the engine's."""

    def __init__(self, limits: Limits | None = None, metrics: Metrics | None = None) -> None:
        self.limits = Limits() if limits is None else limits
        self._metrics = Metrics() if metrics is None else metrics
        self._lines: OrderedDict[Group, Line] = OrderedDict()
        self._growing: dict[Shelved, Growing] = {}
        self._changed = threading.Condition()
        self._waiting = 0  # tokens
        self._rates: dict[str, float] = {}  # tokens a second of each kind of work, as seen lately
        self._retired: set[Shelved] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="clearhead-engine", daemon=True)
        self._thread.start()

    def put(self, group: Group, job: Job, values: Sequence[Any], sizes: Sequence[int]) -> None:
        """Stand in line with all parts of a job, or with none: a fault where there are too many already."""
        total = sum(sizes)
        with self._changed:
            if self._closed:
                raise closing()
            refused = self.refuse(total, total / self._rates.get(group.work, RATE), job.seconds)
            if refused is not None:
                raise refused
            line = self._lines.setdefault(group, Line())
            for place, (value, size) in enumerate(zip(values, sizes, strict=True)):
                line.put(Part(job, place, value, size))
            self._count(total)
            self._changed.notify()

    def refuse(self, tokens: int = 0, seconds: float = 0.0, most: float | None = None) -> Fault | None:
        """Why so many tokens, which take so long, cannot be taken on; None where they can."""
        most = self.limits.deadline if most is None else most
        with self._changed:
            ahead = self._ahead()
            much = self._waiting + tokens > self.limits.waiting or ahead + seconds > HOPE * most
        if ahead == 0 or not much or most == math.inf:
            return None
        self._metrics.refused.labels("full").inc()
        return full(f"{self._waiting:,} tokens wait already, about {ahead:.0f} s of work: ask again later", ahead)

    def _ahead(self) -> float:
        """Seconds of work that is taken on already, as far as can be told."""
        waiting = sum(line.size / self._rates.get(group.work, RATE) for group, line in self._lines.items())
        return waiting + sum(growing.size for growing in list(self._growing.values())) / self._rates.get(WRITE, RATE)

    def call(self, model: Shelved, function: Callable[[], R], client: str = "") -> Future[R]:
        """Run something that needs the model for itself."""
        done: Future[R] = Future()

        def tell(_: int, what: Any) -> None:
            if isinstance(what, Fault):
                done.set_exception(what)
            else:
                done.set_result(what)

        self.put(Group(model, "call", (done,)), Job(client, self.limits.deadline, tell), [function], [1])
        return done

    def canary(self, model: Shelved) -> Future[None]:
        """Done when the engine has had a turn for it: nothing to compute, let in however long the line is."""
        done: Future[None] = Future()

        def tell(_: int, what: Any) -> None:
            done.set_result(None)

        self.put(Group(model, "canary", (done,)), Job("", math.inf, tell), [lambda: None], [1])
        return done

    def retire(self, model: Shelved) -> None:
        """Forget a model when the last of its texts is written."""
        self.call(model, lambda: self._retired.add(model))

    @property
    def metrics(self) -> Metrics:
        """What it counts."""
        return self._metrics

    @property
    def is_alive(self) -> bool:
        """Does its thread run?"""
        return self._thread.is_alive()

    def close(self) -> None:
        """Finish what waits and what is being written, then stop; nothing new is taken."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while self._rest():
            self._batch()
            for model in self._writing():
                self._grow(model)
            for model in self._retired - set(self._writing()):
                self._growing.pop(model, None)
                self._retired.discard(model)

    def _writing(self) -> list[Shelved]:
        """The models that write, or should."""
        with self._changed:
            asked = [group.model for group in self._lines if group.work == WRITE]
        return list(dict.fromkeys([*asked, *(model for model, growing in self._growing.items() if len(growing))]))

    def _rest(self) -> bool:
        """Wait until there is something to do; False where there never will be."""
        with self._changed:
            writes = any(len(growing) for growing in self._growing.values())
            while not self._lines and not writes:
                if self._closed:
                    return False
                self._changed.wait()
            if self._lines and not writes and not self._closed:  # nobody is kept waiting: others may join the batch
                until = min(line.oldest for line in self._lines.values()) + self.limits.window
                while self._waiting < self.limits.tokens and (left := until - time.monotonic()) > 0:
                    self._changed.wait(left)
        return True

    def _batch(self) -> None:
        """One batch of the group whose turn it is."""
        with self._changed:
            group = next((g for g in self._lines if g.work != WRITE), None)
            if group is None:
                return
            # a large batch keeps those waiting who see their text grow
            writes = any(len(growing) for growing in self._growing.values())
            parts = self._take(group, self.limits.tokens // (4 if writes else 1))
        if parts:
            began = time.perf_counter()
            self._compute(group, parts)
            self._count_work(group.work, parts, time.perf_counter() - began)

    def _take(self, group: Group, budget: int, most: int | None = None) -> list[Part]:
        """The next parts of a group, without those that are too late; the group goes behind the others."""
        line = self._lines[group]
        before = line.size
        taken = line.take(budget, most)
        self._count(line.size - before)
        if line:
            self._lines.move_to_end(group)
        else:
            del self._lines[group]
        now = time.monotonic()
        for part in taken:
            self._metrics.waited.labels(group.work).observe(now - part.born)
            if part.job.late:
                part.tell(late(part.job.seconds))
        return [part for part in taken if not part.job.late]

    def _compute(self, group: Group, parts: list[Part]) -> None:
        """A batch; where it fails, each part by itself, so that one does not spoil the others."""
        try:
            results = list(compute(group.model, group.work, group.options, [part.value for part in parts]))
        except Exception as error:
            if len(parts) > 1:
                for part in parts:
                    self._compute(group, [part])
                return
            results = [fault_of(error, group.work)]
        for part, result in zip(parts, results, strict=True):
            part.tell(result)

    def _grow(self, model: Shelved) -> None:
        """Let those in that there is room for, and write the next token of each text."""
        growing = self._growing.get(model) or self._growing.setdefault(model, Growing(model))
        began = time.perf_counter()
        try:
            self._admit(growing)
            count = growing.step()
        except Exception as error:  # its texts are lost, but the next ones need not be
            fault = fault_of(error, WRITE)
            for part in self._growing.pop(model).parts():
                part.tell(fault)
            return
        if count:  # those who left before they got a word say nothing about how fast it writes
            self._count_rate(WRITE, count, time.perf_counter() - began)
        self._metrics.written.labels(model.name).inc(count)
        self._metrics.rows.labels(model.name).set(len(growing))

    def _admit(self, growing: Growing) -> None:
        group = Group(growing.model, WRITE)
        with self._changed:
            if group not in self._lines or len(growing) >= self.limits.rows:
                return
            if len(self._lines[group]) < len(growing) // TOGETHER and growing.since < TOGETHER:
                return
            room = self.limits.held - growing.size
            if room <= 0:
                return
            parts = self._take(group, min(room, self.limits.tokens), self.limits.rows - len(growing))
        if parts:
            growing.join(parts)

    def _count(self, tokens: int) -> None:
        self._waiting += tokens
        self._metrics.waiting.set(self._waiting)

    def _count_work(self, work: str, parts: Sequence[Part], seconds: float) -> None:
        size = sum(part.size for part in parts)
        self._metrics.batch_tokens.labels(work).observe(size)
        self._metrics.batch_parts.labels(work).observe(len(parts))
        self._count_rate(work, size, seconds)

    def _count_rate(self, work: str, tokens: int, seconds: float) -> None:
        self._metrics.busy.labels(work).inc(seconds)
        old, new = self._rates.get(work, RATE), tokens / max(seconds, 1e-4)
        self._rates[work] = old + 0.1 * (new - old)
