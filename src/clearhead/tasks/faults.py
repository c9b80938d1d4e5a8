"""Faults: how a name that is not there is told, with the one that was perhaps meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown(name: str, known: Iterable[str]) -> str:
    """'there is no such name; did you mean …?'"""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"there is no such name; {f'did you mean {near[0]!r}?' if near else 'there are: ' + ', '.join(names)}"
