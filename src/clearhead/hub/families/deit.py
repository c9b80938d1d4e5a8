"""DeiT (Touvron et al. 2021): ViT with a distillation token."""

from clearhead.hub.families.vit import VIT, patches
from clearhead.hub.mapping import Family, HeadMapping

DEIT = Family(
    model_type="deit",
    title="DeiT",
    prefix="deit",
    stacks=("encoder",),
    config={
        **VIT.config,
        "patches": patches(distillation_token=True),
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
