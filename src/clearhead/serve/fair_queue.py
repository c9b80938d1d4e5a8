"""Fair queue: round robin over clients, and over the requests of each client."""

from collections import OrderedDict, deque

from clearhead.serve.jobs import RequestJob, WorkItem


class FairQueue:
    """Waiting work items. A request with a thousand texts does not delay a request with one."""

    def __init__(self) -> None:
        self._clients: OrderedDict[str, OrderedDict[RequestJob, deque[WorkItem]]] = OrderedDict()
        self.tokens = 0
        self.count = 0
        self.oldest = 0.0  # when the first item arrived after the queue was last empty

    def __len__(self) -> int:
        return self.count

    def put(self, item: WorkItem) -> None:
        if not self.count:
            self.oldest = item.created
        self._clients.setdefault(item.job.client, OrderedDict()).setdefault(item.job, deque()).append(item)
        self.tokens += item.tokens
        self.count += 1

    def take(self, budget: int, limit: int | None = None) -> list[WorkItem]:
        """Removes and returns the next items that fit a budget of tokens, at least one, at most `limit`.

        Items of cancelled requests are dropped.
        """
        taken: list[WorkItem] = []
        total = 0
        while self._clients and (limit is None or len(taken) < limit):
            client, jobs = next(iter(self._clients.items()))
            job, items = next(iter(jobs.items()))
            cancelled = job.cancelled
            if not cancelled and taken and total + items[0].tokens > budget:
                break
            for item in [items.popleft() for _ in range(len(items) if cancelled else 1)]:
                self.tokens -= item.tokens
                self.count -= 1
                if not cancelled:
                    taken.append(item)
                    total += item.tokens
            if items:
                jobs.move_to_end(job)
            else:
                del jobs[job]
            if jobs:
                self._clients.move_to_end(client)
            else:
                del self._clients[client]
        return taken
