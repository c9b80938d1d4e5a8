"""Plain text: a tokenizer to which special-token strings are text like any other."""

from __future__ import annotations

import secrets
from typing import Any


def as_plain(content: dict[str, Any]) -> dict[str, Any]:
    """A tokenizer.json whose model cannot reach a special token from text.

    `encode_special_tokens` alone stops the search for special strings, but not the model: the pieces of a unigram
    model include `</s>` with the best of scores, and byte pairs that were trained on markup merge into `<s>`. Here
    such a piece keeps its id under a name that no text can hold, and the merges that lead to it go.
    """
    model: dict[str, Any] = content["model"]
    vocab: dict[str, int] | list[list[Any]] = model["vocab"]
    known = set(vocab) if isinstance(vocab, dict) else {piece for piece, _ in vocab}
    specials = {token["content"] for token in content["added_tokens"] if token["special"]}
    reachable = {s for s in specials & known if len(s) > 1}  # a letter declared special stays: text needs it
    name = dict(zip(reachable, (f"{s}{secrets.token_hex(16)}" for s in reachable)))

    changed: dict[str, Any] = {}
    if isinstance(vocab, dict):
        changed["vocab"] = {name.get(piece, piece): id for piece, id in vocab.items()}
    else:
        changed["vocab"] = [[name.get(piece, piece), score] for piece, score in vocab]
    if "merges" in model:
        changed["merges"] = [m for m in model["merges"] if not _touches(m, reachable)]
    if model.get("unk_token") in name:
        changed["unk_token"] = name[model["unk_token"]]
    added = [token for token in content["added_tokens"] if token["content"] not in reachable]
    return content | {"model": model | changed, "added_tokens": added}


def _touches(merge: str | list[str], pieces: set[str]) -> bool:
    left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
    return left in pieces or right in pieces or left + right in pieces
