"""ViT and GPT-2 as encoder and decoder: captions (VisionEncoderDecoder)."""

from collections.abc import Mapping
from typing import Any

from clearhead.hub.families.gpt2 import GPT2
from clearhead.hub.families.vit import VIT
from clearhead.hub.mapping import (
    ConfigKey,
    DerivedKey,
    Family,
    HeadMapping,
    Raw,
    in_section,
    joined,
    transposed,
)

PARTS = {"encoder": VIT, "decoder": GPT2}
WRITTEN: dict[str, dict[str, Any]] = {  # in the section of each part
    "encoder": {"model_type": VIT.model_type},
    "decoder": {"model_type": GPT2.model_type, "is_decoder": True, "add_cross_attention": True},
}
CROSS = {
    "h.{}.crossattention.q_attn": transposed("decoder.blocks.{}.cross.query"),
    "h.{}.crossattention.c_attn": joined(
        "decoder.blocks.{}.cross.key", "decoder.blocks.{}.cross.value", transposed=True
    ),
    "h.{}.crossattention.c_proj": transposed("decoder.blocks.{}.cross.output"),
    "h.{}.ln_cross_attn": "decoder.blocks.{}.cross_norm",
}


def _section(part: str, key: ConfigKey | DerivedKey) -> DerivedKey:
    """Returns a key of a part's family, read from and written to the part's section of config.json."""
    inner = in_section(part, key, WRITTEN[part])

    def of(raw: Raw) -> Any:
        section: Mapping[str, Any] = raw.get(part, {})
        if section.get("model_type", PARTS[part].model_type) != PARTS[part].model_type:
            raise ValueError(
                f"config.json has {section['model_type']!r} as {part}: supported is {PARTS[part].model_type!r}"
            )
        for name, allowed in PARTS[part].required_values.items():
            if name != "add_cross_attention" and section.get(name) is not None and section[name] not in allowed:
                raise ValueError(f"config.json sets {part}.{name} to {section[name]!r}, which is not supported")
        return inner.of(raw)

    return DerivedKey(of, inner.to)


VISION_ENCODER_DECODER = Family(
    model_type="vision-encoder-decoder",
    title="ViT and GPT-2",
    prefix="",
    stacks=("encoder", "decoder"),
    config={f"{part}.{n}": _section(part, key) for part, family in PARTS.items() for n, key in family.config.items()},
    constants={f"{part}.{n}": value for part, family in PARTS.items() for n, value in family.constants.items()},
    weights={
        **{f"encoder.{name}": ours for name, ours in VIT.weights.items()},
        **{f"decoder.transformer.{name}": ours for name, ours in {**GPT2.weights, **CROSS}.items()},
        "enc_to_dec_proj": "memory_projection",
    },
    heads={
        "VisionEncoderDecoderModel": HeadMapping(
            "lm",
            {"decoder.lm_head": "output"},
            {"bias": False, "tied": DerivedKey(lambda c: bool(c.get("decoder", {}).get("tie_word_embeddings", True)))},
        ),
    },
    model={"shared_embedding": DerivedKey(lambda c: False)},
    ignored=(r"encoder\.pooler\..*", r".*attn\.(masked_)?bias"),
)
