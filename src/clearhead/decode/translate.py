"""Translate: texts in, translations out, in batches of like length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from clearhead.attention.look import look, unseen
from clearhead.decode.batches import BUDGET, WINDOW, batches
from clearhead.decode.beam import Beam, Found
from clearhead.decode.results import Hypothesis, Translation
from clearhead.decode.writer import Writer
from clearhead.text import Cut

FALLBACK = 256  # new tokens at most, where nobody says and positions do not end sooner


def translate(
    writer: Writer,
    texts: Sequence[str],
    beam: Beam,
    *,
    max_new: int | None = None,
    align: bool = False,
    budget: int = BUDGET,
) -> Iterator[tuple[list[tuple[int, Translation]], list[Cut]]]:
    """Translations with the number of their text, batch by batch as they are done, and the texts that were cut.

    A text without words is translated to one without words. Where somebody looks at the model, the search is not seen;
    when it is over, sources and translations are attended once more, in one pass and in the order of `texts`.
    """
    if not writer.translates:
        raise ValueError("this model has no encoder, so it does not translate: use `generate`")
    max_new = writer.room(1, max_new, FALLBACK)
    seen: list[tuple[list[int], tuple[int, ...]] | None] = [None] * len(texts) if writer.is_watched else []
    for begin in range(0, len(texts), WINDOW):
        block = texts[begin : begin + WINDOW]
        tokens = writer.tokenizer(block, max_len=writer.source_limit, offsets=False)
        rows = [part.tolist() for part in tokens.layout.split(tokens.ids)]
        blank = [i for i, text in enumerate(block) if not text.strip()]
        worded = [i for i, text in enumerate(block) if text.strip()]
        if blank:
            yield [(begin + i, Translation((), (Hypothesis("", (), (), 0.0, True),))) for i in blank], []
        for batch in batches([len(rows[i]) for i in worded], beam.size, budget):
            numbers = [worded[i] for i in batch]
            sources = [rows[i] for i in numbers]
            with torch.inference_mode(), unseen():
                found = writer.search(sources, beam, max_new)
                maps = _alignments(writer, sources, found) if align else [None] * len(sources)
            done = [
                (begin + i, _translation(writer, source, hypotheses, alignment))
                for i, source, hypotheses, alignment in zip(numbers, sources, found, maps, strict=True)
            ]
            if writer.is_watched:
                for (i, translation), source in zip(done, sources, strict=True):
                    seen[i] = source, translation.ids
            yield done, [cut for cut in tokens.cut if cut.text in numbers]
    if whole := [pair for pair in seen if pair is not None]:
        with torch.inference_mode():
            writer.attend([source for source, _ in whole], [target for _, target in whole])


def _translation(writer: Writer, source: Sequence[int], found: list[Found], alignment: Tensor | None) -> Translation:
    names = tuple(writer.tokenizer.tokens(source))
    return Translation(names, tuple(_hypothesis(writer, f) for f in found), alignment)


def _hypothesis(writer: Writer, found: Found) -> Hypothesis:
    text = writer.tokenizer.decode(found.ids)
    return Hypothesis(text, found.ids, tuple(writer.tokenizer.tokens(found.ids)), found.score, found.ended)


def _alignments(writer: Writer, sources: list[list[int]], found: list[list[Found]]) -> list[Tensor]:
    """For each text, the cross-attention of the best hypothesis, the mean of all heads of all layers: (T, S)."""
    with look(writer.model, kinds=("cross",)) as seen:
        writer.attend(sources, [best[0].ids for best in found])
    views = [seen[name] for name in seen]
    return [torch.stack([view.heads(i).mean(0) for view in views]).mean(0) for i in range(len(sources))]
