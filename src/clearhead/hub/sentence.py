"""Sentence embedding settings of a folder, in the format of sentence-transformers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_POOLS = {"cls": "first", "mean": "mean", "max": "max", "lasttoken": "last"}
_FLAGS = {
    "pooling_mode_cls_token": "first",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "last",
}


@dataclass(frozen=True, kw_only=True)
class SentenceConfig:
    """Settings of sentence embeddings: pooling, L2 normalization, maximum number of tokens."""

    pool: str = "mean"
    normalize: bool = False
    max_len: int | None = None
    prompt: str = ""  # prepended to every text


def read_sentence(files: Mapping[str, bytes]) -> SentenceConfig:
    """Reads the settings from `modules.json` and the files it names; the default is mean pooling."""
    if "modules.json" not in files:
        return SentenceConfig()
    modules = json.loads(files["modules.json"])
    kinds = [str(m.get("type", "")).rpartition(".")[2] for m in modules]
    if unknown := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]:
        raise ValueError(f"modules.json has a {unknown[0]} module: Transformer, Pooling and Normalize are supported")
    bert_config = json.loads(files.get("sentence_bert_config.json", b"{}"))
    st_config = json.loads(files.get("config_sentence_transformers.json", b"{}"))
    prompts = st_config.get("prompts") or {}
    return SentenceConfig(
        pool=_pool(json.loads(files.get("1_Pooling/config.json", b"{}"))),
        normalize="Normalize" in kinds,
        max_len=bert_config.get("max_seq_length"),
        prompt=prompts.get(st_config.get("default_prompt_name")) or "",
    )


def _pool(config: Mapping[str, Any]) -> str:
    if isinstance(config.get("pooling_mode"), str):
        chosen = [config["pooling_mode"]]
        known = [_POOLS[c] for c in chosen if c in _POOLS]
    else:
        chosen = [name for name, on in config.items() if name.startswith("pooling_mode_") and on is True]
        known = [_FLAGS[c] for c in chosen if c in _FLAGS]
    if not chosen:
        return "mean"
    if len(chosen) != 1 or not known:
        raise ValueError(
            f"1_Pooling/config.json pools by {', '.join(chosen)}: exactly one of {', '.join(_POOLS)} is supported"
        )
    return known[0]
