"""Recurrent encoders and decoders: whole = step by step = alone, attention by hand, no leaks, what cannot be."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.attention import KVCache, Layout, ablate_heads
from clearhead.attention.capture import look
from clearhead.models import (
    HeadConfig,
    Model,
    ModelConfig,
    RecurrentConfig,
    RecurrentDecoder,
    RecurrentEncoder,
    TransformerConfig,
    build,
)
from clearhead.models.recurrent import RecurrentBlock
from tests.parts import gradient, output_layer, token_table

KINDS = ("rnn", "lstm", "gru")
FORMS = [("none", False), *((a, f) for a in ("additive", "dot", "general") for f in (False, True))]
ATTENDING = FORMS[1:]
ENCODER = RecurrentConfig(vocab_size=20, width=6, hidden_size=5, bidirectional=True, dropout=0.0)
DECODER = RecurrentConfig(vocab_size=20, width=6, hidden_size=10, dropout=0.0)


def translator(kind="gru", attention="additive", feed=False, layers=1, *, both=True, dtype=torch.float64, seed=0):
    """A small encoder-decoder with weights large enough to matter."""
    torch.manual_seed(seed)
    hidden = 10 if attention == "dot" else 7
    encoder = replace(ENCODER, kind=kind, num_layers=layers, bidirectional=both, hidden_size=5 if both else 10)
    decoder = replace(
        DECODER, kind=kind, num_layers=layers, attention=attention, input_feeding=feed, hidden_size=hidden
    )
    head = HeadConfig(kind="lm", width=6, vocab_size=20)
    model = build(ModelConfig(encoder=encoder, decoder=decoder, head=head)).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return model


def stacks(model: Model) -> tuple[RecurrentEncoder, RecurrentDecoder]:
    assert isinstance(model.encoder, RecurrentEncoder) and isinstance(model.decoder, RecurrentDecoder)
    return model.encoder, model.decoder


def block_of(decoder: torch.nn.Module | None) -> RecurrentBlock:
    assert isinstance(decoder, RecurrentDecoder)
    block = decoder.blocks[0]
    assert isinstance(block, RecurrentBlock)
    return block


def batch(source, target, seed=0):
    torch.manual_seed(seed)
    a, b = Layout.from_lengths(source), Layout.from_lengths(target)
    return torch.randint(20, (a.num_tokens,)), a, torch.randint(20, (b.num_tokens,)), b


def by_steps(decoder, ids, layout, memory, memory_layout):
    """The same as the decoder's forward, one token of every sequence at a time."""
    empty = decoder.start is None
    states = decoder.begin_empty(layout.num_sequences) if empty else decoder.begin(memory, memory_layout)
    out = [[] for _ in layout.host_lengths]
    for t in range(layout.max_len):
        running = [i for i, n in enumerate(layout.host_lengths) if n > t]
        tokens = torch.stack([ids[int(layout.offsets[i]) + t] for i in running])
        rows = Layout.from_lengths([int(n > t) for n in layout.host_lengths])
        x, new = decoder.step(tokens, tuple(s[running] for s in states), memory, memory_layout, rows)
        states = tuple(s.index_copy(0, torch.tensor(running), n) for s, n in zip(states, new, strict=True))
        for i, row in zip(running, x, strict=True):
            out[i].append(row)
    return torch.stack([row for rows in out for row in rows])


def test_roles():
    """Acceptor, transducer, language model, encoder-decoder: shapes of what they answer."""
    ids, layout, target, target_layout = batch([3, 5], [2, 4])
    sequence = HeadConfig(kind="sequence", width=10, labels=("a", "b", "c"), pool="bidirectional_last")
    assert build(ModelConfig(encoder=ENCODER, head=sequence))(ids, layout).shape == (2, 3)
    token = HeadConfig(kind="token", width=10, labels=("a", "b"))
    assert build(ModelConfig(encoder=ENCODER, head=token))(ids, layout).shape == (8, 2)
    words = HeadConfig(kind="lm", width=6, vocab_size=20)
    assert build(ModelConfig(decoder=DECODER, head=words))(ids, layout).shape == (8, 20)
    assert translator(dtype=torch.float32)(ids, layout, target, target_layout).shape == (6, 20)
    assert build(ModelConfig(encoder=ENCODER)).hidden_states(ids, layout).shape == (8, 10)
    assert block_of(build(ModelConfig(decoder=replace(DECODER, hidden_size=6))).decoder).output is None


