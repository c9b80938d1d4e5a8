"""Tokenizer: text to ragged token batches and back, from Hugging Face tokenizer files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from torch import Tensor

from clearhead.text.encoding import EncodedTexts, Integers, Shorten, build_batch, fit, split_windows
from clearhead.text.escape_specials import escape_specials
from clearhead.text.fingerprint import PROBES, canonical_hash, compare, library_version, probe_hash
from clearhead.text.special_tokens import BARE, SpecialTokenTemplate, read_template
from clearhead.text.token_batch import TokenBatch, Truncation
from clearhead.text.tokenizer_files import (
    added_token,
    check_merges,
    guarded,
    read_tokenizer_files,
    special_tokens,
    write_tokenizer_files,
)

# The keys of each role in tokenizer_config.json; the first that is set counts.
ROLES = {
    "bos": ("cls_token", "bos_token"),
    "eos": ("sep_token", "eos_token"),
    "pad": ("pad_token",),
    "mask": ("mask_token",),
    "unk": ("unk_token",),
}


class Tokenizer:
    """A tokenizer, from the content of tokenizer.json and tokenizer_config.json.

    Create one with `Tokenizer.load(folder)` or `train_tokenizer`. Calling it returns a `TokenBatch`. Padding and
    truncation settings of the file are ignored: ragged batches need no padding, and truncation is explicit.
    """

    def __init__(
        self, content: Mapping[str, Any], config: Mapping[str, Any] | None = None, source: Path | str = "tokenizer.json"
    ) -> None:
        self.config = dict(config or {})
        self._content = {**content, "padding": None, "truncation": None}
        self._rust = _build(self._content, source)
        known = {token.content for token in self._rust.get_added_tokens_decoder().values() if token.special}
        unknown = [token for token in special_tokens(self.config, source) if token.content not in known]
        if unknown:  # the config names special tokens that the file lacks
            self._rust.add_special_tokens(unknown)
            self._content = json.loads(self._rust.to_str())
        self._escaped = _build(guarded(lambda: escape_specials(self._content), source), source)
        self._escaped.encode_special_tokens = True
        self._template = self._read_template(source)

    @staticmethod
    def load(folder: str | Path) -> Tokenizer:
        """Load the tokenizer of a model folder."""
        content, config = read_tokenizer_files(Path(folder))
        return Tokenizer(content, config, Path(folder) / "tokenizer.json")

    def with_config(self, **settings: Any) -> Tokenizer:
        """Returns the tokenizer with these settings added to its tokenizer_config.json."""
        return Tokenizer(self._content, {**self.config, **settings})

    def save(self, folder: str | Path) -> None:
        """Writes the tokenizer in the format that `load` and transformers' `AutoTokenizer` read."""
        write_tokenizer_files(Path(folder), self._content, self.config)

    def __call__(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None = None,
        *,
        max_len: int | None = None,
        shorten: Shorten = "longest",
        special: bool = True,
        specials_in_text: bool = False,
        offsets: bool = True,
    ) -> TokenBatch:
        """Tokenizes texts, or pairs of texts.

        Texts are truncated only if `max_len` is given, and `TokenBatch.truncations` lists them; of a pair, the longer
        text is shortened first, or only the second (`shorten="second"`). `special=False` adds no special tokens.
        Special-token strings inside a text are plain text; with `specials_in_text` they become the special tokens, and
        those that the template adds anyway are not doubled. `offsets=False` is faster and gives no offsets and words.
        """
        template = self._template if special else BARE
        parts = self._encode(texts, pairs, template, specials_in_text, offsets)
        items, overhead = template.items(len(parts) > 1), template.overhead(len(parts) > 1)
        sources = np.arange(len(parts[0].count))
        truncations: list[Truncation] = []
        if max_len is not None:
            total = overhead + np.sum([part.count for part in parts], axis=0)  # (B,)
            room = _room(max_len, overhead)
            if shorten == "second" and len(parts) > 1:
                _check_room(room - parts[0].count, max_len)
            counts = fit([part.count for part in parts], room, shorten)
            parts = [part.window(sources, 0, count) for part, count in zip(parts, counts, strict=True)]
            truncations = [Truncation(int(i), int(total[i]), max_len) for i in np.flatnonzero(total > max_len)]
        return build_batch(items, parts, sources, truncations)

    def windows(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None = None,
        *,
        max_len: int,
        stride: int,
        specials_in_text: bool = False,
    ) -> TokenBatch:
        """Tokenizes long texts into overlapping windows that together hold every token, one sequence per window.

        A window begins `stride` tokens after the previous one, or at its end if that is sooner. Of a pair (a question
        and its context), each window has the full first text and a part of the second. `TokenBatch.sources` is the
        index of a window's text, `TokenBatch.offsets` the position in it.
        """
        parts = self._encode(texts, pairs, self._template, specials_in_text, True)
        pair, last = len(parts) > 1, parts[-1]
        room = np.full_like(last.count, _room(max_len, self._template.overhead(pair)))  # (texts,)
        if pair:
            room -= parts[0].count
            _check_room(room, max_len)
        sources, begin, count = split_windows(last.count, room, stride)
        full = [part.window(sources, 0, part.count[sources]) for part in parts[:-1]]
        return build_batch(self._template.items(pair), [*full, last.window(sources, begin, count)], sources)

    def decode(self, ids: Sequence[int] | Tensor, *, special: bool = False) -> str:
        """Decodes ids to text; special tokens are included only if `special`."""
        return self._rust.decode(self._check_ids(ids), skip_special_tokens=not special)

    def tokens(self, ids: Sequence[int] | Tensor) -> list[str]:
        """Returns the tokens of these ids as the vocabulary has them."""
        return [self._rust.id_to_token(id) or "" for id in self._check_ids(ids)]

    def id(self, token: str) -> int | None:
        """Returns the id of a token; None if it is not in the vocabulary."""
        return self._rust.token_to_id(token)

    @cached_property
    def vocab_size(self) -> int:
        """The highest id plus one: the number of rows of an embedding."""
        return max(self._rust.get_vocab().values(), default=-1) + 1

    @cached_property
    def specials(self) -> dict[str, str]:
        """The special tokens by role (`bos`, `eos`, `pad`, `mask`, `unk`), as far as the tokenizer has them.

        BERT's `[CLS]` counts as `bos` and its `[SEP]` as `eos`, because they begin and end a text.
        """
        result: dict[str, str] = {}
        for role, names in ROLES.items():
            for name in names:
                if role not in result and self.config.get(name):
                    result[role] = added_token(self.config[name]).content
        for role, ids in (("bos", self._template.opening), ("eos", self._template.closing)):
            if role not in result and ids:
                result[role] = self.tokens(ids[-1:])[0]
        return result

    @property
    def bos_id(self) -> int | None:
        """The id of the start token; None if there is none."""
        return self._role("bos")

    @property
    def eos_id(self) -> int | None:
        """The id of the end token; None if there is none."""
        return self._role("eos")

    @property
    def require_eos_id(self) -> int:
        """The id of the end token; ValueError if there is none."""
        if self.eos_id is None:
            raise ValueError("this tokenizer has no end token, which ends a text: train a new one")
        return self.eos_id

    @property
    def pad_id(self) -> int | None:
        """The id of the padding token; None if there is none."""
        return self._role("pad")

    @property
    def mask_id(self) -> int | None:
        """The id of the mask token; None if there is none."""
        return self._role("mask")

    @property
    def unk_id(self) -> int | None:
        """The id of the unknown token; None if there is none."""
        return self._role("unk")

    @property
    def max_len(self) -> int | None:
        """The maximum sequence length of the tokenizer's model; None if the file has none."""
        length = self.config.get("model_max_length")
        return int(length) if isinstance(length, int | float) and 0 < length < 1e9 else None

    def fingerprint(self) -> dict[str, str]:
        """Returns hashes of the file and of the ids of the probe texts, and the library version."""
        plain, named = (self(PROBES, PROBES[::-1], specials_in_text=s, offsets=False) for s in (False, True))
        ids = [part.tolist() for t in (plain, named) for part in t.layout.split(t.ids)]
        return {
            "tokenizer_json": canonical_hash(self._content),
            "probe": probe_hash(ids),
            "tokenizers": library_version(),
        }

    def check(self, fingerprint: Mapping[str, str]) -> None:
        """Raises ValueError if the tokenizer differs from this fingerprint, and names the cause."""
        compare(fingerprint, self.fingerprint())

    def _encode(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None,
        template: SpecialTokenTemplate,
        specials_in_text: bool,
        offsets: bool,
    ) -> list[EncodedTexts]:
        inputs = [texts] if pairs is None else [texts, pairs]
        batches = [[batch] if isinstance(batch, str) else list(batch) for batch in inputs]
        if len(batches[0]) != len(batches[-1]):
            raise ValueError(f"{len(batches[0])} texts but {len(batches[-1])} pairs: there must be as many of each")
        rust = self._rust if specials_in_text else self._escaped
        encode = rust.encode_batch if offsets else rust.encode_batch_fast
        parts: list[EncodedTexts] = []
        for batch in batches:
            try:
                part = EncodedTexts.of(encode(batch, add_special_tokens=False), offsets)
            except Exception as error:  # tokenizers raises plain Exception
                raise ValueError(_explain(batch, error)) from error
            parts.append(part.trim(template.opening, template.closing) if specials_in_text else part)
        return parts

    def _read_template(self, source: Path | str) -> SpecialTokenTemplate:
        template = guarded(lambda: read_template(self._rust), source)
        for item in (*template.single, *template.pair):
            if item.part < 0 and self._rust.id_to_token(item.id) is None:
                raise ValueError(f"{source} adds the special token with id {item.id}, which is not in its vocabulary")
        return template

    def _role(self, role: str) -> int | None:
        token = self.specials.get(role)
        return None if token is None else self._rust.token_to_id(token)

    def _check_ids(self, ids: Sequence[int] | Tensor) -> list[int]:
        listed: list[int] = ids.tolist() if isinstance(ids, Tensor) else list(ids)
        for id in listed:
            if not 0 <= id < self.vocab_size:
                raise ValueError(f"there is no token {id}: ids range from 0 to {self.vocab_size - 1}")
        return listed

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[dict[str, Any], dict[str, Any]]]:
        return Tokenizer, (self._content, self.config)

    def __repr__(self) -> str:
        kind = type(self._rust.model).__name__
        roles = ", ".join(f"{role}={token}" for role, token in self.specials.items())
        return f"Tokenizer({kind}, {self.vocab_size} tokens{f', {roles}' if roles else ''})"


def _build(content: Mapping[str, Any], source: Path | str) -> tokenizers.Tokenizer:
    def build() -> tokenizers.Tokenizer:
        check_merges(content["model"])
        return tokenizers.Tokenizer.from_str(json.dumps(content, ensure_ascii=False))

    return guarded(build, source)


def _room(max_len: int, overhead: int) -> int:
    if max_len <= overhead:
        raise ValueError(
            f"max_len is {max_len}, but {overhead} special tokens are added to a text: give at least {overhead + 1}"
        )
    return max_len - overhead


def _check_room(room: Integers, max_len: int) -> None:
    for i in np.flatnonzero(room < 1)[:1]:
        raise ValueError(
            f"the first text of pair {i} leaves no room in {max_len} tokens for the second, the only one truncated: "
            "give a larger max_len or shorten the first text"
        )


def _explain(batch: Sequence[object], error: Exception) -> str:
    for i, text in enumerate(batch):
        if not isinstance(text, str):
            return f"text {i} is {text!r}, a {type(text).__name__}: it must be a string"
        if any("\ud800" <= c <= "\udfff" for c in text):
            return f"text {i} holds half a character (a lone surrogate): decode its source as UTF-8"
    return f"the tokenizer cannot read a text: {error}"
