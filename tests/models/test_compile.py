"""The model compiles once: new batch shapes are not new graphs."""

from dataclasses import replace

import pytest
import torch

from clearhead.attention import Layout
from clearhead.attention.capture import look
from clearhead.models import TransformerConfig, build_encoder_decoder

CONFIG = TransformerConfig(vocab_size=60, width=32, num_layers=2, num_heads=4, ffn_dim=48, dropout=0.0)


class Counter:
    """A compiler that counts the graphs it is given and runs them as they are."""

    def __init__(self, inner: str) -> None:
        self.graphs, self.inner = 0, inner

    def __call__(self, graph, inputs):
        self.graphs += 1
        return torch._dynamo.lookup_backend(self.inner)(graph, inputs)


def batches(count):
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        n = int(torch.randint(2, 9, (), generator=generator))
        source = torch.randint(1, 50, (n,), generator=generator).tolist()
        target = torch.randint(1, 40, (n,), generator=generator).tolist()
        yield (
            torch.randint(60, (sum(source),), generator=generator), Layout.from_lengths(source),
            torch.randint(60, (sum(target),), generator=generator), Layout.from_lengths(target),
        )  # fmt: skip


@pytest.mark.parametrize(
    "positions", ["rotary", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sinusoidal", "t5", "alibi"))]
)
def test_one_graph_for_all_shapes(positions):
    torch._dynamo.reset()
    model = build_encoder_decoder(replace(CONFIG, positions=positions, num_kv_heads=2))
    counter = Counter("aot_eager")
    compiled = torch.compile(model, dynamic=True, backend=counter, fullgraph=True)
    graphs = []
    for batch in batches(15):
        found = []
        for run in (model, compiled):
            out = run(*batch)
            found.append([out, *torch.autograd.grad(out.square().sum(), list(model.parameters()))])
        for got, want in zip(found[1], found[0], strict=True):
            torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)
        graphs.append(counter.graphs)
    # the first shape may be traced twice, when a number in it turns out to be constant; no other shape is traced at all
    assert graphs == graphs[:1] * 15
    assert graphs[0] <= 2


@pytest.mark.slow
def test_inductor_too():
    torch._dynamo.reset()
    model = build_encoder_decoder(replace(CONFIG, num_layers=1)).eval()
    counter = Counter("inductor")
    compiled = torch.compile(model, dynamic=True, backend=counter, fullgraph=True)
    graphs = []
    with torch.no_grad():
        for batch in batches(6):
            torch.testing.assert_close(compiled(*batch), model(*batch), atol=1e-5, rtol=1e-4)
            graphs.append(counter.graphs)
    assert graphs == graphs[:1] * 6


@pytest.mark.slow
def test_dropout_inside_a_graph():
    torch._dynamo.reset()
    model = build_encoder_decoder(replace(CONFIG, attention_dropout=0.5))
    compiled = torch.compile(model, dynamic=True, backend="aot_eager", fullgraph=True)
    batch = next(iter(batches(1)))
    torch.manual_seed(1)
    one = compiled(*batch)
    two = compiled(*batch)
    torch.manual_seed(1)
    again = compiled(*batch)
    assert torch.equal(one, again)
    assert not torch.equal(one, two)


@pytest.mark.slow
def test_looking_into_a_compiled_model():
    torch._dynamo.reset()
    model = build_encoder_decoder(CONFIG).eval()
    compiled = torch.compile(model, dynamic=True, backend="aot_eager")
    assert isinstance(compiled, torch.nn.Module)
    batch = next(iter(batches(1)))
    with torch.no_grad():
        before = compiled(*batch)
        with look(compiled) as seen, look(model) as same:
            inside = compiled(*batch)
    torch.testing.assert_close(inside, before, atol=1e-5, rtol=1e-5)
    assert list(seen) == list(same)
    assert torch.equal(seen["decoder.1.cross"].head(2), same["decoder.1.cross"].head(2))
    torch.testing.assert_close(compiled(*batch), before, atol=1e-5, rtol=1e-5)
