"""Roll: write one token after another, each the likeliest or drawn.

What is finished leaves the batch at once, and others may join between two steps: each sequence has its own step, its
own rules of the beginning and its own chance, so that what it becomes does not depend on who is beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clearhead.decode.pick import Picker, Sampling
from clearhead.decode.rules import Keeper, Rules
from clearhead.decode.state import State, stay


@dataclass(frozen=True)
class Step:
    """The next token of some sequences."""

    sequences: np.ndarray  # (n,)
    tokens: np.ndarray  # (n,)
    scores: np.ndarray  # (n,) log-probabilities, as the model gives them
    done: np.ndarray  # (n,) bool: it was the last


class Roll:
    """Sequences that are being written."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._state: State | None = None
        self._keeper: Keeper | None = None
        self._picker = Picker()
        self._names = np.zeros(0, dtype=np.int64)
        self._steps = np.zeros(0, dtype=np.int64)  # tokens that each has written
        self._limits = np.zeros(0, dtype=np.int64)
        self._read: list[list[int]] = []  # prompts, and what was written after them
        self._prompts: list[int] = []  # the size of each prompt
        self._next = torch.zeros(0, dtype=torch.int64)  # (n,) what each reads next

    def __len__(self) -> int:
        return len(self._names)

    @property
    def state(self) -> State | None:
        """The state that sequences join; it stays when all have left, with what was made of the weights."""
        return self._state

    def join(
        self,
        state: State,
        first: Tensor,
        prompts: Sequence[Sequence[int]],
        samplings: Sequence[Sampling],
        max_new: Sequence[int],
        names: Sequence[int],
    ) -> None:
        """Begin more sequences; each reads its token of `first` next, and writes at most its `max_new` tokens.

        `names` are what a step calls them. All states but the first are made by `another` of that one.
        """
        if self._state is None:
            self._state = state
        else:
            self._state.join(state)
        self._picker.join(samplings)
        self._names = np.append(self._names, np.array(names, dtype=np.int64))
        self._limits = np.append(self._limits, np.array(max_new, dtype=np.int64))
        self._steps = np.append(self._steps, np.zeros(len(names), dtype=np.int64))
        self._read += [list(prompt) for prompt in prompts]
        self._prompts += [len(prompt) for prompt in prompts]
        self._next = torch.cat([self._next.to(first.device), first])

    def step(self) -> Step:
        """One token of every sequence; those that are done leave."""
        assert self._state is not None and len(self), "nothing is being written"
        scores = self._state.step(self._next)  # (R, V)
        if self._keeper is None:
            self._keeper = Keeper(self._rules, scores.shape[1], scores.device)
        keeper, last = self._keeper, self._limits == self._steps + 1
        if keeper.is_plain(self._steps, self._prompts, last):
            tokens, chosen = self._picker.pick(scores, banned=keeper.banned(self._steps))
        else:
            logits = scores.float()
            allowed = logits.clone()
            keeper.keep(allowed, self._steps, self._prompts, last, lambda: [np.array(read) for read in self._read])
            tokens, _ = self._picker.pick(allowed)
            chosen = logits.gather(1, tokens.unsqueeze(1)).squeeze(1) - logits.logsumexp(1)
        picked = tokens.cpu().numpy()
        for read, token in zip(self._read, picked.tolist(), strict=True):
            read.append(token)
        done = np.isin(picked, self._rules.ends) | last
        made = Step(self._names, picked, chosen.cpu().numpy(), done)
        self._next, self._steps = tokens, self._steps + 1
        self._keep(stay(done))
        return made

    def drop(self, names: Sequence[int]) -> None:
        """Forget these sequences before they are done."""
        self._keep(stay(np.isin(self._names, list(names))))

    def _keep(self, places: np.ndarray) -> None:
        """Only the sequences at these places go on, in this order."""
        if len(places) == len(self._names):
            return
        assert self._state is not None
        self._state.select(places, np.zeros((len(places), 1), dtype=np.int64))
        self._picker.keep(places)
        self._names, self._steps, self._limits = self._names[places], self._steps[places], self._limits[places]
        self._read, self._prompts = ([held[i] for i in places.tolist()] for held in (self._read, self._prompts))
        self._next = self._next[torch.from_numpy(places).to(self._next.device)]


def roll(
    state: State,
    first: Tensor,
    rules: Rules,
    samplings: Sequence[Sampling],
    max_new: Sequence[int],
    prompts: Sequence[Sequence[int]],
) -> Iterator[Step]:
    """Step by step, sequences that begin together; number i writes at most `max_new[i]` tokens."""
    writing = Roll(rules)
    writing.join(state, first, prompts, samplings, max_new, range(len(first)))
    while len(writing):
        yield writing.step()
