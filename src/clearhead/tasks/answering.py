"""Answering: which task a model folder was trained for, where that is to label, to tag or to read."""

from __future__ import annotations

from clearhead.models.store import Opened
from clearhead.tasks.classify import Classify
from clearhead.tasks.pair import Pair
from clearhead.tasks.qa import Qa
from clearhead.tasks.tag import Tag

KINDS = {"sequence": "classify", "token": "tag", "span": "qa"}  # of a folder that does not say what it was trained for
ANSWERING: dict[str, type[Classify] | type[Pair] | type[Tag] | type[Qa]] = {
    "classify": Classify, "pair": Pair, "tag": Tag, "qa": Qa,
}  # fmt: skip


def answers(opened: Opened) -> str | None:
    """The name of the task that a folder answers; None where it does something else."""
    head = opened.config.head
    kind = opened.facts.get("task") or KINDS.get("" if head is None else head.kind)
    return kind if kind in ANSWERING else None


def task_of(opened: Opened) -> Classify | Pair | Tag | Qa:
    """The task that a folder answers."""
    kind = answers(opened)
    if kind is None:
        raise ValueError(
            f"{opened.architecture} does not label, tag or read: `clearhead new classify --data FILE` begins one"
        )
    return ANSWERING[kind].of(opened)
