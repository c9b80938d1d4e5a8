"""Continuous batching: generate one token of every sequence per step, greedily or by sampling.

Finished sequences leave the batch at once, and others may join between two steps. Each sequence has its own step count,
constraints and random stream, so that its tokens do not depend on the rest of the batch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clearhead.decode.logits_processor import LogitsProcessor
from clearhead.decode.sampler import Sampler, SamplingParams
from clearhead.decode.state import DecoderState, compact
from clearhead.hub.generation_config import GenerationConstraints


@dataclass(frozen=True)
class DecodeStep:
    """The next token of each sequence."""

    sequences: np.ndarray  # (n,)
    tokens: np.ndarray  # (n,)
    scores: np.ndarray  # (n,) log-probabilities, as the model gives them
    done: np.ndarray  # (n,) bool: this token is the last


class ContinuousDecoder:
    """Generates sequences that join and leave between steps."""

    def __init__(self, constraints: GenerationConstraints) -> None:
        self._constraints = constraints
        self._ends = np.array(constraints.eos_token_ids, dtype=np.int64)
        self._state: DecoderState | None = None
        self._processor: LogitsProcessor | None = None
        self._sampler = Sampler()
        self._names = np.zeros(0, dtype=np.int64)
        self._steps = np.zeros(0, dtype=np.int64)  # tokens generated so far
        self._limits = np.zeros(0, dtype=np.int64)
        self._read: list[list[int]] = []  # prompts and generated tokens
        self._prompts: list[int] = []  # the size of each prompt
        self._next = torch.zeros(0, dtype=torch.int64)  # (n,) the next token to read

    def __len__(self) -> int:
        return len(self._names)

    @property
    def state(self) -> DecoderState | None:
        """The state that sequences join; it is kept when all have left, with its packed weights."""
        return self._state

    def join(
        self,
        state: DecoderState,
        first: Tensor,
        prompts: Sequence[Sequence[int]],
        sampling: Sequence[SamplingParams],
        max_new_tokens: Sequence[int],
        names: Sequence[int],
    ) -> None:
        """Add sequences; each reads its token of `first` next, and generates at most its `max_new_tokens`.

        `names` identify them in a step's result. All states but the first come from `prefill` of the first.
        """
        if self._state is None:
            self._state = state
        else:
            self._state.join(state)
        self._sampler.join(sampling)
        self._names = np.append(self._names, np.array(names, dtype=np.int64))
        self._limits = np.append(self._limits, np.array(max_new_tokens, dtype=np.int64))
        self._steps = np.append(self._steps, np.zeros(len(names), dtype=np.int64))
        self._read += [list(prompt) for prompt in prompts]
        self._prompts += [len(prompt) for prompt in prompts]
        self._next = torch.cat([self._next.to(first.device), first])

    def step(self) -> DecodeStep:
        """Generate one token of every sequence; finished sequences leave."""
        assert self._state is not None and len(self), "no sequence has joined"
        scores = self._state.step(self._next)  # (R, V)
        if self._processor is None:
            self._processor = LogitsProcessor(self._constraints, scores.shape[1], scores.device)
        processor, last = self._processor, self._limits == self._steps + 1
        if processor.is_plain(self._steps, self._prompts, last):
            tokens, chosen = self._sampler.sample(scores, banned=processor.banned(self._steps))
        else:
            logits = scores.float()
            allowed = logits.clone()
            processor.apply(allowed, self._steps, self._prompts, last, lambda: [np.array(read) for read in self._read])
            tokens, _ = self._sampler.sample(allowed)
            chosen = logits.gather(1, tokens.unsqueeze(1)).squeeze(1) - logits.logsumexp(1)
        picked = tokens.cpu().numpy()
        for read, token in zip(self._read, picked.tolist(), strict=True):
            read.append(token)
        done = (picked[:, None] == self._ends).any(1) | last
        result = DecodeStep(self._names, picked, chosen.cpu().numpy(), done)
        self._next, self._steps = tokens, self._steps + 1
        self._keep(compact(done))
        return result

    def drop(self, names: Sequence[int]) -> None:
        self._keep(compact(np.isin(self._names, list(names))))

    def _keep(self, places: np.ndarray) -> None:
        if len(places) == len(self._names):
            return
        assert self._state is not None
        self._state.select(places, np.zeros((len(places), 1), dtype=np.int64))
        self._sampler.keep(places)
        self._names, self._steps, self._limits = self._names[places], self._steps[places], self._limits[places]
        self._read, self._prompts = ([rows[i] for i in places.tolist()] for rows in (self._read, self._prompts))
        self._next = self._next[torch.from_numpy(places).to(self._next.device)]


def decode_steps(
    state: DecoderState,
    first: Tensor,
    constraints: GenerationConstraints,
    sampling: Sequence[SamplingParams],
    max_new_tokens: Sequence[int],
    prompts: Sequence[Sequence[int]],
) -> Iterator[DecodeStep]:
    """Yield the steps of sequences that start together; sequence i has at most `max_new_tokens[i]` tokens."""
    decoder = ContinuousDecoder(constraints)
    decoder.join(state, first, prompts, sampling, max_new_tokens, range(len(first)))
    while len(decoder):
        yield decoder.step()
