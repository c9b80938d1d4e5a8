"""Escapes special tokens: makes a tokenizer treat special-token strings in text as plain text."""

import secrets
from typing import Any


def escape_specials(content: dict[str, Any]) -> dict[str, Any]:
    """Returns a tokenizer.json whose model cannot produce a special token from text.

    `encode_special_tokens` alone stops the search for special strings, but not the model: the vocabulary of a unigram
    model includes `</s>` with the best score, and byte pairs that were trained on markup merge into `<s>`. Such a token
    keeps its id under a random name that no text contains, and the merges that lead to it are removed.
    """
    model: dict[str, Any] = content["model"]
    vocab: dict[str, int] | list[list[Any]] = model["vocab"]
    known = set(vocab) if isinstance(vocab, dict) else {piece for piece, _ in vocab}
    specials = {token["content"] for token in content["added_tokens"] if token["special"]}
    reachable = {s for s in specials & known if len(s) > 1}  # a single letter declared special stays: text needs it
    renamed = dict(zip(reachable, (f"{s}{secrets.token_hex(16)}" for s in reachable)))

    updates: dict[str, Any] = {}
    if isinstance(vocab, dict):
        updates["vocab"] = {renamed.get(piece, piece): id for piece, id in vocab.items()}
    else:
        updates["vocab"] = [[renamed.get(piece, piece), score] for piece, score in vocab]
    if "merges" in model:
        updates["merges"] = [m for m in model["merges"] if not _touches(m, reachable)]
    if model.get("unk_token") in renamed:
        updates["unk_token"] = renamed[model["unk_token"]]
    added = [token for token in content["added_tokens"] if token["content"] not in reachable]
    return content | {"model": model | updates, "added_tokens": added}


def _touches(merge: str | list[str], pieces: set[str]) -> bool:
    left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
    return left in pieces or right in pieces or left + right in pieces
