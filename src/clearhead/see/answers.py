"""Answers: what a model says to an input, whole and with heads switched off, so that one sees whether they matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.attention import Layout, without
from clearhead.decode import Beam, Writer, translate
from clearhead.layers import POOLINGS
from clearhead.models.heads import Vocabulary
from clearhead.models.sentence import read_sentence
from clearhead.models.store import Opened
from clearhead.see.scene import Answer


class Asked:
    """A model and the texts it was asked about; of a translator, `pairs` are translations it is held to.

    An answer comes with what a later one is held against: the translation, word, label or vector of the whole model.
    """

    def __init__(self, opened: Opened, texts: Sequence[str], pairs: Sequence[str | None] | None = None) -> None:
        self._opened, self._texts = opened, list(texts)
        self._pairs = [None] * len(self._texts) if pairs is None else list(pairs)
        self._how = self._kind()
        with torch.inference_mode():
            self._whole = [self._how(i, None) for i in range(len(self._texts))]

    def answers(self) -> list[Answer]:
        """What the whole model says to each text."""
        return [answer for answer, _ in self._whole]

    def without(self, number: int, heads: Mapping[str, Sequence[int]]) -> Answer:
        """What it says to one text without these heads."""
        if not 0 <= number < len(self._texts):
            raise LookupError(f"there is no text {number}")
        with torch.inference_mode(), without(self._opened.model, heads):
            return self._how(number, self._whole[number][1])[0]

    def _kind(self) -> Any:
        """How this model is asked: by what its head answers."""
        model, head = self._opened.model, self._opened.config.head
        if isinstance(model.head, Vocabulary) and model.decoder is not None:
            return self._goes_on if model.encoder is None else self._translates
        if isinstance(model.head, Vocabulary):
            return self._fills_in
        return self._classifies if head is not None and head.kind == "sequence" and head.labels else self._embeds

    def _translates(self, number: int, wanted: str | None) -> tuple[Answer, str]:
        """Its translation, and the log-probability of the one it is held to."""
        writer, text = Writer.of(self._opened), self._texts[number]
        said = self._pairs[number] if wanted is None else None
        if said is None:
            said = "".join(done[0][1].text for done, _ in translate(writer, [text], Beam(size=1)) if done)
        held = said if wanted is None else wanted
        source, target = writer.tokenizer(text, max_len=writer.source_limit), writer.tokenizer(held)
        read = torch.cat([target.ids.new_tensor([writer.start]), target.ids[:-1]])
        logits = self._opened.model(source.ids, source.layout, read, Layout.of([len(read)]))
        return Answer(said, _log_p(logits, target.ids), "log p of the translation"), held

    def _goes_on(self, number: int, wanted: None) -> tuple[Answer, None]:
        """The next word, and the log-probability of the text."""
        tokens = self._opened.words(self._texts[number], max_len=self._opened.max_len)
        logits = self._opened.model(tokens.ids, tokens.layout)
        word = self._opened.words.decode([int(logits[-1].argmax())])
        return Answer(f"goes on with {word!r}", _log_p(logits[:-1], tokens.ids[1:]), "log p of the text"), None

    def _fills_in(self, number: int, wanted: int | None) -> tuple[Answer, Any]:
        """The word at the mask; without one, as an encoder."""
        ids, layout, segments = self._read(number)
        mask = self._opened.words.mask_id
        if mask is None or mask not in ids.tolist():
            return self._embeds(number, wanted)  # type: ignore[arg-type]
        chances = self._opened.model(ids, layout, segments=segments)[ids.tolist().index(mask)].float().log_softmax(-1)
        best = int(chances.argmax())
        held = best if wanted is None else wanted
        said, named = self._opened.words.tokens([best, held])
        return Answer(said, float(chances[held]), f"log p of {named!r}"), held

    def _classifies(self, number: int, wanted: int | None) -> tuple[Answer, int]:
        """The label, and its log-probability."""
        assert self._opened.config.head is not None
        ids, layout, segments = self._read(number)
        labels = self._opened.config.head.labels
        chances = self._opened.model(ids, layout, segments=segments)[0].float().log_softmax(-1)
        best = int(chances.argmax())
        held = best if wanted is None else wanted
        return Answer(labels[best], float(chances[held]), f"log p of {labels[held]!r}"), held

    def _embeds(self, number: int, wanted: Tensor | None) -> tuple[Answer, Tensor]:
        """How far the vector of the text moves."""
        ids, layout, segments = self._read(number)
        x = self._opened.model.states(ids, layout, segments=segments)
        vector = POOLINGS[read_sentence(self._opened.carried).pool](x, layout)[0].float()
        if wanted is None:
            return Answer("the vector of the text", 1.0, "cosine with itself"), vector
        cosine = float(F.cosine_similarity(vector, wanted, dim=0))
        return Answer("the vector of the text", cosine, "cosine with the whole model's"), wanted

    def _read(self, number: int) -> tuple[Tensor, Layout, Tensor | None]:
        tokens = self._opened.words(self._texts[number], self._pairs[number], max_len=self._opened.max_len)
        return tokens.ids, tokens.layout, tokens.segments if self._opened.has_segments else None


def _log_p(logits: Tensor, ids: Tensor) -> float:
    """The log-probability of these words, (n,), by their scores (n, V)."""
    return -float(F.cross_entropy(logits.float(), ids, reduction="sum")) if len(ids) else 0.0
