"""`card.yaml`: the answers behind the card of a folder, and the facts that were measured, with what they hold for."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from clearhead.cards.card_answers import MODEL_QUESTIONS, check_answers, read_yaml
from clearhead.files.atomic import write_atomic
from clearhead.files.manifest import Manifest
from clearhead.files.safe import MissingFile, read_bytes

CARD_RECORD = "card.yaml"  # not in the manifest, so that people can edit it
MAX_CARD_RECORD_BYTES = 1 << 20
HEADER = """\
# Behind README.md: answers to the questions of the card, which may be edited here, and what was measured.
# `clearhead card` reads this file and writes both.
"""


@dataclass(frozen=True, kw_only=True)
class CardRecord:
    """Answers with the training that they are about, and measured facts with the files that they hold for."""

    answers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    measured: Mapping[str, Any] = field(default_factory=dict[str, Any])  # data, training, tests, audit
    training: str | None = None  # SHA-256 of what the model is and was trained on
    files: str | None = None  # SHA-256 of the files of the folder; None: it has no manifest

    def kept(self, training: str, files: str | None) -> CardRecord:
        """Return what still holds for a folder: answers for the same training, facts for the same files."""
        if self.training not in (None, training):  # None: written by hand, for this folder
            return CardRecord(training=training, files=files)
        measured = self.measured if self.files == files else {}
        return CardRecord(answers=self.answers, measured=measured, training=training, files=files)

    @property
    def seal(self) -> str:
        """A hash of the facts: those that were edited by hand do not hold."""
        text = json.dumps([self.files, dict(self.measured)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_yaml(self) -> str:
        values = {"answers": dict(self.answers), "training": self.training, "files": self.files, "seal": self.seal}
        plain = json.loads(json.dumps({**values, "measured": dict(self.measured)}))  # no object twice: no YAML alias
        return HEADER + yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)

    def write(self, path: Path) -> None:
        write_atomic(path, self.to_yaml())


def parse_card_record(data: bytes, source: str = CARD_RECORD) -> CardRecord:
    """Return the record in a file; ValueError where it cannot be read."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{source} is not UTF-8: save it as UTF-8, or delete it") from None
    values = read_yaml(text, source, max_characters=MAX_CARD_RECORD_BYTES)
    answers, measured = values.get("answers") or {}, values.get("measured") or {}
    if not isinstance(answers, dict) or not isinstance(measured, dict):
        raise ValueError(f"{source} has answers or facts that are not a mapping: correct it, or delete it")
    training, files = (values[k] if isinstance(values.get(k), str) else None for k in ("training", "files"))
    record = CardRecord(answers=answers, measured=measured, training=training, files=files)
    return record if values.get("seal") == record.seal else replace(record, measured={})


def read_card_bytes(folder: Path) -> bytes | None:
    """Return the content of `card.yaml` of a folder, which is parsed when the model is saved.

    None where it is missing or cannot be read: a model loads without it.
    """
    try:
        return read_bytes(folder, CARD_RECORD, max_bytes=MAX_CARD_RECORD_BYTES)
    except (ValueError, OSError):
        return None


def carried_record(data: bytes | None, training: str, files: str | None) -> CardRecord:
    """Return what still holds of the record that a saved model was loaded with; a damaged one is left out."""
    try:
        record = CardRecord() if data is None else parse_card_record(data)
        record = replace(record, answers=check_answers(MODEL_QUESTIONS, record.answers))
    except ValueError as error:
        warnings.warn(f"the answers of the model card are not saved with the model: {error}", stacklevel=4)
        record = CardRecord()
    return record.kept(training, files)


def read_card_record(path: Path) -> CardRecord:
    """Return the record of a card; an empty one where there is none."""
    try:
        return parse_card_record(read_bytes(path.parent, path.name, max_bytes=MAX_CARD_RECORD_BYTES), str(path))
    except MissingFile:
        return CardRecord()


def training_digest(info: Mapping[str, Any]) -> str:
    """Return a hash of what a model is and was trained on: other weights of another run have another one."""
    names = ("architecture", "head", "labels", "task", "recipe", "step", "train_sha256")
    text = json.dumps({name: info.get(name) or None for name in names}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def files_digest(manifest: Manifest | None) -> str | None:
    """Return a hash of the files of a folder; None where it has no manifest."""
    if manifest is None:
        return None
    return hashlib.sha256(
        "".join(f"{n}\0{manifest.files[n].sha256}\n" for n in sorted(manifest.files)).encode()
    ).hexdigest()
