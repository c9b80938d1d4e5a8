"""The families of the field, one table a file; and those whose folders are clearhead's own."""

from clearhead.models.families.albert import ALBERT
from clearhead.models.families.bart import BART
from clearhead.models.families.bert import BERT
from clearhead.models.families.distilbert import DISTILBERT
from clearhead.models.families.electra import ELECTRA
from clearhead.models.families.gpt2 import GPT2
from clearhead.models.families.llama import LLAMA, MISTRAL, QWEN2, QWEN3
from clearhead.models.families.marian import MARIAN
from clearhead.models.families.modernbert import MODERNBERT
from clearhead.models.families.recurrent import RECURRENT
from clearhead.models.families.roberta import ROBERTA, XLM_ROBERTA
from clearhead.models.families.t5 import T5
from clearhead.models.families.table import Family
from clearhead.models.families.vit import VIT

FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (
        BERT, ROBERTA, XLM_ROBERTA, ALBERT, ELECTRA, DISTILBERT, MODERNBERT,
        GPT2, LLAMA, MISTRAL, QWEN2, QWEN3, MARIAN, BART, T5, VIT,
    )
}  # fmt: skip

OWN: dict[str, Family] = {RECURRENT.model_type: RECURRENT}

__all__ = ["FAMILIES", "OWN", "Family"]
