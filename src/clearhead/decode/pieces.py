"""Pieces: tokens to text as they come, so that the pieces put together are the text that all tokens give.

A token may hold half a character, or half of what a decoder of tokens joins. Text is handed out when what follows can
no longer change it; a window of the last tokens is decoded, not all of them again.
"""

from __future__ import annotations

from collections.abc import Sequence

from clearhead.text import Tokenizer

_HALF = "�"  # what an unfinished character looks like


class Pieces:
    """The text of one growing row of tokens; `prompt` comes before it and is not handed out."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._ids = list(prompt)
        self._read = len(self._ids)  # tokens whose text is out
        self._begin = 0  # first token of the window: where the text before last began

    def add(self, id: int, *, last: bool = False) -> str:
        """The text that is certain with this token; with the last one, all that is left."""
        self._ids.append(id)
        known = self._tokenizer.decode(self._ids[self._begin : self._read])
        text = self._tokenizer.decode(self._ids[self._begin :])
        if not last and (len(text) <= len(known) or text.endswith(_HALF)):
            return ""
        self._begin, self._read = self._read, len(self._ids)
        return text[len(known) :]
