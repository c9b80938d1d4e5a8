"""Growing texts: what a language model is writing for everybody at once; who comes joins between two steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from clearhead.attention.look import unseen
from clearhead.decode import Sampling, start
from clearhead.decode.pieces import Pieces
from clearhead.decode.roll import Roll
from clearhead.serve.faults import late
from clearhead.serve.jobs import Part
from clearhead.serve.shelf import Shelved


@dataclass(frozen=True, eq=False)
class Asked:
    """A text to go on with."""

    row: list[int]  # its tokens
    draw: Sampling
    max_new: int
    stop: tuple[str, ...] = ()  # what ends it, and is not handed out


@dataclass(frozen=True)
class Said:
    """The next of it; with the last piece, why it ended: "stop", or "length" at its limit."""

    text: str
    token: int
    score: float
    reason: str | None = None


class Ending:
    """Text as it comes, held back where it may be the beginning of what ends it."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop, self._held = tuple(stop), ""

    def add(self, text: str, last: bool) -> tuple[str, bool]:
        """What can be handed out, and whether the end was found."""
        if not self._stop:
            return text, False
        self._held += text
        found = [at for at in (self._held.find(stop) for stop in self._stop) if at >= 0]
        if found:
            return self._held[: min(found)], True
        size = 0 if last else max(_begun(self._held, stop) for stop in self._stop)
        out, self._held = self._held[: len(self._held) - size], self._held[len(self._held) - size :]
        return out, False


def _begun(text: str, stop: str) -> int:
    """How many characters at the end of a text may be the first of this one."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if stop.startswith(text[-n:])), 0)


class Growing:
    """The texts that one model is writing."""

    def __init__(self, model: Shelved) -> None:
        self.model = model
        self._writer = model.app.writer
        self._roll = Roll(self._writer.defaults.rules)
        self._parts: dict[int, tuple[Part, Pieces, Ending]] = {}
        self._count = 0
        self.since = 0  # steps since the last text joined
        self.size = 0  # tokens that its texts read, and those that they may come to write

    def __len__(self) -> int:
        return len(self._parts)

    @torch.inference_mode()
    def join(self, parts: Sequence[Part]) -> None:
        """Begin these, whose values are `Asked`."""
        asked: list[Asked] = [part.value for part in parts]
        names = range(self._count, self._count + len(parts))
        for name, part, one in zip(names, parts, asked, strict=True):
            self._parts[name] = part, Pieces(self._writer.tokenizer, one.row), Ending(one.stop)
            self.size += part.size
        self._count, self.since = self._count + len(parts), 0
        with unseen():
            ids, layout, first, prompts = self._writer.inputs([one.row for one in asked])
            held = self._roll.state
            state = start(self._writer.model, ids, layout) if held is None else held.another(ids, layout)
        draws, limits = [one.draw for one in asked], [one.max_new for one in asked]
        self._roll.join(state, first, prompts, draws, limits, names)

    @torch.inference_mode()
    def step(self) -> int:
        """One token of each, told to whom it belongs; how many that were."""
        if gone := [name for name, (part, _, _) in self._parts.items() if part.job.cancelled or part.job.late]:
            for part in self.drop(gone):
                part.tell(late(part.job.seconds))
        if not self._parts:
            return 0
        self.since += 1
        with unseen():
            step = self._roll.step()
        ended: list[int] = []
        ends = self._writer.defaults.rules.ends
        for name, token, score, done in zip(
            step.sequences.tolist(), step.tokens.tolist(), step.scores.tolist(), step.done.tolist(), strict=True
        ):
            part, pieces, ending = self._parts[name]
            text, stopped = ending.add(pieces.add(token, last=done), done)
            reason = None
            if done or stopped:
                reason = "stop" if stopped or token in ends else "length"
                self._forget(name)
                if not done:
                    ended.append(name)
            part.tell(Said(text, token, score, reason))
        if ended:
            self._roll.drop(ended)
        return len(step.tokens)

    def drop(self, names: Sequence[int]) -> list[Part]:
        """Write no more of these; whose they were."""
        with torch.inference_mode():
            self._roll.drop(names)
        return [self._forget(name) for name in names]

    def _forget(self, name: int) -> Part:
        part, _, _ = self._parts.pop(name)
        self.size -= part.size
        return part

    def parts(self) -> list[Part]:
        """Whose texts they are."""
        return [part for part, _, _ in self._parts.values()]
