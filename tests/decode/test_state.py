"""Whatever a search does, a state gives the scores that the whole model gives for each hypothesis as it stands."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.attention import Layout, ablate_heads
from clearhead.decode import state as states
from clearhead.decode.fused_decoder import unsupported_reason
from clearhead.decode.state import initial_state
from clearhead.models import HeadConfig, Model, ModelConfig, TransformerStack, build
from clearhead.models.heads import LMHead
from clearhead.models.recurrent import RecurrentConfig
from tests.decode.cases import TRANSLATORS, made

KINDS = ["marian", "bart", "t5", "gpt2", "llama", "mistral", "additive", "lstm"]


def model_of(kind: str) -> Model:
    if kind in ("additive", "lstm"):
        torch.manual_seed(1)
        encoder = RecurrentConfig(vocab_size=61, width=12, hidden_size=10, bidirectional=True)
        decoder = RecurrentConfig(vocab_size=61, width=12, hidden_size=14, num_layers=2, kind="lstm",
                                  attention="additive" if kind == "additive" else "none", input_feeding=kind == "additive")  # fmt: skip
        head = HeadConfig(kind="lm", width=12, vocab_size=61)
        return build(ModelConfig(encoder=encoder if kind == "additive" else None, decoder=decoder, head=head)).eval()
    return made(kind)[1].model


def whole(model: Model, sources: list[list[int]], texts: list[list[list[int]]]) -> torch.Tensor:
    """The scores after the last token of every hypothesis, from one pass over all of them."""
    rows = [(s, t) for s, many in zip(sources, texts, strict=True) for t in many]
    source = torch.tensor([i for s, _ in rows for i in s], dtype=torch.int64)
    target = torch.tensor([i for s, t in rows for i in (t if model.encoder is not None else [*s, *t])])
    sizes = [len(t) if model.encoder is not None else len(s) + len(t) for s, t in rows]
    layout = Layout.from_lengths(sizes)
    if model.encoder is None:
        out = model(target, layout)
    else:
        out = model(source, Layout.from_lengths([len(s) for s, _ in rows]), target, layout)
    return out[layout.offsets[1:] - 1]


def walk(model: Model, sources: list[list[int]], draw: np.random.Generator, steps: int) -> None:
    """Steps with hypotheses that fork, die and leave at random, each held against the whole model."""
    with torch.inference_mode():
        ids = torch.tensor([i for s in sources for i in s], dtype=torch.int64)
        state = initial_state(model, ids, Layout.from_lengths([len(s) for s in sources]))
        texts = [[[]] for _ in sources]
        for _ in range(steps):
            new = [[int(draw.integers(3, 60)) for _ in many] for many in texts]
            texts = [[[*t, n] for t, n in zip(many, more, strict=True)] for many, more in zip(texts, new, strict=True)]
            got = state.step(torch.tensor([n for more in new for n in more]))
            torch.testing.assert_close(got, whole(model, sources, texts), atol=2e-4, rtol=1e-4)  # worst seen 4e-5
            alive = draw.permutation(len(texts))[: max(1, len(texts) - int(draw.integers(0, 2)))]
            width = int(draw.integers(1, 5))
            parents = draw.integers(0, len(texts[0]), (len(alive), width))
            state.select(alive, parents)
            sources = [sources[i] for i in alive]
            texts = [[texts[i][p] for p in row] for i, row in zip(alive, parents, strict=True)]


@pytest.mark.parametrize("modules", [False, True], ids=["fused", "modules"])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32), sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_any_walk_equals_the_whole_model(kind, modules, seed, sizes):
    model = model_of(kind)
    if model.encoder is not None:
        sizes = [n + 1 for n in sizes]
    draw = np.random.default_rng(seed)
    sources = [draw.integers(3, 60, n).tolist() for n in sizes]
    with pytest.MonkeyPatch.context() as patch:
        if modules:
            patch.setattr(states, "unsupported_reason", lambda *_: "asked to")
        walk(model, sources, draw, 7)


def test_the_fused_decoder_is_used_unless_there_are_hooks():
    model = model_of("marian")
    assert isinstance(model.decoder, TransformerStack) and isinstance(model.head, LMHead)
    args = (model.decoder, model.head, torch.float32, torch.device("cpu"))
    with torch.inference_mode():
        assert unsupported_reason(*args) is None
        with ablate_heads(model, {"decoder.1": [0]}):
            reason = unsupported_reason(*args)
            assert reason is not None and "AttentionCore has forward hooks" in reason
    reason = unsupported_reason(*args)
    assert reason is not None and "inference" in reason


@pytest.mark.parametrize("kind", TRANSLATORS)
def test_bfloat16_is_fused_too(kind):
    """The same walk in bfloat16: as near as its eight bits allow."""
    import copy

    model = copy.deepcopy(model_of(kind)).to(torch.bfloat16)
    ids, layout = torch.arange(3, 12), Layout.from_lengths([4, 5])
    rows = torch.tensor([7, 7, 8, 9, 9, 30])
    with torch.inference_mode(), pytest.MonkeyPatch.context() as patch:
        outs = []
        for fused in (True, False):
            if not fused:
                patch.setattr(states, "unsupported_reason", lambda *_: "asked to")
            state = initial_state(model, ids, layout)
            state.step(torch.tensor([3, 4]))
            state.select(np.array([0, 1]), np.zeros((2, 3), dtype=np.int64))
            outs.append(state.step(rows).float())
    assert (outs[0] - outs[1]).abs().max() < 0.05 * outs[0].abs().max()


def test_a_model_without_decoder_is_refused():
    from clearhead.models import PRESETS

    with pytest.raises(ValueError, match="no decoder"):
        initial_state(
            build(ModelConfig(encoder=PRESETS["tiny"])), torch.zeros(1, dtype=torch.int64), Layout.from_lengths([1])
        )
