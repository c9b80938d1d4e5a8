"""Run: texts through a model with somebody looking, and the scene of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from clearhead.decode import Beam, Writer, translate
from clearhead.models.heads import Vocabulary
from clearhead.models.store import Opened
from clearhead.see.answers import Asked
from clearhead.see.scene import Scene
from clearhead.see.sight import look


def scene_of(
    opened: Opened,
    texts: Sequence[str],
    pairs: Sequence[str | None] | None = None,
    *,
    title: str = "",
    answers: bool = True,
) -> Scene:
    """What a model attends to in these texts.

    `pairs` are the second text of each: of a translator, the translation it is to be seen with (its own otherwise); of
    an encoder, the second sentence. With `answers` it is asked what it makes of them, and can be asked again without
    some heads.
    """
    if not texts or not all(text.strip() for text in texts):
        raise ValueError("a text without words has no attention to show: give at least one word")
    tokenizer, model = opened.words, opened.model
    second = list(pairs) if pairs is not None else [None] * len(texts)
    with torch.inference_mode(), look(model, tokenizer=tokenizer) as sight:
        if model.encoder is not None and model.decoder is not None and isinstance(model.head, Vocabulary):
            _through_translator(Writer.of(opened), texts, second)
        else:
            given = None if all(p is None for p in second) else [p or "" for p in second]
            tokens = tokenizer(list(texts), given, max_len=opened.max_len)
            model.states(tokens.ids, tokens.layout, segments=tokens.segments if opened.has_segments else None)
    sight.model = opened.architecture
    if not answers:
        return sight.scene(title=title)
    asked = Asked(opened, texts, second)
    return replace(sight.scene(title=title, answers=asked.answers()), without=asked.without)


def _through_translator(writer: Writer, texts: Sequence[str], targets: Sequence[str | None]) -> None:
    if all(target is None for target in targets):
        for _ in translate(writer, list(texts), Beam(size=5)):
            pass  # somebody looks: at the end, all translations are attended in one pass
        return
    if any(target is None for target in targets):
        raise ValueError("give a translation for every text, or for none")
    sources = writer.tokenizer(list(texts), max_len=writer.source_limit)
    written = writer.tokenizer([str(t) for t in targets])
    writer.attend(
        [part.tolist() for part in sources.layout.split(sources.ids)],
        [part.tolist() for part in written.layout.split(written.ids)],
    )
