"""Model folders in the Hugging Face layout: opens and saves them.

Folders are not trusted: no code in them is run, weights are safetensors, sizes are checked before memory is allocated,
and a folder that clearhead saved is verified against its manifest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.cards.card_record import carried_record, files_digest, read_card_bytes, training_digest
from clearhead.cards.model_card import ModelFacts, model_name, write_card
from clearhead.files import mark, write_manifest
from clearhead.files.manifest import Folder
from clearhead.files.s3_folder import new_folder_at
from clearhead.files.s3_path import folder_at
from clearhead.files.safe import MAX_JSON_BYTES, MissingFile, read_bytes
from clearhead.hub.families import Family
from clearhead.hub.image_codec_file import CODEC_FILE
from clearhead.hub.image_features import FEATURES_FILE
from clearhead.hub.mapping import POOLED, Raw
from clearhead.hub.model_folder import ModelFolder
from clearhead.hub.sentence import with_max_seq_length
from clearhead.hub.weight_files import MAX_SHARD_BYTES, WeightReader, write_weights
from clearhead.layers.int8 import is_int8, to_int8
from clearhead.models.heads import HeadKind
from clearhead.models.longer_positions import PositionMethod, with_max_len
from clearhead.models.model import Model, ModelConfig, build
from clearhead.models.recurrent import RecurrentConfig
from clearhead.text import Tokenizer

# Files of a folder that are copied unchanged when the model is saved.
_EXTRA_FILES = (
    "generation_config.json",
    "preprocessor_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
    FEATURES_FILE,
    CODEC_FILE,
)
MAX_NETWORK_BYTES = 256 << 20  # of a network beside the model


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model with its configuration, tokenizer, metadata and extra files."""

    model: Model
    config: ModelConfig
    family: Family
    architecture: str
    hf_config: dict[str, Any]  # content of config.json
    tokenizer: Tokenizer | None = None
    extra_files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])  # from the manifest: task, recipe, data
    missing_keys: tuple[str, ...] = ()  # head parameters not in the folder: newly initialized
    unexpected_keys: tuple[str, ...] = ()  # tensors of the folder that this architecture does not use
    card_record: bytes | None = None  # card.yaml of the folder
    # models that were trained together with this one
    companions: Mapping[str, LoadedModel] = field(default_factory=dict[str, "LoadedModel"])

    @property
    def require_tokenizer(self) -> Tokenizer:
        """The tokenizer; ValueError if the folder has none."""
        if self.tokenizer is None:
            raise ValueError("this folder has no readable tokenizer: add tokenizer.json or vocab.txt")
        return self.tokenizer

    @property
    def max_len(self) -> int | None:
        """The maximum number of tokens of a text: the smaller limit of tokenizer and model; None: unlimited."""
        if self.config.patches is not None:
            return None
        stack = self.config.encoder or self.config.stack
        return min((n for n in (self.require_tokenizer.max_len, stack.max_positions) if n is not None), default=None)

    @property
    def has_segments(self) -> bool:
        return getattr(self.config.stack, "num_segments", 0) > 0


def open_folder(
    source: str | Path | ModelFolder,
    *,
    head: HeadKind | None = None,
    labels: Iterable[str] | None = None,
    pool: str | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
    revision: str | None = None,
) -> LoadedModel:
    """Opens a model folder, or a model of the Hugging Face hub by name; an open `ModelFolder` is not read again.

    `head` replaces the head (with `labels`, if it has any); parameters that the folder lacks, or has for another number
    of labels, are initialized and listed in `missing_keys`. `pool` is the pooling of such a head; the default is the
    family's. `dtype` defaults to the folder's own.
    """
    opened = source if isinstance(source, ModelFolder) else ModelFolder.open(source, revision)
    folder, raw, family = opened.path, opened.hf_config, opened.family
    architecture = family.architecture(raw, head)
    if pool is not None:
        if head != "sequence" or not family.pools:
            raise ValueError(f"pool {pool!r} needs a text encoder with a 'sequence' head: leave `pool` out")
        raw, architecture = {**raw, "pooling": pool}, POOLED
    weights = WeightReader(folder, opened.headers)
    config = read_model_config(family, raw, architecture, labels)
    if config.head is not None and config.head.tied and not _ties(family, architecture, weights):
        config = replace(config, head=replace(config.head, tied=False))
    for stack in (config.encoder, config.decoder):
        shares_layers = stack is None or (not isinstance(stack, RecurrentConfig) and stack.num_groups is not None)
        if stack is not None and not shares_layers and stack.num_layers > len(weights.files):
            raise ValueError(
                f"{folder}: config.json specifies {stack.num_layers} layers, but the folder has only "
                f"{len(weights.files)} tensors"
            )
    with torch.device("meta"):
        model = build(config)
        if weights.is_int8:
            to_int8(model)
    missing, unexpected = weights.fill(model, family, architecture, dtype, device, raw, new_labels=labels is not None)
    metadata, tokenizer = opened.metadata, opened.tokenizer
    reads_text = config.patches is None or config.decoder is not None
    if tokenizer is not None and reads_text and tokenizer.vocab_size > config.stack.vocab_size:
        raise ValueError(
            f"{folder}: the tokenizer has ids up to {tokenizer.vocab_size - 1}, but the model has only "
            f"{config.stack.vocab_size} token embeddings: they do not belong together"
        )
    if metadata.get("tokenizer") is not None:
        if tokenizer is None:
            raise ValueError(f"{folder} was saved with a tokenizer, but has none now: restore it")
        tokenizer.check(metadata["tokenizer"])
    keys = tuple(missing), tuple(unexpected)
    extra_files, card = carried_files(folder), read_card_bytes(folder)
    return LoadedModel(model.eval(), config, family, architecture, raw, tokenizer, extra_files, metadata, *keys, card)


