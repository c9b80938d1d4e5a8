from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clearhead.attention import Layout
from clearhead.models import HeadConfig, ModelConfig, RecurrentConfig, TransformerConfig, build
from clearhead.studies import StudyCorpus, gradient
from clearhead.studies.gradient import GradientFlow, GradientResult, norms
from clearhead.tasks import Batch

REACH, LENGTH, COUNT = 4, 6, 3
HEAD = HeadConfig(kind="lm", width=8, vocab_size=11)
STACKS = {
    "gru": RecurrentConfig(kind="gru", vocab_size=11, width=8, hidden_size=8, dropout=0.3),
    "transformer": TransformerConfig(vocab_size=11, width=8, num_layers=2, num_heads=2, ffn_dim=16, dropout=0.3),
}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)  # so little work is not worth sharing


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text("".join(f"Line {n} says that {n} is {n * n}.\n" for n in range(400)))
    return tmp_path / "text.txt"


@pytest.mark.parametrize("kind", STACKS)
def test_the_norms_are_those_of_the_whole_jacobian(kind):
    model = build(ModelConfig(decoder=STACKS[kind], head=HEAD))
    ids, labels = torch.randint(11, (COUNT * LENGTH,)), torch.randint(11, (COUNT * LENGTH,))
    layout = Layout.from_lengths([LENGTH] * COUNT)
    found = norms(model, Batch(ids, layout, labels), REACH)

    assert model.decoder is not None
    embedding = model.decoder.embedding
    start = embedding(ids, layout).detach()  # the model is in eval mode by now

    def losses(x):
        hook = embedding.register_forward_hook(lambda *_: x)
        scores = model(ids, layout)
        hook.remove()
        return F.cross_entropy(scores, labels, reduction="none")

    jacobian = torch.autograd.functional.jacobian(losses, start).norm(dim=2)  # (N, N): loss, input
    for k in range(REACH + 1):
        each = [jacobian[i * LENGTH + t, i * LENGTH + t - k] for i in range(COUNT) for t in range(REACH, LENGTH)]
        assert found[k] == pytest.approx(float(torch.stack(each).mean()), rel=1e-3)


def test_the_study_end_to_end(text, tmp_path):
    corpus = StudyCorpus.from_file(text)
    assert (corpus.name, corpus.validation_rows) == ("text.txt", 20)
    sizes: dict[str, Any] = {"steps": 2, "width": 8, "reach": 12, "sequences": 4}
    measured = gradient.measure(corpus, tmp_path / "runs", **sizes)
    assert [flow.label for flow in measured.flows] == ["RNN", "GRU", "LSTM", "Transformer"]
    assert (measured.sequences, measured.reach) == (4, 12)
    for flow in measured.flows:
        assert len(flow.initial) == len(flow.trained) == 13
        assert min(flow.initial) > 0 and flow.initial != flow.trained
    rnn, transformer = measured.flows[0], measured.flows[-1]
    assert rnn.initial[12] / rnn.initial[1] < 0.01 < transformer.initial[12] / transformer.initial[1]
    assert gradient.measure(corpus, tmp_path / "runs", **sizes) == measured


def test_too_little_text_is_told(tmp_path):
    (tmp_path / "short.txt").write_text("".join(f"{n}\n" for n in range(300)))
    with pytest.raises(ValueError, match="under 108 tokens; give more text"):
        gradient.measure(StudyCorpus.from_file(tmp_path / "short.txt"), tmp_path / "runs", steps=1, width=8)


def test_the_picture():
    flows = tuple(GradientFlow(label, 10, (1.0, 0.1, 1e-20), (1.0, 0.5, 0.2), 2.0) for label in ("RNN", "Transformer"))
    before, after = gradient.draw(GradientResult(300, 2, 4, 8, flows)).axes
    for axes, values in ((before, flows[0].initial), (after, flows[0].trained)):
        assert [tuple(np.asarray(line.get_ydata())) for line in axes.lines] == [values, values]
        gone = " ↓" if axes is before else ""
        assert [text.get_text() for text in axes.texts] == [f"RNN{gone}", f"Transformer{gone}"]
        assert axes.get_yscale() == "log" and axes.get_ylim()[0] >= gradient.FLOOR / 2
    assert (before.get_title("left"), after.get_title("left")) == ("untrained", "after 300 steps")
