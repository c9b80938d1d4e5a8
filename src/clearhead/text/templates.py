"""Tokenizer templates: the special tokens of each model family and their order around texts and pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tokenizers import AddedToken, processors


@dataclass(frozen=True, kw_only=True)
class TokenizerTemplate:
    """The special tokens of a model family.

    `first` are the special tokens with the lowest ids, in order from 0; `last` those with the highest ids. `roles` has
    the keys of tokenizer_config.json. `single` and `pair` use the syntax of `tokenizers`: `$A` and `$B` are the texts,
    the number after a colon is the segment. `kind` is the algorithm the family was published with; any other can be
    trained.
    """

    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    roles: dict[str, str]
    single: str = "$A:0"
    pair: str = "$A:0 $B:1"
    kind: str
    segments: bool = False  # the family uses segments (token_type_ids)
    spaced: bool = False  # the mask token absorbs the space before it

    @property
    def inputs(self) -> list[str]:
        """The inputs of such a model in transformers: `model_input_names` in tokenizer_config.json."""
        return ["input_ids", *(["token_type_ids"] if self.segments else []), "attention_mask"]

    def added(self, tokens: Sequence[str]) -> list[AddedToken]:
        """The special tokens, as the tokenizers library adds them."""
        spaced = self.roles.get("mask_token") if self.spaced else None
        return [AddedToken(t, special=True, normalized=False, lstrip=t == spaced) for t in tokens]

    def processor(self, ids: Mapping[str, int]) -> processors.TemplateProcessing:
        """Returns the post-processor that adds the special tokens; `ids` are their ids."""
        used = {word.partition(":")[0] for word in self.pair.split()} - {"$A", "$B"}
        special = [(token, ids[token]) for token in sorted(used)]
        return processors.TemplateProcessing(single=self.single, pair=self.pair, special_tokens=special)


_BERT = TokenizerTemplate(
    first=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    roles={
        "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]",
    },
    single="[CLS]:0 $A:0 [SEP]:0",
    pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
    kind="wordpiece",
    segments=True,
)  # fmt: skip

_ROBERTA = TokenizerTemplate(
    first=("<s>", "<pad>", "</s>", "<unk>"),
    last=("<mask>",),
    roles={
        "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>", "pad_token": "<pad>",
        "cls_token": "<s>", "mask_token": "<mask>",
    },
    single="<s>:0 $A:0 </s>:0",
    pair="<s>:0 $A:0 </s>:0 </s>:0 $B:0 </s>:0",
    kind="bpe",
    spaced=True,
)  # fmt: skip

_T5 = TokenizerTemplate(
    first=("<pad>", "</s>", "<unk>"),
    roles={"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
    single="$A:0 </s>:0",
    pair="$A:0 </s>:0 $B:0 </s>:0",
    kind="unigram",
)

TEMPLATES: dict[str, TokenizerTemplate] = {
    "bert": _BERT,
    "albert": replace(
        _BERT,
        first=("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
        roles=_BERT.roles | {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "[CLS]", "eos_token": "[SEP]"},
        kind="unigram",
        spaced=True,
    ),
    "roberta": _ROBERTA,
    "bart": _ROBERTA,
    "xlm-roberta": replace(_ROBERTA, kind="unigram"),
    "gpt2": TokenizerTemplate(
        last=("<|endoftext|>",), roles={"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}, kind="bpe"
    ),
    "llama": TokenizerTemplate(
        first=("<unk>", "<s>", "</s>"),
        roles={"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
        single="<s>:0 $A:0",
        pair="<s>:0 $A:0 $B:1",
        kind="bpe",
    ),
    "t5": _T5,
    "marian": replace(
        _T5,
        first=("</s>", "<unk>"),
        last=("<pad>",),  # CTranslate2 needs padding to have the highest id
        pair="$A:0 $B:0 </s>:0",
    ),
}
"""The special tokens of each family, by name."""
