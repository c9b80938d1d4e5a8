"""An image encoder with a recurrent decoder that attends to it (Xu et al. 2015), with clearhead's own names."""

from dataclasses import fields
from typing import Any

from clearhead.hub.families.cct import CCT
from clearhead.hub.families.recurrent import WORDS, section_key
from clearhead.hub.mapping import ConfigKey, DerivedKey, Family, HeadMapping, Raw
from clearhead.models.recurrent import RecurrentConfig
from clearhead.models.transformer import TransformerConfig


def _encoder_key(key: ConfigKey | DerivedKey) -> DerivedKey:
    """Returns a key of an image encoder, read from and written to its section of config.json."""

    def to(value: Any, raw: Raw) -> dict[str, Any]:
        section = dict(raw.get("encoder", {}))
        return {"encoder": {**section, **key.to(value, section)}}

    return DerivedKey(lambda raw: key.of(raw.get("encoder", {})), to)


CAPTIONER = Family(
    model_type="clearhead-captioner",
    title="image encoder and recurrent decoder",
    prefix="",
    stacks=("encoder", "decoder"),
    encoder=TransformerConfig,
    stack=RecurrentConfig,
    config={
        **{f"encoder.{name}": _encoder_key(key) for name, key in CCT.config.items()},
        **{f"decoder.{f.name}": section_key("decoder", f.name) for f in fields(RecurrentConfig)},
    },
    constants={f"encoder.{name}": value for name, value in CCT.constants.items()},
    model={"shared_embedding": DerivedKey(lambda c: False)},
    weights={},
    heads={"CaptionerForConditionalGeneration": HeadMapping("lm", settings=WORDS)},
)
