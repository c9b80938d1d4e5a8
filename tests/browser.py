"""Waiting for a page of a browser whose policy forbids `eval`, which Playwright's `wait_for_function` needs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

TIMEOUT_S = 30.0


def wait_until(page: Page, expression: str) -> None:
    """Wait until a JavaScript expression is true on the page."""
    deadline = time.monotonic() + TIMEOUT_S
    while not page.evaluate(expression):
        if time.monotonic() > deadline:
            raise AssertionError(f"not true within {TIMEOUT_S:.0f} s: {expression}")
        page.wait_for_timeout(20)
