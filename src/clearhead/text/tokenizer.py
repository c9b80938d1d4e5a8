"""Tokenizer: text to ragged tokens and back, from the files Hugging Face's tools use."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from torch import Tensor

from clearhead.text.fingerprint import PROBES, canonical_hash, compare, library_version, probe_hash
from clearhead.text.folders import added_token, check_merges, guarded, read_folder, special_tokens, write_folder
from clearhead.text.frame import BARE, Frame, read_frame
from clearhead.text.pieces import Integers, Pieces, Shorten, fit, frame_pieces, split_windows
from clearhead.text.plain import as_plain
from clearhead.text.tokens import Cut, Tokens

# What a role is called in tokenizer_config.json; a family that names both means the first in front of its texts.
ROLES = {
    "bos": ("cls_token", "bos_token"),
    "eos": ("sep_token", "eos_token"),
    "pad": ("pad_token",),
    "mask": ("mask_token",),
    "unk": ("unk_token",),
}


class Tokenizer:
    """A tokenizer: what a tokenizer.json says, and the tokenizer_config.json beside it.

    Make one with `Tokenizer.load(folder)` or `train_tokenizer`. Calling it gives `Tokens`, a ragged batch. Padding and
    truncation that the file asks for are switched off: ragged batches need no padding, and what is cut is reported.
    """

    def __init__(
        self, content: Mapping[str, Any], config: Mapping[str, Any] | None = None, source: Path | str = "tokenizer.json"
    ) -> None:
        self.config = dict(config or {})
        self._content = {**content, "padding": None, "truncation": None}
        self._rust = _build(self._content, source)
        known = {token.content for token in self._rust.get_added_tokens_decoder().values() if token.special}
        unknown = [token for token in special_tokens(self.config, source) if token.content not in known]
        if unknown:  # the config names special tokens of which the file knows nothing
            self._rust.add_special_tokens(unknown)
            self._content = json.loads(self._rust.to_str())
        self._plain = _build(guarded(lambda: as_plain(self._content), source), source)
        self._plain.encode_special_tokens = True
        self._frame = self._read_frame(source)

    @staticmethod
    def load(folder: str | Path) -> Tokenizer:
        """The tokenizer in a folder; nothing is fetched from anywhere."""
        content, config = read_folder(Path(folder))
        return Tokenizer(content, config, Path(folder) / "tokenizer.json")

    def told(self, **settings: Any) -> Tokenizer:
        """The same with these settings in its tokenizer_config.json."""
        return Tokenizer(self._content, {**self.config, **settings})

    def save(self, folder: str | Path) -> None:
        """Write the tokenizer as `load` and transformers' `AutoTokenizer` open it."""
        write_folder(Path(folder), self._content, self.config)

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
    ) -> Tokens:
        """Texts, or pairs of texts, as tokens.

        Nothing is cut unless `max_len` says so, and what is cut is in `Tokens.cut`; of a pair, the longer text is
        shortened first, or only the second (`shorten="second"`). `special=False` leaves out the special tokens around
        a text. Special-token strings inside a text are text; with `specials_in_text` they are the tokens they name,
        and those that frame the text anyway are not doubled. `offsets=False` is faster and gives no offsets and words.
        """
        frame = self._frame if special else BARE
        parts = self._pieces(texts, pairs, frame, specials_in_text, offsets)
        items, overhead = frame.items(len(parts) > 1), frame.overhead(len(parts) > 1)
        sources = np.arange(len(parts[0].count))
        cut: list[Cut] = []
        if max_len is not None:
            had = overhead + np.sum([part.count for part in parts], axis=0)  # (B,)
            room = _room(max_len, overhead)
            if shorten == "second" and len(parts) > 1:
                _check_room(room - parts[0].count, max_len)
            kept = fit([part.count for part in parts], room, shorten)
            parts = [part.window(sources, 0, count) for part, count in zip(parts, kept, strict=True)]
            cut = [Cut(int(i), int(had[i]), max_len) for i in np.flatnonzero(had > max_len)]
        return frame_pieces(items, parts, sources, cut)

    def windows(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None = None,
        *,
        max_len: int,
        stride: int,
        specials_in_text: bool = False,
    ) -> Tokens:
        """Long texts as overlapping windows that together hold every token, one sequence a window.

        A window begins `stride` tokens after the one before, or where that one ended if that is sooner. Of a pair
        (a question and its context), each window has the whole first text and a part of the second.
        `Tokens.sources` says which text a window came from, `Tokens.offsets` where in it.
        """
        parts = self._pieces(texts, pairs, self._frame, specials_in_text, True)
        pair, last = len(parts) > 1, parts[-1]
        room = np.full_like(last.count, _room(max_len, self._frame.overhead(pair)))  # (texts,)
        if pair:
            room -= parts[0].count
            _check_room(room, max_len)
        sources, begin, count = split_windows(last.count, room, stride)
        whole = [part.window(sources, 0, part.count[sources]) for part in parts[:-1]]
        return frame_pieces(self._frame.items(pair), [*whole, last.window(sources, begin, count)], sources)

    def decode(self, ids: Sequence[int] | Tensor, *, special: bool = False) -> str:
        """The text of these ids; special tokens are left out unless asked for."""
        return self._rust.decode(self._checked(ids), skip_special_tokens=not special)

    def tokens(self, ids: Sequence[int] | Tensor) -> list[str]:
        """The pieces as the vocabulary writes them."""
        return [self._rust.id_to_token(id) or "" for id in self._checked(ids)]

    def id(self, token: str) -> int | None:
        """The id of a piece or special token; None if the vocabulary has no such thing."""
        return self._rust.token_to_id(token)

    @cached_property
    def vocab_size(self) -> int:
        """One more than the highest id: the rows that an embedding needs."""
        return max(self._rust.get_vocab().values(), default=-1) + 1

    @cached_property
    def specials(self) -> dict[str, str]:
        """The special tokens by role, of `bos`, `eos`, `pad`, `mask` and `unk` those that there are.

        BERT's `[CLS]` is a `bos` and its `[SEP]` an `eos`: what begins and what ends a text.
        """
        found: dict[str, str] = {}
        for role, names in ROLES.items():
            for name in names:
                if role not in found and self.config.get(name):
                    found[role] = added_token(self.config[name]).content
        for role, ids in (("bos", self._frame.opening), ("eos", self._frame.closing)):
            if role not in found and ids:
                found[role] = self.tokens(ids[-1:])[0]
        return found

    @property
    def bos_id(self) -> int | None:
        return self._role("bos")

    @property
    def eos_id(self) -> int | None:
        return self._role("eos")

    @property
    def pad_id(self) -> int | None:
        return self._role("pad")

    @property
    def mask_id(self) -> int | None:
        return self._role("mask")

    @property
    def unk_id(self) -> int | None:
        return self._role("unk")

    @property
    def max_len(self) -> int | None:
        """The longest sequence that the tokenizer's model takes; None if the file does not say."""
        length = self.config.get("model_max_length")
        return int(length) if isinstance(length, int | float) and 0 < length < 1e9 else None

    def fingerprint(self) -> dict[str, str]:
        """Hashes of what the file says and of what it does to the probe texts, and the library's version."""
        plain, named = (self(PROBES, PROBES[::-1], specials_in_text=s, offsets=False) for s in (False, True))
        ids = [part.tolist() for t in (plain, named) for part in t.layout.split(t.ids)]
        return {
            "tokenizer_json": canonical_hash(self._content),
            "probe": probe_hash(ids),
            "tokenizers": library_version(),
        }

    def check(self, fingerprint: Mapping[str, str]) -> None:
        """Raise a ValueError that names what has drifted since this fingerprint was taken."""
        compare(fingerprint, self.fingerprint())

    def _pieces(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None,
        frame: Frame,
        specials_in_text: bool,
        offsets: bool,
    ) -> list[Pieces]:
        given = [texts] if pairs is None else [texts, pairs]
        batches = [[batch] if isinstance(batch, str) else list(batch) for batch in given]
        if len(batches[0]) != len(batches[-1]):
            raise ValueError(f"{len(batches[0])} texts but {len(batches[-1])} pairs: each text needs its partner")
        rust = self._rust if specials_in_text else self._plain
        encode = rust.encode_batch if offsets else rust.encode_batch_fast
        parts: list[Pieces] = []
        for batch in batches:
            try:
                part = Pieces.of(encode(batch, add_special_tokens=False), offsets)
            except Exception as error:  # the library's own have no class of theirs
                raise ValueError(_complaint(batch, error)) from error
            parts.append(part.trim(frame.opening, frame.closing) if specials_in_text else part)
        return parts

    def _read_frame(self, source: Path | str) -> Frame:
        frame = guarded(lambda: read_frame(self._rust), source)
        for item in (*frame.single, *frame.pair):
            if item.part < 0 and self._rust.id_to_token(item.id) is None:
                raise ValueError(f"{source} frames texts with id {item.id}, which its vocabulary does not have")
        return frame

    def _role(self, role: str) -> int | None:
        token = self.specials.get(role)
        return None if token is None else self._rust.token_to_id(token)

    def _checked(self, ids: Sequence[int] | Tensor) -> list[int]:
        listed: list[int] = ids.tolist() if isinstance(ids, Tensor) else list(ids)
        for id in listed:
            if not 0 <= id < self.vocab_size:
                raise ValueError(f"there is no token {id}: the vocabulary has {self.vocab_size}, from 0")
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
            f"max_len is {max_len}, and {overhead} special tokens go around a text: give at least {overhead + 1}"
        )
    return max_len - overhead


def _check_room(room: Integers, max_len: int) -> None:
    for i in np.flatnonzero(room < 1)[:1]:
        raise ValueError(
            f"the first text of pair {i} leaves no room in {max_len} tokens for the second, which alone may be cut: "
            "give a larger max_len or shorten the first text"
        )


def _complaint(batch: Sequence[object], error: Exception) -> str:
    for i, text in enumerate(batch):
        if not isinstance(text, str):
            return f"text {i} is {text!r}, a {type(text).__name__}: give strings"
        if any("\ud800" <= c <= "\udfff" for c in text):
            return f"text {i} holds half a character (a lone surrogate): decode its source as UTF-8"
    return f"the tokenizer cannot read a text: {error}"
