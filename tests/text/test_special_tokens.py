from __future__ import annotations

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, processors

from clearhead.text.special_tokens import BARE, read_template

CLS, SEP = ("[CLS]", 0), ("[SEP]", 1)
BYTES = processors.ByteLevel(trim_offsets=True)
TEMPLATE = processors.TemplateProcessing(
    single="[CLS]:0 [CLS]:0 $A:0 [SEP]:0", pair="$A:2 [SEP]:1 $B:3 [CLS]:0", special_tokens=[CLS, SEP]
)


def bare(processor) -> tokenizers.Tokenizer:
    rust = tokenizers.Tokenizer(models.WordLevel({"[CLS]": 0, "[SEP]": 1, "a": 2, "b": 3}, unk_token="[SEP]"))
    rust.pre_tokenizer = pre_tokenizers.Whitespace()
    if processor is not None:
        rust.post_processor = processor
    return rust


@pytest.mark.parametrize(
    "processor",
    [
        None,
        BYTES,
        TEMPLATE,
        processors.BertProcessing(SEP, CLS),
        processors.RobertaProcessing(SEP, CLS),
        processors.Sequence([BYTES, TEMPLATE]),
        processors.Sequence([BYTES]),
    ],
    ids=lambda p: type(p).__name__,
)
def test_every_post_processor_is_read_as_the_library_applies_it(processor):
    rust = bare(processor)
    frame = read_template(rust)
    for pair in (False, True):
        wanted = rust.encode("a a a", "b b") if pair else rust.encode("a a a")
        texts = [[2, 2, 2], [3, 3]]
        ids, segments, parts = [], [], []
        for item in frame.items(pair):
            inside = [item.id] if item.part < 0 else texts[item.part]
            ids += inside
            segments += [item.segment] * len(inside)
            parts += [None if item.part < 0 else item.part] * len(inside)
        assert (ids, segments, parts) == (wanted.ids, wanted.type_ids, wanted.sequence_ids)
        assert frame.overhead(pair) == rust.num_special_tokens_to_add(pair)


def test_what_stands_before_and_after_a_text():
    frame = read_template(bare(TEMPLATE))
    assert frame.opening == (0, 0) and frame.closing == (1,)
    assert BARE.opening == BARE.closing == ()


@pytest.mark.parametrize(
    ("processor", "says"),
    [
        (processors.Sequence([TEMPLATE, TEMPLATE]), "2 nested templates"),
        (
            processors.TemplateProcessing(single="$A $A", pair="$A $B", special_tokens=[]),
            "each text must occur once",
        ),
        (processors.TemplateProcessing(single="$A", pair="$B $A", special_tokens=[]), "in order"),
    ],
)
def test_frames_that_cannot_be_followed_are_refused(processor, says):
    with pytest.raises(ValueError, match=says):
        read_template(bare(processor))
