"""Drawing: the codes of an image after a text, sampled with guidance."""

from collections.abc import Sequence

import torch
from torch import Tensor

from clearhead.attention.capture.look import no_capture
from clearhead.decode.generator import TextGenerator
from clearhead.decode.sampler import Sampler, SamplingParams
from clearhead.decode.state import initial_state

BATCH_IMAGES = 32


def draw_codes(
    generator: TextGenerator,
    texts: Sequence[Sequence[int]],
    sampling: Sequence[SamplingParams],
    *,
    empty: Sequence[int],
    codes: range,
    length: int,
    guidance: float,
) -> Tensor:
    """Return `length` codes for each text, (n, length), counted from 0; only the tokens `codes` are chosen.

    A step has the scores with the text and without it (`empty`), and goes from the second `guidance` times as far in
    the direction of the first (Ho and Salimans 2022): 1 is plain sampling.
    """
    if guidance < 0:
        raise ValueError(f"guidance is {guidance}: give 0 or more, 1 is plain sampling")
    drawn: list[Tensor] = []
    with torch.inference_mode(), no_capture():
        for lo in range(0, len(texts), BATCH_IMAGES):
            part = texts[lo : lo + BATCH_IMAGES]
            drawn.append(_batch(generator, part, sampling[lo : lo + BATCH_IMAGES], empty, codes, length, guidance))
    return torch.cat(drawn) if drawn else torch.zeros(0, length, dtype=torch.int64)


def _batch(
    generator: TextGenerator, texts: Sequence[Sequence[int]], sampling: Sequence[SamplingParams],
    empty: Sequence[int], codes: range, length: int, guidance: float,
) -> Tensor:  # fmt: skip
    guided = guidance != 1
    ids, layout, tokens, _ = generator.inputs([*texts, *([empty] * len(texts) if guided else [])])
    state, sampler = initial_state(generator.model, ids, layout), Sampler(sampling)
    drawn: list[Tensor] = []
    for _ in range(length):
        scores = torch.log_softmax(state.step(tokens)[:, codes.start : codes.stop].float(), 1)
        if guided:
            given, free = scores.chunk(2)
            scores = free + guidance * (given - free)
        chosen, _ = sampler.sample(scores)
        drawn.append(chosen)
        tokens = torch.cat([chosen, chosen] if guided else [chosen]) + codes.start
    return torch.stack(drawn, 1).cpu()
