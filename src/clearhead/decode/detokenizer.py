"""Streaming detokenization: the concatenated chunks equal the text of all tokens.

A token may end inside a character, or inside a unit that the tokenizer joins. Text is returned once later tokens can no
longer change it; only a window of the last tokens is decoded at each step.
"""

from collections.abc import Sequence

from clearhead.text import Tokenizer

_INCOMPLETE = "�"  # the decoding of an incomplete character


class StreamDetokenizer:
    """Converts the tokens of one sequence to text; the text of `prompt` is not returned."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._ids = list(prompt)
        self._read = len(self._ids)  # tokens whose text was returned
        self._begin = 0  # first token of the window

    def add(self, id: int, *, last: bool = False) -> str:
        """Return the text that is complete with this token; with `last`, all remaining text."""
        self._ids.append(id)
        known = self._tokenizer.decode(self._ids[self._begin : self._read])
        text = self._tokenizer.decode(self._ids[self._begin :])
        if not last and (len(text) <= len(known) or text.endswith(_INCOMPLETE)):
            return ""
        self._begin, self._read = self._read, len(self._ids)
        return text[len(known) :]
