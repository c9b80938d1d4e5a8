"""`accelerate`: the same outputs and gradients without padding, on any head, and undone without a trace."""

import copy
import pickle
from typing import Any

import pytest
import torch
import transformers

from clearhead import look
from clearhead.integrations.transformers import accelerate

SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "pad_token_id": 1,
}
DISTIL = {"vocab_size": 60, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 40}
CONFIGS = {
    "bert": SIZES,
    "roberta": SIZES,
    "xlm-roberta": SIZES,
    "electra": {**SIZES, "embedding_size": 16},
    "modernbert": {**SIZES, "local_attention": 6, "global_attn_every_n_layers": 2},
    "distilbert": DISTIL,
    "albert": {**SIZES, "embedding_size": 16},
}
HEADS = {
    "base": "AutoModel",
    "sequence": "AutoModelForSequenceClassification",
    "token": "AutoModelForTokenClassification",
    "masked": "AutoModelForMaskedLM",
}
LENGTHS = (7, 3, 11, 1)


def build(kind: str, head: str = "base"):
    torch.manual_seed(3)
    special = (
        {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3} if kind == "modernbert" else {}
    )
    config = transformers.AutoConfig.for_model(kind, **CONFIGS[kind], **special)
    model = getattr(transformers, HEADS[head]).from_config(config).eval()
    for parameter in model.parameters():  # biases too: zeros would hide what padding adds
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def batch(*, left: bool = False) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 60, (len(LENGTHS), max(LENGTHS)), generator=draw)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(1)
    mask = mask.flip(1) if left else mask
    return {"input_ids": torch.where(mask, ids, 1), "attention_mask": mask.long()}


def values(output, mask: torch.Tensor) -> list[torch.Tensor]:
    """Returns the tensors of an output, of tokens without padding."""
    return [x[mask.bool()] if x.shape[:2] == mask.shape else x for x in output.values() if isinstance(x, torch.Tensor)]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("kind", CONFIGS)
def test_outputs_and_gradients_are_those_of_the_padded_model(kind, head):
    inputs, gradients, outputs = batch(), [], []
    for fast in (False, True):
        model = build(kind, head)
        if fast:
            accelerate(model)
        found = values(model(**inputs), inputs["attention_mask"])
        outputs.append(found)
        torch.stack([x.pow(2).sum() for x in found]).sum().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    for plain, packed in zip(*outputs, strict=True):
        torch.testing.assert_close(packed, plain, rtol=1e-4, atol=1e-5)
    assert gradients[0].keys() == gradients[1].keys()
    for name, plain in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], plain, rtol=1e-3, atol=1e-4 * float(plain.abs().max() + 1))


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_left_padding_and_given_positions_are_kept(kind):
    model, inputs = build(kind), batch(left=True)
    inputs["position_ids"] = (inputs["attention_mask"].cumsum(1) + 4).clamp(max=30)
    plain = values(model(**inputs), inputs["attention_mask"])[0]
    without = values(model(**{**inputs, "position_ids": None}), inputs["attention_mask"])[0]
    with accelerate(model):
        packed = values(model(**inputs), inputs["attention_mask"])[0]
        packed_without = values(model(**{**inputs, "position_ids": None}), inputs["attention_mask"])[0]
    torch.testing.assert_close(packed, plain, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(packed_without, without, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(plain, without, atol=1e-3)


def test_padding_is_not_computed():
    """The layers see as many tokens as the batch has, not its padding."""
    model, inputs, seen = build("bert"), batch(), []
    model.encoder.layer[0].register_forward_hook(lambda module, args, out: seen.append(args[0].shape[:2]))
    with accelerate(model):
        seen.clear()
        model(**inputs)
        model(**{**inputs, "attention_mask": torch.ones_like(inputs["attention_mask"])})
    assert seen == [(1, sum(LENGTHS)), (1, len(LENGTHS) * max(LENGTHS))]


def test_hidden_states_and_pooled_output_have_the_shape_of_the_batch():
    model, inputs = build("bert"), batch()
    plain = model(**inputs, output_hidden_states=True)
    with accelerate(model):
        packed = model(**inputs, output_hidden_states=True)
    tokens = inputs["attention_mask"].bool()
    for x, y in zip(plain.hidden_states, packed.hidden_states, strict=True):
        assert x.shape == y.shape
        torch.testing.assert_close(y[tokens], x[tokens], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(packed.pooler_output, plain.pooler_output, rtol=1e-4, atol=1e-5)


def test_undo_leaves_nothing():
    model, inputs = build("bert", "sequence"), batch()
    plain = model(**inputs).logits
    held = accelerate(model)
    assert model.config._attn_implementation == "clearhead"
    held.undo()
    assert model.config._attn_implementation == "sdpa"
    assert "forward" not in vars(model.base_model)
    assert torch.equal(model(**inputs).logits, plain)
    held.undo()  # a second time: nothing to do


def test_only_this_instance_changes():
    model, other = build("bert"), build("bert")
    with accelerate(model):
        assert other.config._attn_implementation == "sdpa"
        assert "forward" not in vars(other)
        with pytest.raises(ValueError, match="accelerated already"):
            accelerate(model)


@pytest.mark.parametrize("moved", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_is_accelerated_and_owns_its_weights(moved):
    model, inputs = build("bert"), batch()
    accelerate(model)
    other = moved(model)
    plain = model(**inputs).last_hidden_state
    torch.testing.assert_close(other(**inputs).last_hidden_state, plain)
    with torch.no_grad():
        other.embeddings.word_embeddings.weight.zero_()
    assert not torch.allclose(other(**inputs).last_hidden_state, plain)
    torch.testing.assert_close(model(**inputs).last_hidden_state, plain)


def test_what_cannot_be_packed_is_refused_and_left_alone():
    torch.manual_seed(0)
    sizes = {name: value for name, value in SIZES.items() if name != "pad_token_id"}
    mpnet = transformers.AutoModel.from_config(transformers.AutoConfig.for_model("mpnet", **sizes))
    with pytest.raises(ValueError, match="attention interface"):
        accelerate(mpnet)
    decoder = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model("bert", **sizes, is_decoder=True)
    )
    with pytest.raises(ValueError, match="only encoders"):
        accelerate(decoder)
    strange = ReadsTheMiddle(transformers.BertConfig(**SIZES)).eval()
    before = strange(**batch()).last_hidden_state
    with pytest.raises(ValueError, match="left as it was"):
        accelerate(strange)
    assert strange.config._attn_implementation == "sdpa"
    assert torch.equal(strange(**batch()).last_hidden_state, before)


class ReadsTheMiddle(transformers.BertModel):
    """An encoder whose output depends on the third column of its input, wherever that is."""

    def forward(self, *args, **inputs):
        output: Any = super().forward(*args, **inputs)
        output.last_hidden_state = output.last_hidden_state + output.last_hidden_state[:, 2:3]
        return output


def test_look_shows_the_maps_of_each_sequence():
    model, inputs = build("bert"), batch()
    with look(model) as plain:
        model(**inputs)
    with accelerate(model), look(model) as packed:
        model(**inputs)
    for i, size in enumerate(LENGTHS):
        expected = plain["encoder.0"].rows(range(size), head=1, sequence=i)[:, :size]
        torch.testing.assert_close(
            packed["encoder.0"].rows(range(size), head=1, sequence=i), expected, rtol=1e-4, atol=1e-6
        )