@settings(max_examples=60)
@given(
    st.sampled_from(KINDS),
    st.sampled_from(FORMS),
    st.integers(1, 2),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=4).filter(
        lambda s: any(t for _, t in s)
    ),
    st.booleans(),
)
def test_whole_is_step_by_step(kind, form, layers, both, sizes, remembered):
    attention, feed = form
    encoder, decoder = stacks(translator(kind, attention, feed, layers, both=both, dtype=torch.float32))
    ids, source, target, layout = batch([a for a, _ in sizes], [b for _, b in sizes])
    with torch.no_grad():
        memory = encoder(ids, source)
        whole = decoder(target, layout, memory=memory, memory_layout=source)
        held = decoder.cache_keys(memory) if remembered else memory
        assert held.shape[0] == source.num_tokens
        torch.testing.assert_close(by_steps(decoder, target, layout, held, source), whole, atol=1e-5, rtol=0)
        again = decoder(target, layout, memory=held, memory_layout=source)
        torch.testing.assert_close(again, whole, atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_language_model_step_by_step(kind):
    torch.manual_seed(0)
    decoder = RecurrentDecoder(replace(DECODER, kind=kind, num_layers=2)).eval()
    ids, layout, _, _ = batch([4, 1, 6], [])
    with torch.no_grad():
        whole = decoder(ids, layout)
        torch.testing.assert_close(by_steps(decoder, ids, layout, None, None), whole, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("attention", "feed"), FORMS)
def test_hypotheses_of_one_sentence_are_neighbours(attention, feed):
    """Three of the first source, none of the second, two of the third: each as if it were alone."""
    encoder, decoder = stacks(translator("lstm", attention, feed, 2))
    ids, source, tokens, _ = batch([4, 2, 3], [5])
    owners = [0, 0, 0, 2, 2]
    with torch.no_grad():
        memory = encoder(ids, source)
        states = tuple(torch.randn_like(s[owners]) for s in decoder.begin(memory, source))
        x, new = decoder.step(tokens, states, memory, source, Layout.from_lengths([3, 0, 2]))
        for row, owner in enumerate(owners):
            one = slice(row, row + 1)
            mine = (
                memory[source.rows(owner)],
                Layout.from_lengths([source.host_lengths[owner]]),
                Layout.from_lengths([1]),
            )
            alone, after = decoder.step(tokens[one], tuple(s[one] for s in states), *mine)
            torch.testing.assert_close(x[one], alone, atol=1e-12, rtol=0)
            for a, b in zip(new, after, strict=True):
                torch.testing.assert_close(a[one], b, atol=1e-12, rtol=0)


@pytest.mark.parametrize(("attention", "feed"), FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_its_sequences_one_by_one(kind, attention, feed):
    model = translator(kind, attention, feed, 2)
    ids, source, target, layout = batch([3, 0, 5, 1], [4, 2, 1, 6])
    with torch.no_grad():
        together = layout.split(model(ids, source, target, layout))
        for i, part in enumerate(together):
            sizes = Layout.from_lengths([source.host_lengths[i]]), Layout.from_lengths([layout.host_lengths[i]])
            alone = model(ids[source.rows(i)], sizes[0], target[layout.rows(i)], sizes[1])
            torch.testing.assert_close(part, alone, atol=1e-12, rtol=0)


@pytest.mark.parametrize(("attention", "feed"), FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_a_plain_loop(kind, attention, feed):
    model = translator(kind, attention, feed, 2)
    encoder, decoder = stacks(model)
    ids, source, target, layout = batch([3, 5, 0, 1], [4, 2, 3, 0])
    weights = torch.randn(9, 6, dtype=torch.float64)
    gradients = []
    for run in ("whole", "steps"):
        model.zero_grad()
        memory = encoder(ids, source)
        if run == "whole":
            out = decoder(target, layout, memory=memory, memory_layout=source)
        else:
            out = by_steps(decoder, target, layout, memory, source)
        (out * weights).sum().backward()
        gradients.append({n: gradient(p).clone() for n, p in model.named_parameters() if not n.startswith("head")})
    for name, grad in gradients[0].items():
        torch.testing.assert_close(grad, gradients[1][name], atol=1e-11, rtol=0)
        assert grad.any() or name.endswith("embedding.tokens.weight"), f"{name} learns nothing"


@pytest.mark.parametrize(("attention", "feed"), FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_the_future(kind, attention, feed):
    """A token changes what comes after it, and before it not a bit."""
    model = translator(kind, attention, feed, dtype=torch.float32)
    ids, source, target, layout = batch([4, 3], [6, 5])
    other = target.clone()
    other[3] = (other[3] + 1) % 20
    with torch.no_grad():
        same = (model(ids, source, target, layout) == model(ids, source, other, layout)).all(1).tolist()
    assert same == [True] * 3 + [False] * 3 + [True] * 5


@pytest.mark.parametrize(("attention", "feed"), FORMS)
def test_the_bottleneck(attention, feed):
    """Without attention a decoder knows the two ends of the source and nothing between them; with it, everything."""
    encoder, decoder = stacks(translator("gru", attention, feed))
    ids, source, target, layout = batch([5], [3])
    with torch.no_grad():
        memory = encoder(ids, source)
        between = memory.clone()
        between[2] += 1.0
        a, b = (decoder(target, layout, memory=m, memory_layout=source) for m in (memory, between))
    assert torch.equal(a, b) == (attention == "none")


def test_the_first_state_by_hand():
    """tanh of a linear map of the forward state at the last token and the backward state at the first."""
    encoder, decoder = stacks(translator("lstm", layers=2))
    assert decoder.start is not None
    ids, source, _, _ = batch([4, 0, 2], [])
    memory = encoder(ids, source)
    state, cell = decoder.begin(memory, source)
    assert state.shape == cell.shape == (3, 2, 7)
    for i, part in enumerate(source.split(memory)):
        ends = torch.cat([part[-1, :5], part[0, 5:]]) if len(part) else torch.zeros(10, dtype=torch.float64)
        for made, linear in zip((state, cell), decoder.start.maps, strict=True):
            torch.testing.assert_close(made[i].flatten(), torch.tanh(linear(ends)))


def by_hand(model, ids, target):
    """One sentence through a decoder with feeding, from its parameters alone: outputs (T, D) and weights (T, S)."""
    encoder, decoder = stacks(model)
    memory, block = encoder(ids, Layout.from_lengths([len(ids)])), block_of(decoder)
    assert block.cross is not None
    score: Any = block.cross.core.score
    net: Any = block.recurrent.net
    (state,) = decoder.begin(memory, Layout.from_lengths([len(ids)]))
    state = state[0, 0]
    rates = {
        "Additive": lambda s, h: torch.tanh(s @ score.query[0] + h @ score.key[0]) @ score.weight[0],
        "Dot": lambda s, h: s @ h,
        "General": lambda s, h: s @ score.weight[0] @ h,
    }
    outputs, alignments = [], []
    for token in target:
        scores = torch.stack([rates[type(score).__name__](state, h) for h in memory])
        weights = scores.exp() / scores.exp().sum()
        context = sum((w * h for w, h in zip(weights, memory, strict=True)), torch.zeros_like(memory[0]))
        word = decoder.embedding.tokens.weight[token] * math.sqrt(6)
        i = net.weight_ih_l0 @ torch.cat([word, context]) + net.bias_ih_l0
        h = net.weight_hh_l0 @ state + net.bias_hh_l0
        size = len(state)
        reset, keep = torch.sigmoid(i[:size] + h[:size]), torch.sigmoid(i[size : 2 * size] + h[size : 2 * size])
        new = torch.tanh(i[2 * size :] + reset * h[2 * size :])
        state = (1 - keep) * new + keep * state
        outputs.append(torch.tanh(block.cross.output(torch.cat([context, state]))))
        alignments.append(weights)
    return torch.stack(outputs), torch.stack(alignments)


@pytest.mark.parametrize("attention", ["additive", "dot", "general"])
def test_feeding_by_hand(attention):
    """Bahdanau's decoder as a plain loop: the same outputs, and the weights that `look` shows."""
    model = translator("gru", attention, True)
    ids, source, target, layout = batch([5, 3], [4, 6])
    with torch.no_grad(), look(model) as seen:
        got = model.hidden_states(ids, source, target, layout)
    assert list(seen) == ["decoder.0.cross"] and len(seen.calls("decoder.0.cross")) == 1
    for i in range(2):
        outputs, weights = by_hand(model, ids[source.rows(i)], target[layout.rows(i)])
        torch.testing.assert_close(layout.split(got)[i], outputs, atol=1e-12, rtol=0)
        torch.testing.assert_close(seen["decoder.0.cross"].head(0, i), weights.detach(), atol=1e-12, rtol=0)


@pytest.mark.parametrize(("attention", "feed"), ATTENDING)
@pytest.mark.parametrize("kind", KINDS)
def test_looking(kind, attention, feed):
    """Every row of weights sums to 1, what they gather is in the output, and looking changes nothing."""
    model = translator(kind, attention, feed)
    ids, source, target, layout = batch([4, 2, 5], [3, 6, 0])
    want = model.hidden_states(ids, source, target, layout)
    with look(model, kinds=["cross"]) as seen:
        assert torch.equal(model.hidden_states(ids, source, target, layout), want)
    view = seen["decoder.0.cross"]
    encoder, decoder = stacks(model)
    memory, block = encoder(ids, source), block_of(decoder)
    assert block.cross is not None
    for i in range(2):
        weights = view.head(0, i)
        assert weights.shape == (layout.host_lengths[i], source.host_lengths[i])
        torch.testing.assert_close(weights.sum(1), torch.ones(layout.host_lengths[i], dtype=torch.float64))
        context = weights @ memory[source.rows(i)]
        part = torch.linalg.norm(block.cross.output.weight[:, :10] @ memory[source.rows(i)].T, dim=0)
        torch.testing.assert_close(view.norms(0, i), part)
        if not feed:
            states = block.recurrent(decoder.embedding(target, layout), layout, decoder.begin(memory, source))
            said = torch.cat([context, layout.split(states[0])[i]], 1)
            torch.testing.assert_close(torch.tanh(block.cross.output(said)), layout.split(want)[i])


@pytest.mark.parametrize(("attention", "feed"), ATTENDING)
def test_without_attention_the_context_is_zero(attention, feed):
    """Switched off, whatever the source says beyond the first states is gone, in the recurrence too."""
    model = translator("gru", attention, feed)
    encoder, decoder = stacks(model)
    ids, source, target, layout = batch([4, 2], [3, 5])
    memory = encoder(ids, source)
    changed = memory.clone()
    changed[1] += 1.0  # between the ends of the first source
    with torch.no_grad():
        want = decoder(target, layout, memory=memory, memory_layout=source)
        with ablate_heads(model, {"decoder.0.cross": "all"}):
            off = decoder(target, layout, memory=memory, memory_layout=source)
            still = decoder(target, layout, memory=changed, memory_layout=source)
            steps = by_steps(decoder, target, layout, memory, source)
        assert torch.equal(decoder(target, layout, memory=memory, memory_layout=source), want)
    assert not torch.allclose(off, want) and torch.equal(off, still)
    torch.testing.assert_close(off, steps, atol=1e-12, rtol=0)
    with look(model) as seen, ablate_heads(model, {"decoder.0.cross": [0]}):
        decoder(target, layout, memory=memory, memory_layout=source)
    assert [view.shape(1) for view in seen.calls("decoder.0.cross")] == [(5, 2)], "one map, of whole sequences"


@pytest.mark.parametrize(("attention", "feed"), FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_autocast_trains(kind, attention, feed):
    model = translator(kind, attention, feed, 2, dtype=torch.float32).train()
    ids, source, target, layout = batch([4, 0, 2], [3, 5, 1])
    want = model(ids, source, target, layout)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(ids, source, target, layout)
    out.float().logsumexp(1).sum().backward()
    assert (out - want).abs().max() < 0.05  # measured: 0.017
    assert all(gradient(p).isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(("attention", "feed"), FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_empty_batches_run_backward(kind, attention, feed):
    model = translator(kind, attention, feed)
    for source, target in (([], []), ([0, 0], [0, 0]), ([0, 0], [1, 2]), ([3, 1], [0, 0])):
        ids, a, tokens, b = batch(source, target)
        model.zero_grad()
        out = model(ids, a, tokens, b)
        assert out.shape == (sum(target), 20) and out.isfinite().all()
        out.sum().backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_embeddings_are_shared_unless_told():
    shared = translator()
    assert token_table(shared.encoder) is token_table(shared.decoder)
    assert output_layer(shared.head).weight is token_table(shared.decoder).weight
    other = replace(DECODER, vocab_size=30)
    apart = build(ModelConfig(encoder=ENCODER, decoder=other, shared_embedding=False))
    assert token_table(apart.decoder).num_embeddings == 30


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "sru"}, "kind is 'sru': choose rnn, lstm, gru"),
        ({"kind": ["gru"]}, r"kind is \['gru'\]"),
        ({"attention": "scaled"}, "attention is 'scaled': choose none, additive, dot, general"),
        ({"width": 0}, "width is 0: it must be an integer from 1"),
        ({"hidden_size": 2**40}, "hidden_size is 1099511627776"),
        ({"num_layers": True}, "num_layers is True"),
        ({"vocab_size": "20"}, "vocab_size is '20'"),
        ({"bidirectional": 1}, "bidirectional is 1: it must be true or false"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"dropout": float("nan")}, "dropout is nan"),
        ({"dropout": "0"}, "dropout is '0'"),
        ({"input_feeding": True}, "input_feeding needs attention"),
    ],
)
def test_settings_that_cannot_be(changes, words):
    with pytest.raises(ValueError, match=words):
        replace(ENCODER, **changes)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"decoder": replace(DECODER, bidirectional=True)}, "would read the tokens it is to predict"),
        ({"decoder": replace(DECODER, attention="dot")}, "has no source to attend to"),
        ({"encoder": replace(ENCODER, attention="dot")}, "only decoders attend"),
        (
            {"encoder": ENCODER, "decoder": replace(DECODER, attention="dot", hidden_size=7)},
            "set hidden_size=10, or use 'general'",
        ),
        ({"encoder": ENCODER, "decoder": replace(DECODER, width=8)}, "cannot share token embeddings"),
        (
            {"encoder": ENCODER, "head": HeadConfig(kind="token", width=6, labels=("a",))},
            r"use HeadConfig\(width=10\)",
        ),
        (
            {"encoder": TransformerConfig(width=8, num_layers=1, num_heads=1, ffn_dim=8), "decoder": DECODER},
            "make both the same kind",
        ),
    ],
)
def test_parts_that_do_not_go_together(parts, words):
    with pytest.raises(ValueError, match=words):
        build(ModelConfig(**parts))


