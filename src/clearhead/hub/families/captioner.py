"""An image encoder with a recurrent decoder that attends to it (Xu et al. 2015), with clearhead's own names."""

from dataclasses import fields

from clearhead.hub.families.cct import CCT
from clearhead.hub.families.recurrent import WORDS, section_key
from clearhead.hub.mapping import DerivedKey, Family, HeadMapping, in_section
from clearhead.models.recurrent import RecurrentConfig
from clearhead.models.transformer_config import TransformerConfig

CAPTIONER = Family(
    model_type="clearhead-captioner",
    title="image encoder and recurrent decoder",
    prefix="",
    stacks=("encoder", "decoder"),
    encoder=TransformerConfig,
    stack=RecurrentConfig,
    config={
        **{f"encoder.{name}": in_section("encoder", key) for name, key in CCT.config.items()},
        **{f"decoder.{f.name}": section_key("decoder", f.name) for f in fields(RecurrentConfig)},
    },
    constants={f"encoder.{name}": value for name, value in CCT.constants.items()},
    model={"shared_embedding": DerivedKey(lambda c: False)},
    weights={},
    heads={"CaptionerForConditionalGeneration": HeadMapping("lm", settings=WORDS)},
)
