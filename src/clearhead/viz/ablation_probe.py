"""Ablation probe: what a model predicts for a text, in full and with heads ablated, to see whether they matter."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.attention import Layout, ablate_heads
from clearhead.decode import BeamConfig, TextGenerator, translate_in_order
from clearhead.hub.folder import LoadedModel
from clearhead.hub.sentence import read_sentence
from clearhead.layers import POOLINGS
from clearhead.models.heads import LMHead
from clearhead.viz.scene import SceneAnswer


class AblationProbe:
    """A model and its input texts; `pairs` are second sentences or, for a translator, reference translations.

    Each prediction of the full model comes with a reference that ablated predictions are scored against: the
    translation, token, label or vector of the full model.
    """

    def __init__(self, loaded: LoadedModel, texts: Sequence[str], pairs: Sequence[str | None] | None = None) -> None:
        self._loaded, self._texts = loaded, list(texts)
        self._pairs = [None] * len(self._texts) if pairs is None else list(pairs)
        self._predict = self._predictor()
        with torch.inference_mode():
            self._full = [self._predict(i, None) for i in range(len(self._texts))]

    def answers(self) -> list[SceneAnswer]:
        return [answer for answer, _ in self._full]

    def ablate(self, number: int, heads: Mapping[str, Sequence[int]]) -> SceneAnswer:
        """Return the prediction for text `number` with these heads ablated, by layer name."""
        if not 0 <= number < len(self._texts):
            raise LookupError(f"there is no text {number}: choose 0 to {len(self._texts) - 1}")
        with torch.inference_mode(), ablate_heads(self._loaded.model, heads):
            return self._predict(number, self._full[number][1])[0]

    def _predictor(self) -> Any:
        model, head = self._loaded.model, self._loaded.config.head
        if isinstance(model.head, LMHead) and model.decoder is not None:
            return self._next_token if model.encoder is None else self._translation
        if isinstance(model.head, LMHead):
            return self._masked_token
        return self._label if head is not None and head.kind == "sequence" and head.labels else self._vector

    def _translation(self, number: int, reference: str | None) -> tuple[SceneAnswer, str]:
        """Return the translation with the log-probability of the reference."""
        generator, text = TextGenerator.from_model(self._loaded), self._texts[number]
        predicted = self._pairs[number] if reference is None else None
        if predicted is None:
            predicted = next(translate_in_order(generator, [text], BeamConfig(size=1))).text
        target_text = predicted if reference is None else reference
        source, target = generator.tokenizer(text, max_len=generator.max_source_len), generator.tokenizer(target_text)
        decoder_ids = torch.cat([target.ids.new_tensor([generator.start]), target.ids[:-1]])
        logits = self._loaded.model(source.ids, source.layout, decoder_ids, Layout.from_lengths([len(decoder_ids)]))
        score = _log_probability(logits, target.ids)
        return SceneAnswer(predicted, score, "log-probability of the translation"), target_text

    def _next_token(self, number: int, reference: None) -> tuple[SceneAnswer, None]:
        """Return the most probable next token with the log-probability of the text."""
        tokens = self._loaded.require_tokenizer(self._texts[number], max_len=self._loaded.max_len)
        logits = self._loaded.model(tokens.ids, tokens.layout)
        token = self._loaded.require_tokenizer.decode([int(logits[-1].argmax())])
        score = _log_probability(logits[:-1], tokens.ids[1:])
        return SceneAnswer(f"next token: {token!r}", score, "log-probability of the text"), None

    def _masked_token(self, number: int, reference: int | Tensor | None) -> tuple[SceneAnswer, int | Tensor]:
        """Return the most probable token at the mask; for a text without a mask, its vector."""
        ids, layout, segments = self._inputs(number)
        mask_id = self._loaded.require_tokenizer.mask_id
        if mask_id is None or mask_id not in ids.tolist():
            return self._vector(number, reference if isinstance(reference, Tensor) else None)
        logits = self._loaded.model(ids, layout, segments=segments)[ids.tolist().index(mask_id)]
        log_probabilities = logits.float().log_softmax(-1)
        best = int(log_probabilities.argmax())
        target = reference if isinstance(reference, int) else best
        predicted, name = self._loaded.require_tokenizer.tokens([best, target])
        return SceneAnswer(predicted, float(log_probabilities[target]), f"log-probability of {name!r}"), target

    def _label(self, number: int, reference: int | None) -> tuple[SceneAnswer, int]:
        """Return the most probable label with its log-probability."""
        assert self._loaded.config.head is not None
        ids, layout, segments = self._inputs(number)
        labels = self._loaded.config.head.labels
        log_probabilities = self._loaded.model(ids, layout, segments=segments)[0].float().log_softmax(-1)
        best = int(log_probabilities.argmax())
        target = best if reference is None else reference
        metric = f"log-probability of {labels[target]!r}"
        return SceneAnswer(labels[best], float(log_probabilities[target]), metric), target

    def _vector(self, number: int, reference: Tensor | None) -> tuple[SceneAnswer, Tensor]:
        """Return the cosine similarity of the text's vector with the reference vector."""
        ids, layout, segments = self._inputs(number)
        x = self._loaded.model.hidden_states(ids, layout, segments=segments)
        vector = POOLINGS[read_sentence(self._loaded.extra_files).pool](x, layout)[0].float()
        if reference is None:
            return SceneAnswer("text vector", 1.0, "cosine with itself"), vector
        cosine = float(F.cosine_similarity(vector, reference, dim=0))
        return SceneAnswer("text vector", cosine, "cosine with the full model's vector"), reference

    def _inputs(self, number: int) -> tuple[Tensor, Layout, Tensor | None]:
        tokens = self._loaded.require_tokenizer(self._texts[number], self._pairs[number], max_len=self._loaded.max_len)
        return tokens.ids, tokens.layout, tokens.segments if self._loaded.has_segments else None


def _log_probability(logits: Tensor, ids: Tensor) -> float:
    return -float(F.cross_entropy(logits.float(), ids, reduction="sum")) if len(ids) else 0.0
