"""Translation of texts in batches of similar length."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from clearhead.attention.capture.look import look, no_capture
from clearhead.decode.beam import BeamConfig, BeamHypothesis
from clearhead.decode.generator import BATCH_TOKENS, WINDOW, TextGenerator, batches
from clearhead.decode.results import Hypothesis, Translation
from clearhead.decode.translation_engine import Search
from clearhead.text import Truncation

FALLBACK = 256  # maximum new tokens by default


def translate(
    generator: TextGenerator,
    texts: Sequence[str],
    beam: BeamConfig,
    *,
    max_new_tokens: int | None = None,
    align: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    search: Search | None = None,
) -> Iterator[tuple[list[tuple[int, Translation]], list[Truncation]]]:
    """Yield batches of translations with the index of their text, as they finish, and the truncated texts.

    The translation of a blank text is empty. The search is not captured by `look`; after it, one pass over sources and
    translations is, in the order of `texts`. `search` is that of an engine; the default is the generator's.
    """
    search = generator.search if search is None else search
    if not generator.translates:
        raise ValueError("this model has no encoder and does not translate: use `generate`")
    max_new_tokens = generator.token_budget(1, max_new_tokens, FALLBACK)
    observed: list[tuple[list[int], tuple[int, ...]] | None] = [None] * len(texts) if generator.is_captured else []
    for begin in range(0, len(texts), WINDOW):
        block = texts[begin : begin + WINDOW]
        tokens = generator.tokenizer(block, max_len=generator.max_source_len, offsets=False)
        rows = [part.tolist() for part in tokens.layout.split(tokens.ids)]
        blank = [i for i, text in enumerate(block) if not text.strip()]
        filled = [i for i, text in enumerate(block) if text.strip()]
        if blank:
            yield [(begin + i, Translation((), (Hypothesis("", (), (), 0.0, True),))) for i in blank], []
        for batch in batches([len(rows[i]) for i in filled], beam.size, batch_tokens):
            numbers = [filled[i] for i in batch]
            sources = [rows[i] for i in numbers]
            with torch.inference_mode(), no_capture():
                results = search(sources, beam, max_new_tokens)
                maps = _alignments(generator, sources, results) if align else [None] * len(sources)
            done = [
                (begin + i, _translation(generator, source, hypotheses, alignment))
                for i, source, hypotheses, alignment in zip(numbers, sources, results, maps, strict=True)
            ]
            if generator.is_captured:
                for (i, translation), source in zip(done, sources, strict=True):
                    observed[i] = source, translation.ids
            yield done, [cut for cut in tokens.truncations if cut.text in numbers]
    if pairs := [pair for pair in observed if pair is not None]:
        with torch.inference_mode():
            generator.attend([source for source, _ in pairs], [target for _, target in pairs])


def translate_in_order(
    generator: TextGenerator,
    texts: Sequence[str],
    beam: BeamConfig,
    *,
    max_new_tokens: int | None = None,
    align: bool = False,
    search: Search | None = None,
) -> Iterator[Translation]:
    """Translate all texts, and iterate over the translations in the order of the texts."""
    results: dict[int, Translation] = {}
    for done, _ in translate(generator, texts, beam, max_new_tokens=max_new_tokens, align=align, search=search):
        results.update(done)
    return (results[i] for i in range(len(texts)))


def _translation(
    generator: TextGenerator, source: Sequence[int], nbest: list[BeamHypothesis], alignment: Tensor | None
) -> Translation:
    names = tuple(generator.tokenizer.tokens(source))
    return Translation(names, tuple(hypothesis(generator, one) for one in nbest), alignment)


def hypothesis(generator: TextGenerator, best: BeamHypothesis) -> Hypothesis:
    """Return the text of the tokens that a search found."""
    text = generator.tokenizer.decode(best.ids)
    return Hypothesis(text, best.ids, tuple(generator.tokenizer.tokens(best.ids)), best.score, best.ended)


def _alignments(generator: TextGenerator, sources: list[list[int]], nbest: list[list[BeamHypothesis]]) -> list[Tensor]:
    """Return the mean cross-attention of all heads and layers for the best hypothesis of each text, (T, S)."""
    with look(generator.model, kinds=("cross",)) as captured:
        generator.attend(sources, [hypotheses[0].ids for hypotheses in nbest])
    maps = [captured[name] for name in captured]
    return [torch.stack([attention.heads(i).mean(0) for attention in maps]).mean(0) for i in range(len(sources))]