def save_folder(
    loaded: LoadedModel,
    folder: str | Folder,
    *,
    overwrite: bool = False,
    metadata: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    write: Callable[[Mapping[str, Tensor], Path], None] | None = None,
) -> None:
    """Writes a folder, atomically on disk, in an object store (`s3://...`) the manifest last.

    `transformers` opens it if it has the architecture, else `open_folder` does. `metadata` goes into the manifest,
    `settings` into config.json; `write` writes the tensors, instead of `write_weights`.
    """
    family, model = loaded.family, loaded.model
    if is_int8(model):
        raise ValueError("an int8 model cannot be saved: copy its folder, or save the original model")
    raw = {**family.write(loaded.config, loaded.architecture, loaded.hf_config), **(settings or {})}
    dtype = next(iter(model.parameters())).dtype
    raw["torch_dtype" if "torch_dtype" in raw and "dtype" not in raw else "dtype"] = str(dtype).removeprefix("torch.")
    params = {name: p.detach().cpu() for name, p in model.named_parameters()}
    tensors = {
        pair.hf_name: pair.tensor_map.write([params[n] for n in pair.params])
        for pair in family.pairs(params, loaded.architecture)
    }
    if loaded.config.head is not None and not loaded.config.head.tied:
        copies = {copy: name for name, copy in family.duplicated.items() if name in tensors}
        tensors |= {copy: tensors[name].clone() for copy, name in copies.items()}
    folder = folder_at(folder)
    with new_folder_at(folder, overwrite=overwrite) as target:
        if write is None:
            write_weights(tensors, target, MAX_SHARD_BYTES)
        else:
            write(tensors, target)
        config = json.dumps(mark(raw), indent=2, sort_keys=True, ensure_ascii=False)
        (target / "config.json").write_text(config + "\n", encoding="utf-8")
        for name, data in loaded.extra_files.items():
            (target / name).parent.mkdir(exist_ok=True)
            (target / name).write_bytes(data)
        info: dict[str, Any] = {**loaded.metadata, **(metadata or {}), "architecture": loaded.architecture}
        if loaded.config.head is not None:
            info |= {"head": loaded.config.head.kind, "labels": list(loaded.config.head.labels)}
        if loaded.tokenizer is not None:
            loaded.tokenizer.save(target)
            info["tokenizer"] = loaded.tokenizer.fingerprint()
        manifest = write_manifest(target, info)
        record = carried_record(loaded.card_record, training_digest(manifest.metadata), files_digest(manifest))
        facts = ModelFacts(
            name=model_name(folder), architecture=loaded.architecture, model_type=str(raw.get("model_type")),
            parameters=sum(p.numel() for p in params.values()), metadata=manifest.metadata, measured=record.measured,
        )  # fmt: skip
        write_card(target, facts, record)  # not in the manifest: people edit it


def _check_ids(raw: Raw) -> None:
    for name, value in raw.items():
        if name.endswith("_token_id") and isinstance(value, int) and not -1 <= value < 2**31:
            raise ValueError(f"config.json: {name} is {value}, which is not a token id")


def extend(loaded: LoadedModel, max_len: int, positions: PositionMethod = "repeat") -> LoadedModel:
    """Return the model with longer positions, and all limits of its folder with the new length; see `with_max_len`."""
    model, config = with_max_len(loaded.model, loaded.config, max_len, positions)
    tokenizer, metadata = loaded.tokenizer, dict(loaded.metadata)
    if tokenizer is not None and tokenizer.max_len is not None:
        tokenizer = tokenizer.with_config(model_max_length=max_len)
    if "answers" in metadata:  # a reader
        metadata["answers"] = {**metadata["answers"], "max_len": max_len}
    files = with_max_seq_length(loaded.extra_files, max_len)
    return replace(loaded, model=model, config=config, tokenizer=tokenizer, extra_files=files, metadata=metadata)


def read_model_config(family: Family, raw: Raw, architecture: str, labels: Iterable[str] | None = None) -> ModelConfig:
    _check_ids(raw)
    try:
        return family.read(raw, architecture, labels=labels)
    except (TypeError, KeyError, AttributeError, OverflowError, ZeroDivisionError) as error:
        raise ValueError(f"config.json cannot be read as {family.title}: {error!r}") from error


def _ties(family: Family, architecture: str, weights: WeightReader) -> bool:
    """Returns whether the output weight can be tied to the embedding: not if the folder has a different one."""
    own = family.vocabulary(architecture)
    tokens = next((hf_name for hf_name, name in family.weights.items() if str(name).endswith("embedding.tokens")), None)
    table = weights.find(f"{tokens}.weight", family)
    if own is None or own not in weights.files or table is None:
        return True
    return weights.shapes[own] == weights.shapes[table] and torch.equal(weights.read(own), weights.read(table))


def carried_files(folder: Path) -> dict[str, bytes]:
    """Reads the extra files of a folder, which are saved unchanged with the model."""
    out: dict[str, bytes] = {}
    for name in _EXTRA_FILES:
        try:
            limit = MAX_NETWORK_BYTES if name in (FEATURES_FILE, CODEC_FILE) else MAX_JSON_BYTES
            out[name] = read_bytes(folder, name, max_bytes=limit)
        except MissingFile:
            continue
    return out
