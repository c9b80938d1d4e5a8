"""The queue is fair between clients and between requests."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from clearhead.serve.fair_queue import FairQueue
from clearhead.serve.jobs import RequestJob, WorkItem


def job(client: str) -> RequestJob:
    return RequestJob(client, 60, lambda place, what: None)


def fill(queue: FairQueue, client: str, count: int, size: int = 10) -> RequestJob:
    one = job(client)
    for place in range(count):
        queue.put(WorkItem(one, place, None, size))
    return one


def test_a_single_text_does_not_wait_for_a_thousand():
    queue = FairQueue()
    fill(queue, "greedy", 1000)
    one = fill(queue, "modest", 1)
    assert one in {item.job for item in queue.take(20)}


def test_requests_of_one_client_take_turns_and_clients_do():
    queue = FairQueue()
    jobs = [fill(queue, "a", 50), fill(queue, "a", 50), fill(queue, "b", 50)]
    counts = Counter(item.job for item in queue.take(400))
    assert counts[jobs[2]] == 20 and counts[jobs[0]] == counts[jobs[1]] == 10


def test_cancelled_requests_are_dropped_and_not_counted():
    queue = FairQueue()
    gone, here = fill(queue, "a", 5), fill(queue, "b", 5)
    gone.cancelled = True
    assert {item.job for item in queue.take(1000)} == {here}
    assert (len(queue), queue.tokens) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 300)), min_size=1, max_size=40), st.integers(1, 500))
def test_all_come_once_in_order_and_within_the_budget(given_items, budget):
    queue, expected = FairQueue(), Counter()
    for client, size in given_items:
        fill(queue, client, 2, size)
        expected[client] += 2
    seen: Counter[str] = Counter()
    places: dict[RequestJob, list[int]] = {}
    while queue:
        taken = queue.take(budget, random.choice([None, 3]))
        assert taken and (len(taken) == 1 or sum(item.tokens for item in taken) <= budget)
        for item in taken:
            seen[item.job.client] += 1
            places.setdefault(item.job, []).append(item.index)
    assert seen == expected and queue.tokens == 0
    assert all(order == [0, 1] for order in places.values())
