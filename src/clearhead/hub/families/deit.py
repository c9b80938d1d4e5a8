"""DeiT (Touvron et al. 2021): ViT with a distillation token."""

from clearhead.hub.families.vit import SIZES, VIT
from clearhead.hub.mapping import DerivedKey, Family, HeadMapping
from clearhead.vision import PatchConfig

DEIT = Family(
    model_type="deit",
    title="DeiT",
    prefix="deit",
    stacks=("encoder",),
    config={
        **VIT.config,
        "patches": DerivedKey(
            lambda c: PatchConfig(distillation_token=True, **{n: c[n] for n in SIZES if c.get(n) is not None}),
            lambda v, _: {n: getattr(v, n) for n in SIZES},
        ),
    },
    constants=VIT.constants,
    weights={**VIT.weights, "embeddings.distillation_token": "encoder.embedding.distillation"},
    heads={
        "DeiTModel": HeadMapping("pooler", {"~pooler.dense": "pooler"}, {"pooler": True}, prefixed=False),
        "DeiTForImageClassification": HeadMapping("sequence", {"classifier": "output"}),
        "DeiTForImageClassificationWithTeacher": HeadMapping(
            "sequence", {"cls_classifier": "output", "distillation_classifier": "second"}, {"distilled": True}
        ),
    },
    required_values={"pooler_act": ("tanh",)},
)
