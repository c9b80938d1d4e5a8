"""Replaced-token detection: targets are correct, the loss equals transformers', and gradients do not cross sampling."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clearhead.data import read_rows
from clearhead.hub.folder import LoadedModel, open_folder, save_folder
from clearhead.models import build
from clearhead.tasks import ReplacedTokens, TaskConfig
from clearhead.tasks.masked_lm import MaskedLM
from clearhead.tasks.replaced_tokens import WEIGHT
from tests.parts import gradient, token_table
from tests.tasks.test_masked_lm import corpus  # noqa: F401


@pytest.fixture(scope="module")
def made(corpus):  # noqa: F811
    task = ReplacedTokens(corpus[2], TaskConfig(max_len=24))
    columns = task.encode(read_rows({"text": corpus[0] / "text.txt"}))[0]
    config = task.config({"size": "tiny", "num_layers": 2, "dropout": 0.0, "embedding_width": 40})
    torch.manual_seed(0)
    return task, columns, config, build(config).eval()


def test_the_generator_is_narrow_and_shares_its_tables(made):
    _, _, config, model = made
    assert config.generator.encoder.width == config.encoder.width // 4
    own, small = model.encoder.embedding, model.generator.encoder.embedding
    assert small.tokens is own.tokens and small.positions is own.positions and small.segments is own.segments
    assert model.generator.head.output.weight is own.tokens.weight


def test_every_hidden_word_is_behind_the_mask(made, corpus):  # noqa: F811
    task, columns, _, _ = made
    batch = task.collate(columns, np.arange(10), 1)
    assert (batch.ids[batch.labels[0]] == corpus[2].mask_id).all()
    assert ((batch.uniforms >= 0) & (batch.uniforms < 1)).all() and len(batch.uniforms) == batch.labels.shape[1]


def test_what_is_drawn_follows_the_odds(made):
    """Over many draws, a word comes as often as the generator says."""
    task, columns, _, model = made
    batch = task.collate(columns, np.array([0]), 1)
    place = batch.labels[0][:1]
    with torch.no_grad():
        odds = torch.softmax(model.generator(batch.ids, batch.layout, places=place), 1)[0]
        chances = (torch.arange(20_000) + 0.5) / 20_000
        drawn = torch.searchsorted(odds.cumsum(0), chances).clamp(max=len(odds) - 1)
    seen = torch.bincount(drawn, minlength=len(odds)) / 20_000
    assert (seen - odds).abs().max() < 1e-3


def test_the_loss_is_that_of_transformers(made, corpus, tmp_path):  # noqa: F811
    transformers = pytest.importorskip("transformers")
    task, columns, config, _ = made
    torch.manual_seed(0)
    model = build(config).eval()
    batch = task.collate(columns, np.arange(6), 1)
    with torch.no_grad():
        words, own, said, replaced, _ = task._joint_losses(model, batch)
        whole, measured = task.loss_and_metrics(model, batch)
    saved = task.save_format(config)
    family, architecture = saved.family, saved.architecture
    opened = LoadedModel(model, config, family, architecture, family.write(config, architecture, {}), corpus[2], {})
    done, _ = task.finalize(opened, None)
    save_folder(done, tmp_path / "model")
    save_folder(done.companions["generator"], tmp_path / "generator")
    finds = transformers.ElectraForPreTraining.from_pretrained(tmp_path / "model").eval()
    fills = transformers.ElectraForMaskedLM.from_pretrained(tmp_path / "generator").eval()
    drawn = batch.ids.clone()
    total_words, total_own, at = 0.0, 0.0, 0
    generated = []
    with torch.no_grad():
        for size in batch.layout.host_lengths:
            here = (batch.labels[0] >= at) & (batch.labels[0] < at + size)
            scores = fills(input_ids=batch.ids[None, at : at + size]).logits[0][batch.labels[0][here] - at]
            total_words += float(torch.nn.functional.cross_entropy(scores, batch.labels[1][here], reduction="sum"))
            odds = torch.softmax(scores, 1).cumsum(1)
            found = torch.searchsorted(odds, batch.uniforms[here].unsqueeze(1) * odds[:, -1:]).squeeze(1)
            drawn[batch.labels[0][here]] = found
            generated.append(found)
            at += size
        was = batch.ids.clone()
        was[batch.labels[0]] = batch.labels[1]
        assert torch.equal(replaced, drawn != was)
        at = 0
        for size in batch.layout.host_lengths:
            given = drawn[None, at : at + size]
            loss = finds(input_ids=given, labels=replaced[None, at : at + size].float()).loss
            total_own += float(loss) * size
            at += size
    assert float(words) == pytest.approx(total_words, rel=1e-5)
    assert float(own) == pytest.approx(total_own / len(batch.ids), rel=1e-5)
    assert float(whole) == pytest.approx(
        total_words + WEIGHT * total_own / len(batch.ids) * len(batch.uniforms), rel=1e-5
    )
    told = said > 0
    assert measured["recall"] == (100.0 * float((told & replaced).sum()), float(replaced.sum()))


def test_the_generator_learns_from_its_words_alone(made):
    """What the model says of replaced words teaches nothing through what was drawn (Clark et al. 2020)."""
    task, columns, config, _ = made
    torch.manual_seed(0)
    model = build(config)
    batch = task.collate(columns, np.arange(6), 1)
    _, own, *_ = task._joint_losses(model, batch)
    own.backward()
    assert model.generator is not None
    inner = [
        p for name, p in model.generator.named_parameters() if "embedding" not in name and "output.weight" not in name
    ]
    assert inner and all(p.grad is None or not p.grad.any() for p in inner)
    assert gradient(token_table(model.encoder).weight).any()


def test_both_folders_open_again(made, corpus, tmp_path):  # noqa: F811
    task, _, config, _ = made
    model = build(config).eval()
    saved = task.save_format(config)
    family, architecture = saved.family, saved.architecture
    opened = LoadedModel(model, config, family, architecture, family.write(config, architecture, {}), corpus[2], {})
    done, _ = task.finalize(opened, None)
    save_folder(done, tmp_path / "model")
    save_folder(done.companions["generator"], tmp_path / "generator")
    again = open_folder(tmp_path / "generator")
    assert not again.missing_keys and again.config.head is not None and again.config.head.kind == "lm"
    again = open_folder(tmp_path / "model", head="discriminator")
    assert not again.missing_keys


def test_pairs_are_refused(corpus):  # noqa: F811
    with pytest.raises(ValueError, match="single texts"):
        ReplacedTokens.from_recipe(corpus[2], TaskConfig(pairs="nsp"), {})
    assert MaskedLM.spec.column_sets == ReplacedTokens.spec.column_sets
