"""Folders with a tokenizer and a tiny model that writes."""

from __future__ import annotations

import json
import random

import pytest
import torch

from clearhead.decode import generation_config
from clearhead.hub.families import FAMILIES
from clearhead.hub.folder import LoadedModel, save_folder
from clearhead.models import HeadConfig, ModelConfig, build
from clearhead.text import train_tokenizer

TEXT = (
    "the a man woman dog cat rides sees red old bicycle on under street house with and two children play café naïve 😀"
)
WORDS = TEXT.split()


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    draw = random.Random(0)
    path = tmp_path_factory.mktemp("decode") / "corpus.txt"
    path.write_text("\n".join(" ".join(draw.choices(WORDS, k=draw.randint(3, 12))) for _ in range(400)) + "\n")
    return path


def opened(corpus, family: str) -> LoadedModel:
    """A model of ours with fresh weights, as training would save it."""
    tokenizer = train_tokenizer(corpus, template=family, vocab_size=300 if family == "gpt2" else 120)
    raw = {
        "marian": {"model_type": "marian", "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
                   "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 48,
                   "activation_function": "relu", "scale_embedding": True, "vocab_size": tokenizer.vocab_size,
                   "pad_token_id": tokenizer.pad_id, "eos_token_id": tokenizer.eos_id, "is_encoder_decoder": True,
                   "decoder_start_token_id": tokenizer.pad_id, "bos_token_id": 0},
        "gpt2": {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 48, "vocab_size": tokenizer.vocab_size,
                 "eos_token_id": tokenizer.eos_id, "bos_token_id": tokenizer.eos_id},
    }[family]  # fmt: skip
    table = FAMILIES[family]
    architecture = {"marian": "MarianMTModel", "gpt2": "GPT2LMHeadModel"}[family]
    config = table.read(raw, architecture)
    assert isinstance(config, ModelConfig) and isinstance(config.head, HeadConfig)
    torch.manual_seed(4)
    model = build(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.15)
    assert tokenizer.eos_id is not None
    told = generation_config(family, eos=tokenizer.eos_id, pad=tokenizer.pad_id, max_len=24)
    carried = {"generation_config.json": json.dumps(told).encode()}
    return LoadedModel(model, config, table, architecture, raw, tokenizer, carried)


@pytest.fixture(scope="session")
def folders(corpus, tmp_path_factory):
    """The folders by family."""
    made = {}
    for family in ("marian", "gpt2"):
        made[family] = tmp_path_factory.mktemp("folders") / family
        save_folder(opened(corpus, family), made[family])
    return made
