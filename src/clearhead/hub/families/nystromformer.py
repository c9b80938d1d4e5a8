"""Nyströmformer (Xiong et al. 2021): BERT with Nyström attention and a convolution of the values."""

from typing import Any

from clearhead.hub.families.bert import BERT, CLASSIFIER, CONFIG, DROPOUT, EMBEDDINGS, INNER, LAYER, PREDICTIONS, WORDS
from clearhead.hub.mapping import ConfigKey, DerivedKey, Family, HeadMapping, Raw, activation

EXACT = 2**31 - 1  # landmarks: more than any text has tokens


def _read(raw: Raw) -> tuple[dict[str, Any], ...]:
    """With as many landmarks as tokens of a segment, attention is exact, for texts of any length."""
    landmarks, tokens = raw.get("num_landmarks", 64), raw.get("segment_means_seq_len", 64)
    conv = raw.get("conv_kernel_size", 65) or 0
    return ({"kind": "nystrom", "landmarks": EXACT if landmarks == tokens else landmarks, "conv": conv},)


def _write(value: tuple[dict[str, Any], ...], raw: Raw) -> dict[str, Any]:
    if [method.get("kind") for method in value] != ["nystrom"]:
        return {}  # another method, which has a key of its own
    (method,) = value
    landmarks = raw.get("segment_means_seq_len", 64) if method["landmarks"] == EXACT else method["landmarks"]
    return {"num_landmarks": landmarks, "conv_kernel_size": method["conv"] or None}


NYSTROMFORMER = Family(
    model_type="nystromformer",
    title="Nyströmformer",
    prefix="nystromformer",
    stacks=("encoder",),
    config={
        **CONFIG,
        "vocab_size": ConfigKey("vocab_size", 30000),
        "max_len": ConfigKey("max_position_embeddings", 510),
        "activation": activation("hidden_act", "gelu_new"),
        "norm_eps": ConfigKey("layer_norm_eps", 1e-5),
        "attention": DerivedKey(_read, _write),
    },
    constants={"positions": "learned", "embedding_norm": True, "position_offset": 2},
    weights={
        **EMBEDDINGS,
        **LAYER,
        "encoder.layer.{}.attention.self.conv.weight": "encoder.blocks.{}.attention.core.method.taps",
    },
    heads={
        "NystromformerModel": HeadMapping(None, {}, {}, prefixed=False),
        "NystromformerForMaskedLM": HeadMapping("lm", PREDICTIONS, WORDS),
        "NystromformerForSequenceClassification": HeadMapping("sequence", CLASSIFIER, INNER),
        "NystromformerForTokenClassification": HeadMapping("token", {"classifier": "output"}, DROPOUT),
        "NystromformerForQuestionAnswering": HeadMapping(
            "span", {"qa_outputs": "output"}, {"labels": ("start", "end")}
        ),
    },
    required_values={"inv_coeff_init_option": (False,), "is_decoder": (False,), "add_cross_attention": (False,)},
    duplicated=BERT.duplicated,
    ignored=BERT.ignored,
)
