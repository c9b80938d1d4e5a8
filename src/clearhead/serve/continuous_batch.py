"""Continuous batching: one growing batch of sequences per model; new requests join between two decoding steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from clearhead.attention.capture.look import no_capture
from clearhead.decode import SamplingParams, initial_state
from clearhead.decode.continuous import ContinuousDecoder
from clearhead.decode.detokenizer import StreamDetokenizer
from clearhead.serve.errors import deadline_exceeded
from clearhead.serve.jobs import WorkItem
from clearhead.serve.model_registry import ServedModel


@dataclass(frozen=True, eq=False)
class GenerationRequest:
    """A tokenized prompt and how to continue it."""

    prompt_ids: list[int]
    sampling: SamplingParams
    max_new_tokens: int
    stop: tuple[str, ...] = ()  # stop strings; they are not part of the output


@dataclass(frozen=True)
class GenerationChunk:
    """The text of one new token; the last chunk has a finish reason: "stop" or "length"."""

    text: str
    token: int
    score: float
    finish_reason: str | None = None


class StopStringFilter:
    """Passes text on as it arrives, and holds back what may be the beginning of a stop string."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop, self._pending = tuple(stop), ""

    def add(self, text: str, last: bool) -> tuple[str, bool]:
        """Returns the text that is certain, and whether a stop string was found."""
        if not self._stop:
            return text, False
        self._pending += text
        found = [at for at in (self._pending.find(stop) for stop in self._stop) if at >= 0]
        if found:
            return self._pending[: min(found)], True
        keep = 0 if last else max(_partial_match(self._pending, stop) for stop in self._stop)
        split = len(self._pending) - keep
        output, self._pending = self._pending[:split], self._pending[split:]
        return output, False


def _partial_match(text: str, stop: str) -> int:
    """Returns how many characters at the end of the text are a proper prefix of the stop string."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if stop.startswith(text[-n:])), 0)


class ContinuousBatch:
    """The sequences that one model is generating."""

    def __init__(self, model: ServedModel) -> None:
        self.model = model
        self._generator = model.pipeline.generator
        self._decoder = ContinuousDecoder(self._generator.defaults.constraints)
        self._sequences: dict[int, tuple[WorkItem, StreamDetokenizer, StopStringFilter]] = {}
        self._next_id = 0
        self.steps_since_join = 0
        self.tokens = 0  # prompt tokens and maximum new tokens of all sequences

    def __len__(self) -> int:
        return len(self._sequences)

    @torch.inference_mode()
    def join(self, items: Sequence[WorkItem]) -> None:
        """Prefills these items, whose values are `GenerationRequest`, and adds them to the batch."""
        requests: list[GenerationRequest] = [item.value for item in items]
        ids = range(self._next_id, self._next_id + len(items))
        for sequence, item, request in zip(ids, items, requests, strict=True):
            text = StreamDetokenizer(self._generator.tokenizer, request.prompt_ids)
            self._sequences[sequence] = item, text, StopStringFilter(request.stop)
            self.tokens += item.tokens
        self._next_id, self.steps_since_join = self._next_id + len(items), 0
        with no_capture():
            tokens, layout, first, prompts = self._generator.inputs([request.prompt_ids for request in requests])
            cached = self._decoder.state
            if cached is None:
                state = initial_state(self._generator.model, tokens, layout)
            else:
                state = cached.prefill(tokens, layout)
        sampling = [request.sampling for request in requests]
        limits = [request.max_new_tokens for request in requests]
        self._decoder.join(state, first, prompts, sampling, limits, ids)

    @torch.inference_mode()
    def step(self) -> int:
        """Decodes one token of each sequence and delivers it; returns the number of tokens."""
        stale = [i for i, (item, _, _) in self._sequences.items() if item.job.cancelled or item.job.is_late]
        if stale:
            for item in self.drop(stale):
                item.deliver(deadline_exceeded(item.job.deadline_s))
        if not self._sequences:
            return 0
        self.steps_since_join += 1
        with no_capture():
            step = self._decoder.step()
        stopped_early: list[int] = []
        end_ids = self._generator.defaults.constraints.eos_token_ids
        for sequence, token, score, done in zip(
            step.sequences.tolist(), step.tokens.tolist(), step.scores.tolist(), step.done.tolist(), strict=True
        ):
            item, detokenizer, stop_filter = self._sequences[sequence]
            text, stopped = stop_filter.add(detokenizer.add(token, last=done), done)
            finish_reason = None
            if done or stopped:
                finish_reason = "stop" if stopped or token in end_ids else "length"
                self._remove(sequence)
                if not done:
                    stopped_early.append(sequence)
            item.deliver(GenerationChunk(text, token, score, finish_reason))
        if stopped_early:
            self._decoder.drop(stopped_early)
        return len(step.tokens)

    def drop(self, sequences: Sequence[int]) -> list[WorkItem]:
        with torch.inference_mode():
            self._decoder.drop(sequences)
        return [self._remove(sequence) for sequence in sequences]

    def _remove(self, sequence: int) -> WorkItem:
        item, _, _ = self._sequences.pop(sequence)
        self.tokens -= item.tokens
        return item

    def items(self) -> list[WorkItem]:
        return [item for item, _, _ in self._sequences.values()]
