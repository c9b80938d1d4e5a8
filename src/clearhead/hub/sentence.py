"""Sentence embedding settings of a folder, in the format of sentence-transformers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])  # text to prepend, by name: query, document
    default_prompt: str | None = None  # the name of the prompt that is prepended unless another is chosen

    def prompt(self, name: str | None = None) -> str:
        """Returns the text of a prompt; without a name, of the default prompt."""
        chosen = self.default_prompt if name is None else name
        if chosen is None:
            return ""
        if chosen in self.prompts:
            return self.prompts[chosen]
        if chosen in ("query", "document"):  # what is asked and what is searched are read alike
            return ""
        raise ValueError(f"there is no prompt {chosen!r}: the model has {', '.join(self.prompts) or 'none'}")


BERT_FILE = "sentence_bert_config.json"


def read_sentence(files: Mapping[str, bytes]) -> SentenceConfig:
    """Reads the settings from `modules.json` and the files it names; the default is mean pooling."""
    if "modules.json" not in files:
        return SentenceConfig()
    modules = json.loads(files["modules.json"])
    kinds = [str(m.get("type", "")).rpartition(".")[2] for m in modules]
    if unknown := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]:
        raise ValueError(f"modules.json has a {unknown[0]} module: Transformer, Pooling and Normalize are supported")
    bert_config = json.loads(files.get(BERT_FILE, b"{}"))
    st_config = json.loads(files.get("config_sentence_transformers.json", b"{}"))
    return SentenceConfig(
        pool=_pool(json.loads(files.get("1_Pooling/config.json", b"{}"))),
        normalize="Normalize" in kinds,
        max_len=bert_config.get("max_seq_length"),
        prompts={name: text for name, text in (st_config.get("prompts") or {}).items() if text},
        default_prompt=st_config.get("default_prompt_name"),
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


def sentence_files(config: SentenceConfig, width: int) -> dict[str, bytes]:
    """Returns the files that `read_sentence` and sentence-transformers read the settings from."""
    pool = next((name for name, ours in _POOLS.items() if ours == config.pool), None)
    if pool is None:
        raise ValueError(f"sentence-transformers has no pooling {config.pool!r}: choose {', '.join(_POOLS.values())}")
    kinds = ["Transformer", "Pooling"] + (["Normalize"] if config.normalize else [])
    modules = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    flags = {name: ours == config.pool for name, ours in _FLAGS.items()}
    contents: dict[str, Any] = {
        "modules.json": modules,
        "1_Pooling/config.json": {"word_embedding_dimension": width, **flags, "include_prompt": True},
        BERT_FILE: {"max_seq_length": config.max_len, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": dict(config.prompts),
            "default_prompt_name": config.default_prompt,
            "similarity_fn_name": "cosine",
        },
    }
    return {name: (json.dumps(content, indent=2) + "\n").encode() for name, content in contents.items()}


def with_max_seq_length(files: Mapping[str, bytes], max_len: int) -> dict[str, bytes]:
    """Returns the files with another maximum length of a text, where they have one."""
    if BERT_FILE not in files:
        return dict(files)
    content = {**json.loads(files[BERT_FILE]), "max_seq_length": max_len}
    return {**files, BERT_FILE: (json.dumps(content, indent=2) + "\n").encode()}
