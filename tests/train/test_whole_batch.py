"""Cached gradients: the gradient of a loss over a whole batch does not depend on how the batch is divided."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from clearhead.data import Rows
from clearhead.data.rows import Row
from clearhead.distributed import Distributed
from clearhead.hub.sentence import SentenceConfig
from clearhead.models import Model, build
from clearhead.tasks import Embed, TaskConfig
from clearhead.text import Tokenizer, train_tokenizer
from clearhead.train.loop import TrainingJob, make_batches, step
from clearhead.train.optimizer import make_optimizer
from clearhead.train.prefetch import StepParts, read_batches
from clearhead.train.recipe import OptimizerConfig, TrainConfig
from clearhead.train.signals import SignalGuard

WORDS = ["amber", "bread", "cloud", "delta", "eagle", "field", "grape", "honey", "ivory", "jewel"]


def pairs(count: int, negatives: int = 0) -> Rows:
    rng = np.random.default_rng(0)

    def text() -> str:
        return " ".join(rng.choice(WORDS, size=rng.integers(1, 12)))

    rows = [{"anchor": text(), "positive": text()} | ({"negative": text()} if negatives else {}) for _ in range(count)]
    return Rows(lambda: (Row(values, "rows", i) for i, values in enumerate(rows, 1)))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    path = tmp_path_factory.mktemp("text") / "words.txt"
    path.write_text("\n".join(WORDS * 20))
    return train_tokenizer(path, template="bert", vocab_size=60)


def make(tokenizer: Tokenizer, negatives: int = 0, dropout: float = 0.1) -> tuple[Embed, Model, dict]:
    columns = ("anchor", "positive", "negative")[: 2 + negatives]
    task = Embed(tokenizer, TaskConfig(max_len=32, columns=columns, embedding=SentenceConfig(normalize=True)))
    torch.manual_seed(0)
    sizes = {"width": 16, "num_layers": 2, "num_heads": 2, "ffn_dim": 32, "dropout": dropout}
    return task, build(task.config(sizes)), dict(task.encode(pairs(24, negatives))[0])


def gradients(task: Embed, model: Model, columns: dict, accumulation: int) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss and the weights after one step of plain SGD with learning rate 1."""
    optimizer = OptimizerConfig(kind="sgd", lr=1.0, momentum=0.0, clip=None)
    settings = TrainConfig(steps=1, batch_examples=12, gradient_accumulation=accumulation, optimizer=optimizer,
                           dtype="float32")  # fmt: skip
    model = copy.deepcopy(model)
    job = TrainingJob(task, model, columns, settings, 0, Path())
    examples = make_batches(task, columns, settings).batch(0, 0)
    inputs = read_batches(task, columns, StepParts.of(task, columns, examples, settings), 0)
    loss, _, _ = step(job, make_optimizer(model, optimizer), inputs, 0, Distributed(), SignalGuard())
    return loss, {name: p.detach() for name, p in model.named_parameters()}


@pytest.mark.parametrize("negatives", [0, 1])
@pytest.mark.parametrize("accumulation", [2, 3, 12, 20])
def test_parts_do_not_change_the_gradient(tokenizer, accumulation, negatives):
    task, model, columns = make(tokenizer, negatives, dropout=0.0)
    loss, weights = gradients(task, model, columns, 1)
    in_parts, same = gradients(task, model, columns, accumulation)
    assert in_parts == pytest.approx(loss, abs=1e-6)
    for name, weight in weights.items():
        torch.testing.assert_close(same[name], weight, atol=1e-6, rtol=1e-5, msg=name)


def test_one_part_is_the_plain_loss(tokenizer):
    task, model, columns = make(tokenizer)
    batch = task.collate(columns, np.arange(12))
    model.eval()
    want = task.loss(model, batch)
    vectors = task.vectors(model, batch).detach()
    torch.testing.assert_close(task.vectors_loss(vectors, batch), want)


def test_dropout_is_the_same_in_both_passes(tokenizer):
    """With gradient accumulation a part is computed twice: the same random numbers must come again."""
    task, model, columns = make(tokenizer)
    first = gradients(task, model, columns, 3)
    again = gradients(task, model, columns, 3)
    assert first[0] == again[0]
    assert all(torch.equal(first[1][name], again[1][name]) for name in first[1])
