"""Recurrent nets, in clearhead's own layout: settings and tensors have clearhead's names."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from clearhead.hub.mapping import DerivedKey, Family, HeadMapping
from clearhead.layers import POOLINGS
from clearhead.models.heads import HEAD_ACTIVATIONS
from clearhead.models.recurrent import RecurrentConfig


def section_key(
    section: str, name: str, default: Any = None, is_valid: Callable[[Any], bool] = lambda value: True
) -> DerivedKey:
    """Returns the key of a setting in a section of config.json; `is_valid` checks its value."""

    def of(raw: Any) -> Any:
        value = raw.get(section, {}).get(name, default)
        if not is_valid(value):
            raise ValueError(f"config.json: {section}.{name} is {value!r:.100}, which is not a valid value")
        return value

    return DerivedKey(of, lambda value, raw: {section: {**raw.get(section, {}), name: value}})


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


OUTPUT = {
    "bias": section_key("head", "bias", True, _is_flag),
    "dropout": section_key("head", "dropout", 0.0, lambda v: type(v) in (int, float) and 0 <= v < 1),
    "inner": section_key("head", "inner", None, lambda v: v is None or (type(v) is int and 1 <= v <= 2**20)),
    "activation": section_key("head", "activation", "gelu", lambda v: isinstance(v, str) and v in HEAD_ACTIVATIONS),
}
WORDS = {**OUTPUT, "tied": section_key("head", "tied", True, _is_flag)}
STATES = {**OUTPUT, "width": lambda stack: stack.encoded_width}
POOLED = {
    **STATES,
    "pool": section_key("head", "pool", "bidirectional_last", lambda v: isinstance(v, str) and v in POOLINGS),
}

RECURRENT = Family(
    model_type="clearhead-recurrent",
    title="recurrent net",
    prefix="",
    stacks=("encoder", "decoder"),
    stack=RecurrentConfig,
    config={f"{s}.{f.name}": section_key(s, f.name) for s in ("encoder", "decoder") for f in fields(RecurrentConfig)},
    constants={},
    model={"shared_embedding": section_key("embedding", "shared", True, _is_flag)},
    weights={},
    heads={
        "RecurrentEncoder": HeadMapping(None, stacks=("encoder",)),
        "RecurrentDecoder": HeadMapping(None, stacks=("decoder",)),
        "RecurrentEncoderDecoder": HeadMapping(None),
        "RecurrentForSequenceClassification": HeadMapping("sequence", settings=POOLED, stacks=("encoder",)),
        "RecurrentForTokenClassification": HeadMapping("token", settings=STATES, stacks=("encoder",)),
        "RecurrentForQuestionAnswering": HeadMapping(
            "span", settings={**STATES, "labels": ("start", "end")}, stacks=("encoder",)
        ),
        "RecurrentForCausalLM": HeadMapping("lm", settings=WORDS, stacks=("decoder",)),
        "RecurrentForConditionalGeneration": HeadMapping("lm", settings=WORDS),
    },
)
