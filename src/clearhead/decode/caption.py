"""Captions: the texts that a decoder writes about images."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.attention.capture.look import no_capture
from clearhead.decode.beam import BeamConfig
from clearhead.decode.generator import TextGenerator
from clearhead.decode.results import Hypothesis
from clearhead.decode.translate import hypothesis

BATCH_IMAGES = 32
FALLBACK = 64  # maximum new tokens by default


@dataclass(frozen=True)
class Caption:
    """The text about an image, and the others of `nbest`."""

    nbest: tuple[Hypothesis, ...]  # the best first

    @property
    def text(self) -> str:
        """The best text."""
        return self.nbest[0].text.strip()

    @property
    def score(self) -> float:
        """The score of the best text."""
        return self.nbest[0].score


def caption(
    generator: TextGenerator, pixels: Sequence[Tensor], beam: BeamConfig, *, max_new_tokens: int | None = None
) -> list[Caption]:
    """Return a text about each image; images are (3, H, W) as the model reads them.

    The search is not captured by `look`; after it, one pass over images and captions is.
    """
    if not generator.reads_images:
        raise ValueError("this model reads no images: load one that writes captions")
    budget = generator.token_budget(1, max_new_tokens, FALLBACK)
    found: list[Caption] = []
    with torch.inference_mode():
        for lo in range(0, len(pixels), BATCH_IMAGES):
            part = pixels[lo : lo + BATCH_IMAGES]
            with no_capture():
                results = generator.search(part, beam, budget)
            found += [Caption(tuple(hypothesis(generator, one) for one in nbest)) for nbest in results]
            if generator.is_captured:
                generator.attend(part, [nbest[0].ids for nbest in results])
    return found
