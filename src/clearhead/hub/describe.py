"""Describes a model folder from its config, headers and manifest; weights are read only for hashing."""

from pathlib import Path
from typing import Any

import torch

from clearhead.files import IntegrityError, read_config, safe_join, verify_if_marked, weight_headers
from clearhead.hub.folder import carried_files, read_model_config
from clearhead.hub.model_folder import family_of, tokenizer_of
from clearhead.hub.resolve import resolve_model
from clearhead.hub.sentence import read_sentence
from clearhead.models.model import ModelConfig, build
from clearhead.models.recurrent import RecurrentConfig
from clearhead.models.transformer_config import TransformerConfig


def describe(source: str | Path) -> dict[str, Any]:
    """Returns everything `clearhead info` shows, as plain values. `intact` is None if the folder has no manifest."""
    folder = resolve_model(source)
    problems: dict[str, str] = {}
    try:
        manifest = verify_if_marked(folder)
    except IntegrityError as error:
        manifest, problems = None, error.problems
    raw = read_config(folder)
    family = family_of(raw, folder)
    architecture = family.architecture(raw)
    config = read_model_config(family, raw, architecture)
    headers = weight_headers(folder)
    with torch.device("meta"):
        model = build(config)
    tokenizer = None if problems else tokenizer_of(folder)
    stack, head = config.stack, config.head
    extra_files = carried_files(folder)
    sentence = read_sentence(extra_files)
    return {
        "folder": str(folder),
        "family": family.title,
        "model_type": str(raw.get("model_type")),
        "architecture": architecture,
        "head": None if head is None else head.kind,
        "labels": [] if head is None else list(head.labels),
        "parameters": sum(p.numel() for p in model.parameters()),
        "bytes": sum(safe_join(folder, file).stat().st_size for file in headers),
        "files": sorted(headers),
        "dtypes": sorted({info.dtype for header in headers.values() for info in header.values()}),
        "encoder_layers": 0 if config.encoder is None else config.encoder.num_layers,
        "decoder_layers": 0 if config.decoder is None else config.decoder.num_layers,
        "width": stack.width,
        **(_recurrent(config) if isinstance(stack, RecurrentConfig) else _transformer(stack)),
        "max_len": stack.max_positions,
        "tokenizer": None if tokenizer is None else repr(tokenizer),
        "sentence": {"pool": sentence.pool, "normalize": sentence.normalize, "max_len": sentence.max_len}
        if "modules.json" in extra_files
        else None,
        "intact": False if problems else None if manifest is None else True,
        "problems": problems,
        "saved_by": None if manifest is None else manifest.version,
        "metadata": {} if manifest is None else manifest.metadata,
    }


def _transformer(stack: TransformerConfig) -> dict[str, Any]:
    return {
        "heads": stack.num_heads,
        "kv_heads": stack.num_kv_heads or stack.num_heads,
        "vocab_size": None if stack.patches is not None else stack.vocab_size,
        "recurrent": None,
    }


def _recurrent(config: ModelConfig) -> dict[str, Any]:
    stacks = [stack for stack in (config.encoder, config.decoder) if isinstance(stack, RecurrentConfig)]
    heads = int(stacks[-1].attention != "none")
    return {
        "heads": heads,
        "kv_heads": heads,
        "vocab_size": stacks[-1].vocab_size,
        "recurrent": {
            "kind": " and ".join(dict.fromkeys(stack.kind for stack in stacks)),
            "hidden_size": [stack.hidden_size for stack in stacks],
            "bidirectional": stacks[0].bidirectional,
            "attention": stacks[-1].attention,
            "input_feeding": stacks[-1].input_feeding,
        },
    }