def test_calls_that_cannot_be():
    (encoder, decoder), alone = stacks(translator()), RecurrentDecoder(DECODER)
    ids, layout, _, _ = batch([3], [])
    memory = encoder(ids, layout)
    with pytest.raises(ValueError, match="has no key-value cache"):
        alone(ids, layout, cache=KVCache(1, 1))
    with pytest.raises(ValueError, match="needs `memory`"):
        decoder(ids, layout)
    with pytest.raises(ValueError, match="needs `memory`"):
        decoder.step(ids, decoder.begin(memory, layout), None, None, Layout.from_lengths([3]))
    with pytest.raises(ValueError, match="use `begin_empty`"):
        alone.begin(memory, layout)
    with pytest.raises(ValueError, match="use `begin` with it"):
        decoder.begin_empty(2)
    with pytest.raises(ValueError, match="no segment embeddings"):
        RecurrentEncoder(ENCODER)(ids, layout, segments=ids)
    for stack in (alone, RecurrentEncoder(ENCODER)):
        with pytest.raises(ValueError, match="starts at position 4, but a recurrent net reads from the first token"):
            stack(ids, Layout.from_lengths([3], starts=[4]))


def test_dropout_in_training_alone():
    model = build(ModelConfig(encoder=replace(ENCODER, dropout=0.5), decoder=replace(DECODER, dropout=0.5)))
    args = batch([4], [5])
    assert not torch.equal(model(*args), model(*args))
    model.eval()
    assert torch.equal(model(*args), model(*args))
