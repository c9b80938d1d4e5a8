"""The running text that language models are studied on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from clearhead.data.sets import locate

SHAKESPEARE = "tinyshakespeare:input.txt"


@dataclass(frozen=True)
class Corpus:
    """A text as a recipe names it."""

    name: str
    base: Path  # where the name begins, if it is a path
    hold_out: int  # lines kept for validation

    @staticmethod
    def of(file: Path | None = None) -> Corpus:
        """The text in a file; without one, tiny Shakespeare, which `clearhead data tinyshakespeare` brings."""
        base, name = (Path(), SHAKESPEARE) if file is None else (file.resolve().parent, file.name)
        with locate(name, base).open("rb") as text:
            lines = sum(1 for _ in text)
        return Corpus(name, base, max(1, min(1000, lines // 20)))

    @property
    def part(self) -> dict[str, str]:
        """The text as the data of a recipe."""
        return {"text": self.name}
