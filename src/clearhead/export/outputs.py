"""Outputs of an encoder and its head, under their `transformers` names."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from clearhead.attention import Layout
from clearhead.hub.folder import LoadedModel
from clearhead.hub.sentence import SentenceConfig, read_sentence
from clearhead.layers import POOLINGS
from clearhead.models.heads import SequenceHead
from clearhead.models.model import Model
from clearhead.models.transformer_config import TransformerConfig

# Outputs per token; all others are per text.
TOKEN_OUTPUTS = ("last_hidden_state", "prediction_logits", "start_logits", "end_logits")
_TEXT_HEADS = ("sequence", "nsp")


@dataclass(frozen=True, kw_only=True)
class OutputSpec:
    """The names of an encoder's outputs, and its pooling."""

    names: tuple[str, ...]
    of_tokens: frozenset[str]
    pool: str = "first"
    single: bool = False  # one value per token, without a label axis (ELECTRA's discriminator)
    sentence: SentenceConfig | None = None  # set if the folder has sentence-transformers settings

    @staticmethod
    def for_model(loaded: LoadedModel) -> OutputSpec:
        """Returns the outputs of a loaded text encoder; ValueError for other models."""
        if loaded.config.decoder is not None or not isinstance(loaded.config.encoder, TransformerConfig):
            raise ValueError(
                f"{loaded.architecture} is not an encoder: this format supports encoders such as BERT, with their "
                "heads; export generation models to CTranslate2 (--to ctranslate2)"
            )
        if loaded.config.encoder.patches is not None:
            raise ValueError(f"{loaded.architecture} reads images: this format supports only text encoders")
        head, sentence = loaded.config.head, None
        kind = None if head is None else head.kind
        names = _names(loaded)
        if "sentence_embedding" in names:
            sentence = read_sentence(loaded.extra_files)
        tokens = set(TOKEN_OUTPUTS) if kind in _TEXT_HEADS else {*TOKEN_OUTPUTS, "logits"}
        of_tokens, single = frozenset(tokens & set(names)), kind == "discriminator"
        pool = "first" if head is None else head.pool
        return OutputSpec(names=names, of_tokens=of_tokens, pool=pool, single=single, sentence=sentence)


def _names(loaded: LoadedModel) -> tuple[str, ...]:
    kind = None if loaded.config.head is None else loaded.config.head.kind
    if kind in (None, "pooler"):
        if "modules.json" in loaded.extra_files:
            return "last_hidden_state", "sentence_embedding"
        pooled = kind == "pooler" and not loaded.missing_keys  # a pooler missing from the folder is untrained
        return ("last_hidden_state", "pooler_output") if pooled else ("last_hidden_state",)
    if kind == "pretraining":
        return "prediction_logits", "sop_logits" if loaded.family.model_type == "albert" else "seq_relationship_logits"
    return ("start_logits", "end_logits") if kind == "span" else ("logits",)


def compute_outputs(
    model: Model, spec: OutputSpec, ids: Tensor, layout: Layout, segments: Tensor | None = None
) -> dict[str, Tensor]:
    """Computes the outputs of a ragged batch: (N, …) per token, (B, …) per text."""
    x, head = model.hidden_states(ids, layout, segments=segments), model.head
    if spec.names[0] != "last_hidden_state":
        assert head is not None
        out = head(x, layout)
        return dict(zip(spec.names, split_outputs(out, spec), strict=True))
    outputs = {"last_hidden_state": x}
    if spec.sentence is not None:
        outputs["sentence_embedding"] = sentence_embedding(POOLINGS[spec.sentence.pool](x, layout), spec.sentence)
    elif "pooler_output" in spec.names:
        assert isinstance(head, SequenceHead)
        outputs["pooler_output"] = head(x, layout)
    return outputs


def split_outputs(out: Tensor | tuple[Tensor, ...], spec: OutputSpec) -> tuple[Tensor, ...]:
    """Splits a head's output into its named outputs: start and end logits, or masked-LM and next-sentence logits."""
    if isinstance(out, tuple):
        return out
    if spec.names == ("start_logits", "end_logits"):
        return out.unbind(-1)
    return (out.squeeze(-1) if spec.single else out,)


def sentence_embedding(pooled: Tensor, sentence: SentenceConfig) -> Tensor:
    """Returns pooled vectors (B, D), normalized to length 1 if the settings say so."""
    return F.normalize(pooled, dim=1) if sentence.normalize else pooled
