"""RoBERTa (Liu et al. 2019) and XLM-RoBERTa (Conneau et al. 2020): BERT whose positions start after its padding id."""

from clearhead.hub.families.bert import CLASSIFIER, CONFIG, DROPOUT, EMBEDDINGS, LAYER, WORDS
from clearhead.hub.mapping import ConfigKey, DerivedKey, Family, HeadMapping, Raw


def _pad(raw: Raw) -> int:
    value = raw.get("pad_token_id", 1)
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"pad_token_id is {value!r}: positions start after it, so it must be an integer, 0 or more")
    return value


def _family(model_type: str, title: str, name: str) -> Family:
    return Family(
        model_type=model_type,
        title=title,
        prefix="roberta",
        stacks=("encoder",),
        config={
            "position_offset": DerivedKey(lambda c: _pad(c) + 1, lambda v, _: {"pad_token_id": v - 1}),
            **CONFIG,
            "vocab_size": ConfigKey("vocab_size", 50265 if name == "Roberta" else 30522),
            "max_len": DerivedKey(
                lambda c: c.get("max_position_embeddings", 512) - _pad(c) - 1,
                lambda v, raw: {"max_position_embeddings": v + _pad(raw) + 1},
            ),
        },
        constants={"positions": "learned", "embedding_norm": True},
        weights={**EMBEDDINGS, **LAYER},
        heads={
            f"{name}Model": HeadMapping("pooler", {"~pooler.dense": "pooler"}, {"pooler": True}, prefixed=False),
            f"{name}ForMaskedLM": HeadMapping(
                "lm",
                {
                    "lm_head.dense": "inner.dense",
                    "lm_head.layer_norm": "inner.norm",
                    "lm_head.decoder.weight": "output.weight",
                    "lm_head.bias": "output.bias",
                },
                {**WORDS, "activation": "gelu"},
            ),
            f"{name}ForSequenceClassification": HeadMapping(
                "sequence",
                CLASSIFIER,
                {"inner": lambda s: s.width, "activation": "tanh", **DROPOUT},
            ),
            f"{name}ForTokenClassification": HeadMapping("token", {"classifier": "output"}, DROPOUT),
            f"{name}ForQuestionAnswering": HeadMapping("span", {"qa_outputs": "output"}, {"labels": ("start", "end")}),
        },
        required_values={
            "is_decoder": (False,),
            "add_cross_attention": (False,),
            "position_embedding_type": ("absolute",),
        },
        duplicated={"lm_head.bias": "lm_head.decoder.bias"},
        ignored=(r".*position_ids", r".*token_type_ids", r"lm_head\.decoder\.bias"),
    )


ROBERTA = _family("roberta", "RoBERTa", "Roberta")
XLM_ROBERTA = _family("xlm-roberta", "XLM-RoBERTa", "XLMRoberta")
