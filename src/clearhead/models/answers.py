"""Answers: what an encoder and its head say of a batch, under the names that `transformers` gives them."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from clearhead.attention import Layout
from clearhead.layers import POOLINGS
from clearhead.models.heads import Sequence
from clearhead.models.model import Model
from clearhead.models.sentence import SentenceConfig, read_sentence
from clearhead.models.store import Opened
from clearhead.models.transformer import TransformerConfig

# What a head says of every token; anything else is said of a text.
OF_TOKENS = ("last_hidden_state", "prediction_logits", "start_logits", "end_logits")
_OF_TEXTS = ("sequence", "next")


@dataclass(frozen=True, kw_only=True)
class Says:
    """The names of an encoder's answers, and how its texts are pooled."""

    names: tuple[str, ...]
    of_tokens: frozenset[str]
    pool: str = "first"
    single: bool = False  # one number a token, without an axis of its own (ELECTRA's discriminator)
    sentence: SentenceConfig | None = None  # set where a folder says how tokens become one vector

    @staticmethod
    def of(opened: Opened) -> Says:
        """What an opened encoder answers; ValueError where it is none, or reads no text."""
        if opened.config.decoder is not None or not isinstance(opened.config.encoder, TransformerConfig):
            raise ValueError(
                f"{opened.architecture} is not an encoder: BERT and its like can be exported to this, with their "
                "heads; models that write go to CTranslate2 (--to ctranslate2)"
            )
        if opened.config.encoder.patches is not None:
            raise ValueError(f"{opened.architecture} reads pictures: only encoders of text can be exported to this")
        head, sentence = opened.config.head, None
        kind = None if head is None else head.kind
        names = _names(opened)
        if "sentence_embedding" in names:
            sentence = read_sentence(opened.carried)
        tokens = set(OF_TOKENS) if kind in _OF_TEXTS else {*OF_TOKENS, "logits"}
        pool = "first" if head is None else head.pool
        return Says(
            names=names,
            of_tokens=frozenset(tokens & set(names)),
            pool=pool,
            single=kind == "discriminator",
            sentence=sentence,
        )


def _names(opened: Opened) -> tuple[str, ...]:
    kind = None if opened.config.head is None else opened.config.head.kind
    if kind in (None, "pooler"):
        if "modules.json" in opened.carried:
            return "last_hidden_state", "sentence_embedding"
        pooled = kind == "pooler" and not opened.fresh  # a pooler the folder does not hold says nothing
        return ("last_hidden_state", "pooler_output") if pooled else ("last_hidden_state",)
    if kind == "pretraining":
        return "prediction_logits", "sop_logits" if opened.family.model_type == "albert" else "seq_relationship_logits"
    return ("start_logits", "end_logits") if kind == "span" else ("logits",)


def answers(model: Model, says: Says, ids: Tensor, layout: Layout, segments: Tensor | None = None) -> dict[str, Tensor]:
    """Of a ragged batch: (N, …) of tokens, (B, …) of texts."""
    x, head = model.states(ids, layout, segments=segments), model.head
    if says.names[0] != "last_hidden_state":
        assert head is not None
        out = head(x, layout)
        return dict(zip(says.names, split(out, says), strict=True))
    found = {"last_hidden_state": x}
    if says.sentence is not None:
        found["sentence_embedding"] = one_vector(POOLINGS[says.sentence.pool](x, layout), says.sentence)
    elif "pooler_output" in says.names:
        assert isinstance(head, Sequence)
        found["pooler_output"] = head(x, layout)
    return found


def split(out: Tensor | tuple[Tensor, ...], says: Says) -> tuple[Tensor, ...]:
    """A head's output as the answers that are told apart: a start and an end, words and whether one follows."""
    if isinstance(out, tuple):
        return out
    if says.names == ("start_logits", "end_logits"):
        return out.unbind(-1)
    return (out.squeeze(-1) if says.single else out,)


def one_vector(pooled: Tensor, sentence: SentenceConfig) -> Tensor:
    """Pooled vectors (B, D), of length 1 where the folder wants that."""
    return F.normalize(pooled, dim=1) if sentence.normalize else pooled
