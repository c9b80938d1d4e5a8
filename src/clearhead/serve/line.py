"""The line: parts that wait, taken fairly: of each client in turn, and of each of its requests in turn."""

from __future__ import annotations

from collections import OrderedDict, deque

from clearhead.serve.jobs import Job, Part


class Line:
    """A thousand texts of one request do not stand before the single text of another."""

    def __init__(self) -> None:
        self._clients: OrderedDict[str, OrderedDict[Job, deque[Part]]] = OrderedDict()
        self.size = 0  # tokens, about
        self.count = 0
        self.oldest = 0.0  # when the first that waits came, as far as is known

    def __len__(self) -> int:
        return self.count

    def put(self, part: Part) -> None:
        """Stand behind the others of the same request."""
        if not self.count:
            self.oldest = part.born
        self._clients.setdefault(part.job.client, OrderedDict()).setdefault(part.job, deque()).append(part)
        self.size += part.size
        self.count += 1

    def take(self, budget: int, most: int | None = None) -> list[Part]:
        """Those whose turn it is, as many as fit the budget of tokens, at least one; who has left is passed over."""
        taken: list[Part] = []
        total = 0
        while self._clients and (most is None or len(taken) < most):
            client, jobs = next(iter(self._clients.items()))
            job, parts = next(iter(jobs.items()))
            gone = job.cancelled
            if not gone and taken and total + parts[0].size > budget:
                break
            for part in [parts.popleft() for _ in range(len(parts) if gone else 1)]:
                self.size -= part.size
                self.count -= 1
                if not gone:
                    taken.append(part)
                    total += part.size
            if parts:
                jobs.move_to_end(job)
            else:
                del jobs[job]
            if jobs:
                self._clients.move_to_end(client)
            else:
                del self._clients[client]
        return taken
