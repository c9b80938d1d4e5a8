"""Model families, one mapping per file: Hugging Face families, and clearhead's own."""

from clearhead.hub.families.albert import ALBERT
from clearhead.hub.families.bart import BART
from clearhead.hub.families.bert import BERT
from clearhead.hub.families.captioner import CAPTIONER
from clearhead.hub.families.cct import CCT
from clearhead.hub.families.clip import CLIP_TEXT, CLIP_VISION
from clearhead.hub.families.deit import DEIT
from clearhead.hub.families.dinov2 import DINOV2
from clearhead.hub.families.distilbert import DISTILBERT
from clearhead.hub.families.electra import ELECTRA
from clearhead.hub.families.gpt2 import GPT2
from clearhead.hub.families.llama import LLAMA, MISTRAL, QWEN2, QWEN3
from clearhead.hub.families.marian import MARIAN
from clearhead.hub.families.modernbert import MODERNBERT
from clearhead.hub.families.recurrent import RECURRENT
from clearhead.hub.families.roberta import ROBERTA, XLM_ROBERTA
from clearhead.hub.families.siglip import SIGLIP_VISION
from clearhead.hub.families.t5 import T5
from clearhead.hub.families.vision_encoder_decoder import VISION_ENCODER_DECODER
from clearhead.hub.families.vit import VIT
from clearhead.hub.mapping import Family

FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (
        BERT, ROBERTA, XLM_ROBERTA, ALBERT, ELECTRA, DISTILBERT, MODERNBERT,
        GPT2, LLAMA, MISTRAL, QWEN2, QWEN3, MARIAN, BART, T5, VIT, DEIT, DINOV2,
        CLIP_VISION, CLIP_TEXT, SIGLIP_VISION, VISION_ENCODER_DECODER,
    )
}  # fmt: skip

OWN: dict[str, Family] = {family.model_type: family for family in (RECURRENT, CCT, CAPTIONER)}

__all__ = ["FAMILIES", "OWN", "Family"]
