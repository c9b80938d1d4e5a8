"""attn_implementation="clearhead": packed and padded batches equal SDPA's, in transformers' own models."""

from typing import Any

import pytest
import torch
import transformers

from tests.integrations.transformers.test_packing import LENGTHS, batch, build, values


@pytest.mark.parametrize("kind", ["bert", "roberta", "modernbert"])
def test_a_packed_batch_of_their_collator_equals_the_padded_batch(kind):
    model, inputs = build(kind, "token"), batch()
    plain = values(model(**inputs), inputs["attention_mask"])[0]
    rows = [{"input_ids": ids[:size].tolist()} for ids, size in zip(inputs["input_ids"], LENGTHS, strict=True)]
    start = 2 if kind == "roberta" else 0
    collator = transformers.DataCollatorWithFlattening(return_flash_attn_kwargs=True, position_ids_start=start)
    packed = collator(rows)
    packed.pop("labels")
    model.set_attn_implementation("clearhead")
    torch.testing.assert_close(model(**packed).logits[0], plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("kind", ["bert", "modernbert", "distilbert"])
def test_a_padded_batch_equals_sdpa(kind, left):
    model, inputs = build(kind), batch(left=left)
    plain = values(model(**inputs), inputs["attention_mask"])[0]
    model.set_attn_implementation("clearhead")
    torch.testing.assert_close(values(model(**inputs), inputs["attention_mask"])[0], plain, rtol=1e-4, atol=1e-5)
    full = {"input_ids": inputs["input_ids"]}
    model.set_attn_implementation("sdpa")
    plain = model(**full).last_hidden_state
    model.set_attn_implementation("clearhead")
    torch.testing.assert_close(model(**full).last_hidden_state, plain, rtol=1e-4, atol=1e-5)


def test_a_causal_model_with_grouped_heads_packs_and_generates():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=60, hidden_size=32, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, pad_token_id=1,
    )  # fmt: skip
    model: Any = transformers.LlamaForCausalLM(config).eval()
    inputs = batch(left=True)
    plain = values(model(**inputs), inputs["attention_mask"])[0]
    written = model.generate(**inputs, max_new_tokens=6, do_sample=False)
    model.set_attn_implementation("clearhead")
    torch.testing.assert_close(values(model(**inputs), inputs["attention_mask"])[0], plain, rtol=1e-4, atol=1e-5)
    assert torch.equal(model.generate(**inputs, max_new_tokens=6, do_sample=False), written)
    tokens = inputs["attention_mask"].bool()
    packed = {"input_ids": inputs["input_ids"][tokens].unsqueeze(0)}
    positions = torch.cat([torch.arange(size) for size in LENGTHS]).unsqueeze(0)
    offsets = torch.tensor([0, *LENGTHS]).cumsum(0).to(torch.int32)
    unpadded = [model(input_ids=row[keep].unsqueeze(0)).logits[0] for row, keep in zip(inputs["input_ids"], tokens)]
    for extra in ({"cu_seq_lens_q": offsets, "cu_seq_lens_k": offsets}, {}):
        found = model(**packed, position_ids=positions, use_cache=False, **extra).logits[0]
        torch.testing.assert_close(found, torch.cat(unpadded), rtol=1e-4, atol=1e-5)


def test_weights_are_not_returned_but_refused_with_the_way_to_read_them():
    model = build("bert")
    model.set_attn_implementation("clearhead")
    with pytest.raises(ValueError, match=r"clearhead\.look"):
        model(**batch(), output_attentions=True)
