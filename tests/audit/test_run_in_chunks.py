from __future__ import annotations

from clearhead.audit.run_in_chunks import run_in_chunks


def test_every_item_is_answered_once_and_progress_ends_at_the_total():
    sizes: list[int] = []
    reports: list[tuple[int, int]] = []

    def run(some):
        sizes.append(len(some))
        return [item * 10 for item in some]

    found = run_in_chunks(run, range(7), 3, lambda done, total: reports.append((done, total)))
    assert found == [0, 10, 20, 30, 40, 50, 60]
    assert sizes == [3, 3, 1] and reports == [(3, 7), (6, 7), (7, 7)]
    assert run_in_chunks(run, [], 3) == []
