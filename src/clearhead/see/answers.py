"""Answers: what a model says to an input, whole and with heads switched off, so that one sees whether they matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    """A model and the texts it was asked about; `texts` are pairs of source and target for a translator."""

    def __init__(self, opened: Opened, texts: Sequence[str], pairs: Sequence[str | None] | None = None) -> None:
        if opened.tokenizer is None:
            raise ValueError("this folder has no tokenizer that can be read: tokenizer.json, or vocab.txt, is missing")
        self.opened, self.texts = opened, list(texts)
        self.pairs = [None] * len(self.texts) if pairs is None else list(pairs)
        self.tokenizer = opened.tokenizer
        with torch.inference_mode():
            self.whole = [self._ask(i) for i in range(len(self.texts))]

    def answers(self) -> list[Answer]:
        """What the whole model says to each text."""
        return [answer for answer, _ in self.whole]

    def without(self, number: int, heads: Mapping[str, Sequence[int]]) -> Answer:
        """What it says to one text without these heads."""
        if not 0 <= number < len(self.texts):
            raise LookupError(f"there is no text {number}")
        with torch.inference_mode(), without(self.opened.model, heads):
            return self._ask(number, self.whole[number])[0]

    def _ask(self, number: int, before: tuple[Answer, object] | None = None) -> tuple[Answer, object]:
        """An answer, and what a later one is held against."""
        model, text = self.opened.model, self.texts[number]
        if model.decoder is not None and model.encoder is not None and isinstance(model.head, Vocabulary):
            return self._translated(text, self.pairs[number], before)
        tokens = self.tokenizer(text, self.pairs[number], max_len=self._limit())
        if model.decoder is not None and isinstance(model.head, Vocabulary):
            logits = model(tokens.ids, tokens.layout).float()
            score = (
                F.cross_entropy(logits[:-1], tokens.ids[1:], reduction="sum")
                if len(tokens.ids) > 1
                else logits.sum() * 0
            )
            word = self.tokenizer.decode([int(logits[-1].argmax())])
            return Answer(f"goes on with {word!r}", -float(score), "log p of the text"), None
        if isinstance(model.head, Vocabulary) and self.tokenizer.mask_id in tokens.ids.tolist():
            logits = model(tokens.ids, tokens.layout, segments=tokens.segments)
            at = tokens.ids.tolist().index(self.tokenizer.mask_id)
            chances = logits[at].float().log_softmax(-1)
            wanted = before[1] if before is not None else int(chances.argmax())
            said = self.tokenizer.tokens([int(chances.argmax())])[0]
            named = self.tokenizer.tokens([int(wanted)])[0]  # type: ignore[call-overload]
            return Answer(said, float(chances[wanted]), f"log p of {named!r}"), wanted  # type: ignore[index]
        labels = self.opened.config.head.labels if self.opened.config.head is not None else ()
        if labels and self.opened.config.head is not None and self.opened.config.head.kind == "sequence":
            chances = model(tokens.ids, tokens.layout, segments=tokens.segments)[0].float().log_softmax(-1)
            best = int(chances.argmax())
            wanted = best if before is None else before[1]
            return Answer(labels[best], float(chances[wanted]), f"log p of {labels[wanted]!r}"), wanted  # type: ignore[index]
        vector = self._vector(tokens.ids, tokens.layout, tokens.segments)
        if before is None:
            return Answer("the vector of the text", 1.0, "cosine with itself"), vector
        kept = before[1]
        assert isinstance(kept, Tensor)
        cosine = float(F.cosine_similarity(vector, kept, dim=0))
        return Answer("the vector of the text", cosine, "cosine with the whole model's"), kept

    def _translated(self, text: str, given: str | None, before: tuple[Answer, object] | None) -> tuple[Answer, object]:
        writer = Writer.of(self.opened)
        said = given
        if said is None:
            for done, _ in translate(writer, [text], Beam(size=1)):
                said = done[0][1].text if done else ""
        wanted = said if before is None else before[1]
        assert isinstance(wanted, str)
        source = self.tokenizer(text, max_len=writer.source_limit)
        target = self.tokenizer(wanted)
        read = torch.cat([target.ids.new_tensor([writer.start]), target.ids[:-1]])
        logits = self.opened.model(source.ids, source.layout, read, Layout.of([len(read)])).float()
        score = -float(F.cross_entropy(logits, target.ids, reduction="sum"))
        again = said
        if before is not None and given is not None:
            for done, _ in translate(writer, [text], Beam(size=1)):
                again = done[0][1].text if done else ""
        return Answer(again or "", score, "log p of the translation"), wanted

    def _vector(self, ids: Tensor, layout: Layout, segments: Tensor | None) -> Tensor:
        x = self.opened.model.states(ids, layout, segments=segments)
        return POOLINGS[read_sentence(self.opened.carried).pool or "mean"](x, layout)[0].float()

    def _limit(self) -> int | None:
        told = (self.tokenizer.max_len, self.opened.config.stack.limit)
        return min((n for n in told if n is not None), default=None)
