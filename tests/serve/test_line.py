"""The line is fair: nobody stands behind all of somebody else's."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from clearhead.serve.jobs import Job, Part
from clearhead.serve.line import Line


def job(client: str) -> Job:
    return Job(client, 60, lambda place, what: None)


def fill(line: Line, client: str, count: int, size: int = 10) -> Job:
    one = job(client)
    for place in range(count):
        line.put(Part(one, place, None, size))
    return one


def test_a_single_text_does_not_wait_for_a_thousand():
    line = Line()
    fill(line, "greedy", 1000)
    one = fill(line, "modest", 1)
    assert one in {part.job for part in line.take(20)}


def test_requests_of_one_client_take_turns_and_clients_do():
    line = Line()
    jobs = [fill(line, "a", 50), fill(line, "a", 50), fill(line, "b", 50)]
    counts = Counter(part.job for part in line.take(400))
    assert counts[jobs[2]] == 20 and counts[jobs[0]] == counts[jobs[1]] == 10


def test_who_has_left_is_passed_over_and_not_counted():
    line = Line()
    gone, here = fill(line, "a", 5), fill(line, "b", 5)
    gone.cancelled = True
    assert {part.job for part in line.take(1000)} == {here}
    assert (len(line), line.size) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 300)), min_size=1, max_size=40), st.integers(1, 500))
def test_all_come_once_in_order_and_within_the_budget(given_parts, budget):
    line, due = Line(), Counter()
    for client, size in given_parts:
        fill(line, client, 2, size)
        due[client] += 2
    seen: Counter[str] = Counter()
    places: dict[Job, list[int]] = {}
    while line:
        taken = line.take(budget, random.choice([None, 3]))
        assert taken and (len(taken) == 1 or sum(part.size for part in taken) <= budget)
        for part in taken:
            seen[part.job.client] += 1
            places.setdefault(part.job, []).append(part.place)
    assert seen == due and line.size == 0
    assert all(order == [0, 1] for order in places.values())
