"""Compact convolutional transformers (Hassani et al. 2021), in clearhead's own layout and with its names."""

from dataclasses import asdict

from clearhead.hub.families.vit import VIT
from clearhead.hub.mapping import ConfigKey, DerivedKey, Family, HeadMapping
from clearhead.models.heads import POOLS
from clearhead.vision import PatchConfig


def _pool(name: object) -> object:
    if name not in POOLS:
        raise ValueError(f"config.json sets pooling to {name!r:.100}: choose {', '.join(POOLS)}")
    return name


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
            "sequence", settings={"pool": ConfigKey("pooling", "attention", _pool)}
        ),
    },
)
