"""Model calls in chunks, so that the progress of a suite is reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")

OnProgress = Callable[[int, int], object]
"""Progress callback: `on_progress(done, total)`."""


def no_progress(done: int, total: int) -> None:
    """Ignore progress."""


def run_in_chunks(
    run: Callable[[Sequence[Item]], Sequence[Answer]],
    items: Sequence[Item],
    size: int,
    on_progress: OnProgress = no_progress,
) -> list[Answer]:
    """Return the answers to all items, from calls of at most `size` of them."""
    answers: list[Answer] = []
    for first in range(0, len(items), size):
        answers += run(items[first : first + size])
        on_progress(len(answers), len(items))
    return answers
