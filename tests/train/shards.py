"""A folder of shards made by hand: documents of made words, as `clearhead prepare` would leave them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from clearhead.data.shards import INDEX, SIZES, packed, write_shard
from clearhead.files import write_manifest
from clearhead.text import tokenize_sentences, train_tokenizer

WORDS = ["ba", "be", "bi", "bo", "bu", "da", "de", "di", "do", "du", "ka", "ke", "ki", "ko", "ku"]


def made_shards(folder: Path, template: str = "bert", documents: int = 90, block: int = 30) -> Path:
    """Three shards of blocks of up to 30 tokens, and their tokenizer."""
    draw = random.Random(0)

    def sentence() -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(2, 7))).capitalize() + "."

    texts = [" ".join(sentence() for _ in range(draw.randint(1, 9))) for _ in range(documents)]
    folder.mkdir(parents=True)
    (folder / "text").write_text("\n".join(texts))
    words = train_tokenizer(folder / "text", template=template, vocab_size=300 if template == "gpt2" else 60)
    (folder / "text").unlink()
    words.save(folder / "tokenizer")
    turned = list(tokenize_sentences(texts, words, "en"))
    blocks: list[tuple[str, int]] = []
    for number in range(3):
        path = folder / f"shard-{number}.array_record"
        sizes, index = write_shard(path, packed(turned[number::3], block))
        path.with_suffix(SIZES).write_bytes(sizes.tobytes())
        path.with_suffix(INDEX).write_bytes(index.tobytes())
        blocks.append((path.name, len(sizes)))
    write_manifest(folder, {"blocks": blocks, "block": block, "tokenizer": words.fingerprint()})
    return folder


def values(task: str, **data: Any) -> dict[str, Any]:
    """A recipe that trains from `shards` in a second or two."""
    return {
        "task": task,
        "data": {"train": {"shards": "shards"}, "validation_rows": 8, "max_len": 24, **data},
        "model": {"width": 16, "num_heads": 2, "num_layers": 1, "ffn_dim": 32, "dropout": 0.1},
        "train": {
            "steps": 12, "batch_tokens": 200, "dtype": "float32", "evaluate_every": 4, "save_every": 3,
            "optimizer": {"lr": 0.01}, "schedule": {"kind": "linear", "warmup": 2},
        },
    }  # fmt: skip
