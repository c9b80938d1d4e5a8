"""Compact convolutional transformers (Hassani et al. 2021), in clearhead's own layout and with its names."""

from dataclasses import asdict

from clearhead.hub.families.vit import VIT
from clearhead.hub.mapping import ConfigKey, DerivedKey, Family, HeadMapping, check_pooling
from clearhead.vision import PatchConfig

CCT = Family(
    model_type="clearhead-cct",
    title="compact convolutional transformer",
    prefix="",
    stacks=("encoder",),
    config={
        **VIT.config,
        "patches": DerivedKey(lambda c: PatchConfig(**c.get("patches", {})), lambda v, _: {"patches": asdict(v)}),
    },
    constants=VIT.constants,
    weights={},
    heads={
        "CctForImageClassification": HeadMapping(
            "sequence", settings={"pool": ConfigKey("pooling", "attention", check_pooling)}
        ),
    },
)
