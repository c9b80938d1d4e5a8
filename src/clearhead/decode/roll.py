"""Roll: write one token after another, each the likeliest or drawn; what is finished leaves the batch at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clearhead.decode.pick import Picker, Sampling
from clearhead.decode.rules import Keeper, Past, Rules
from clearhead.decode.state import State, stay


@dataclass(frozen=True)
class Step:
    """The next token of some sequences."""

    sequences: np.ndarray  # (n,)
    tokens: np.ndarray  # (n,)
    scores: np.ndarray  # (n,) log-probabilities, as the model gives them
    done: np.ndarray  # (n,) bool: it was the last


def roll(
    state: State,
    first: Tensor,
    rules: Rules,
    samplings: Sequence[Sampling],
    max_new: Sequence[int],
    prompts: Sequence[Sequence[int]],
) -> Iterator[Step]:
    """Step by step; sequence i writes at most `max_new[i]` tokens."""
    numbers = np.arange(len(first))
    limits = np.array(max_new)
    picker = Picker(samplings, int(limits.max(initial=0)))
    ids, keeper = first, None
    written = np.zeros((len(first), 1, 32), dtype=np.int64)
    for step in range(int(limits.max(initial=0))):
        scores = state.step(ids)  # (R, V)
        if keeper is None:
            keeper = Keeper(rules, scores.shape[1], scores.device)
        last = limits[numbers] == step + 1
        sizes = [len(prompts[i]) for i in numbers.tolist()]
        if keeper.is_plain(step, sizes, last):
            tokens, chosen = picker.pick(scores, step, numbers, banned=keeper.banned(step))
        else:
            logits = scores.float()
            allowed = logits.clone()
            keeper.keep(allowed, step, sizes, last, Past(numbers, prompts, written[:, :, :step]))
            tokens, _ = picker.pick(allowed, step, numbers)
            chosen = logits.gather(1, tokens.unsqueeze(1)).squeeze(1) - logits.logsumexp(1)
        ids = tokens
        picked = tokens.cpu().numpy()
        done = np.isin(picked, rules.ends) | last
        yield Step(numbers, picked, chosen.cpu().numpy(), done)
        if step + 1 >= written.shape[2]:
            written = np.concatenate([written, np.zeros_like(written)], axis=2)
        written[:, 0, step] = picked
        places = stay(done)
        if not len(places):
            return
        if len(places) < len(numbers):
            numbers, written = numbers[places], written[places]
            ids = ids[torch.from_numpy(places).to(ids.device)]
            state.select(places, np.zeros((len(places), 1), dtype=np.int64))
