"""Recurrent nets, in a layout of clearhead's own: every setting under its own name, every tensor too."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from clearhead.layers import POOLINGS
from clearhead.models.families.table import Derived, Family, Head
from clearhead.models.heads import HEAD_ACTIVATIONS
from clearhead.models.recurrent import RecurrentConfig


def _inside(section: str, name: str, default: Any = None, fits: Callable[[Any], bool] = lambda value: True) -> Derived:
    """A setting of one section of config.json; `fits` says whether a value can be."""

    def of(raw: Any) -> Any:
        value = raw.get(section, {}).get(name, default)
        if not fits(value):
            raise ValueError(f"config.json: {section}.{name} is {value!r:.100}, which it cannot be")
        return value

    return Derived(of, lambda value, raw: {section: {**raw.get(section, {}), name: value}})


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


OUTPUT = {
    "bias": _inside("head", "bias", True, _is_flag),
    "dropout": _inside("head", "dropout", 0.0, lambda v: type(v) in (int, float) and 0 <= v < 1),
    "inner": _inside("head", "inner", None, lambda v: v is None or (type(v) is int and 1 <= v <= 2**20)),
    "activation": _inside("head", "activation", "gelu", lambda v: isinstance(v, str) and v in HEAD_ACTIVATIONS),
}
WORDS = {**OUTPUT, "tied": _inside("head", "tied", True, _is_flag)}
STATES = {**OUTPUT, "width": lambda stack: stack.encoded_width}
POOLED = {**STATES, "pool": _inside("head", "pool", "ends", lambda v: isinstance(v, str) and v in POOLINGS)}

RECURRENT = Family(
    model_type="clearhead-recurrent",
    title="recurrent net",
    prefix="",
    stacks=("encoder", "decoder"),
    stack=RecurrentConfig,
    config={f"{s}.{f.name}": _inside(s, f.name) for s in ("encoder", "decoder") for f in fields(RecurrentConfig)},
    constants={},
    model={"shared_embedding": _inside("embedding", "shared", True, _is_flag)},
    weights={},
    heads={
        "RecurrentEncoder": Head(None, stacks=("encoder",)),
        "RecurrentDecoder": Head(None, stacks=("decoder",)),
        "RecurrentEncoderDecoder": Head(None),
        "RecurrentForSequenceClassification": Head("sequence", settings=POOLED, stacks=("encoder",)),
        "RecurrentForTokenClassification": Head("token", settings=STATES, stacks=("encoder",)),
        "RecurrentForQuestionAnswering": Head(
            "span", settings={**STATES, "labels": ("start", "end")}, stacks=("encoder",)
        ),
        "RecurrentForCausalLM": Head("vocabulary", settings=WORDS, stacks=("decoder",)),
        "RecurrentForConditionalGeneration": Head("vocabulary", settings=WORDS),
    },
)
