"""Model families, one mapping per file: Hugging Face families, and clearhead's own."""

from clearhead.hub.families.albert import ALBERT
from clearhead.hub.families.bart import BART
from clearhead.hub.families.bert import BERT
from clearhead.hub.families.bigbird import BIGBIRD
from clearhead.hub.families.captioner import CAPTIONER
from clearhead.hub.families.cct import CCT
from clearhead.hub.families.clip import CLIP_TEXT, CLIP_VISION
from clearhead.hub.families.deit import DEIT
from clearhead.hub.families.dinov2 import DINOV2
from clearhead.hub.families.distilbert import DISTILBERT
from clearhead.hub.families.electra import ELECTRA
from clearhead.hub.families.gpt2 import GPT2
from clearhead.hub.families.llama import LLAMA, MISTRAL, QWEN2, QWEN3
from clearhead.hub.families.longformer import LED, LONGFORMER
from clearhead.hub.families.marian import MARIAN
from clearhead.hub.families.modernbert import MODERNBERT
from clearhead.hub.families.nystromformer import NYSTROMFORMER
from clearhead.hub.families.recurrent import RECURRENT
from clearhead.hub.families.reformer import REFORMER
from clearhead.hub.families.roberta import ROBERTA, XLM_ROBERTA
from clearhead.hub.families.siglip import SIGLIP_TEXT, SIGLIP_VISION
from clearhead.hub.families.t5 import T5
from clearhead.hub.families.vision_encoder_decoder import MODEL_TYPE, VISION_ENCODER_DECODERS
from clearhead.hub.families.vit import VIT
from clearhead.hub.mapping import Family, Raw

FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (
        BERT, ROBERTA, XLM_ROBERTA, ALBERT, ELECTRA, DISTILBERT, MODERNBERT, NYSTROMFORMER, LONGFORMER, BIGBIRD,
        REFORMER,        GPT2, LLAMA, MISTRAL, QWEN2, QWEN3, MARIAN, BART, LED, T5, VIT, DEIT, DINOV2,
        CLIP_VISION, CLIP_TEXT, SIGLIP_VISION, SIGLIP_TEXT,
    )
} | VISION_ENCODER_DECODERS  # fmt: skip

OWN: dict[str, Family] = {family.model_type: family for family in (RECURRENT, CCT, CAPTIONER)}


def family_key(raw: Raw) -> str:
    """Return the key of a config's family: its `model_type`, followed by those of its encoder and decoder if it has."""
    kinds = [raw.get("model_type")]
    if kinds == [MODEL_TYPE]:
        kinds += [raw.get(part, {}).get("model_type") for part in ("encoder", "decoder")]
    return "/".join(str(kind) for kind in kinds)


__all__ = ["FAMILIES", "OWN", "Family", "family_key"]
