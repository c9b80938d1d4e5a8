"""Documents: texts, or pairs of them, as the windows that a model can read; a long one has several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clearhead.data import Columns, Held, Integers, Ragged
from clearhead.tasks.task import Batch
from clearhead.tasks.words import layout_of, tensor
from clearhead.text import Tokenizer, Tokens

CHUNK = 1000  # texts given to the tokenizer at a time


@dataclass(frozen=True)
class Reader:
    """Reads texts in windows of at most `max_len` tokens, of which a quarter is what the last one ended with."""

    tokenizer: Tokenizer
    max_len: int
    segments: bool = False  # the model tells the two texts of a pair apart

    @property
    def stride(self) -> int:
        """From the beginning of one window to the next."""
        return max(1, self.max_len * 3 // 4)

    def read(self, texts: Sequence[str], seconds: Sequence[str] | None = None) -> Held:
        """A row for each text: the ids of its windows one after another, and how long each of them is."""
        parts = [
            self._some(texts[lo : lo + CHUNK], None if seconds is None else seconds[lo : lo + CHUNK])
            for lo in range(0, len(texts), CHUNK)
        ]
        return joined(parts)

    def _some(self, texts: Sequence[str], seconds: Sequence[str] | None) -> Held:
        if seconds is not None:
            texts = self.halved(texts)
        tokens = self.tokenizer.windows(texts, seconds, max_len=self.max_len, stride=self.stride)
        return windows(tokens, len(texts), self.segments)

    def halved(self, texts: Sequence[str]) -> list[str]:
        """The first texts of pairs, cut where they would leave the second less than half of a window."""
        room = self.max_len // 2
        tokens = self.tokenizer(list(texts), special=False)
        assert tokens.offsets is not None
        out = list(texts)
        for i, rows in enumerate(map(tokens.layout.rows, range(len(out)))):
            if rows.stop - rows.start > room:
                out[i] = out[i][: int(tokens.offsets[rows.start + room - 1, 1])]
        return out


def windows(tokens: Tokens, count: int, segments: bool) -> Held:
    """Tokens of windows as columns with a row for each of `count` texts."""
    sizes = np.asarray(tokens.layout.sizes, dtype=np.int64)
    per_text = np.bincount(tokens.sources.numpy(), minlength=count)
    ends = np.concatenate([[0], np.cumsum(per_text)])  # in windows
    starts = np.concatenate([[0], np.cumsum(sizes)])[ends]  # in tokens
    columns = {"ids": Ragged(_small(tokens.ids.numpy()), starts), "windows": Ragged(_small(sizes), ends)}
    return columns | ({"segments": Ragged(tokens.segments.numpy().astype(np.uint8), starts)} if segments else {})


def _small(ids: Integers) -> np.ndarray:
    return ids.astype(np.uint16 if ids.max(initial=0) < 2**16 else np.uint32)


def joined(parts: Sequence[Held]) -> dict[str, Ragged]:
    """The rows of several parts, one after another; without any, a column without rows."""
    if not parts:
        return {"ids": Ragged.of([])}
    return {name: _after_one_another([part[name] for part in parts]) for name in parts[0]}


def _after_one_another(parts: Sequence[Ragged]) -> Ragged:
    sizes = np.concatenate([part.lengths() for part in parts])
    return Ragged(
        np.concatenate([part.ids for part in parts]), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    )


def gathered(columns: Columns, examples: Integers, labels: Tensor) -> Batch:
    """The windows of these texts as one batch; `owners` says whose they are."""
    ids, _ = columns["ids"].take(examples)
    sizes, counts = columns["windows"].take(examples)
    segments = tensor(columns["segments"].take(examples)[0]) if "segments" in columns else None
    owners = tensor(np.repeat(np.arange(len(examples)), counts))
    return Batch(tensor(ids), layout_of(sizes), labels, segments=segments, owners=owners)


def stitched(scores: Tensor, batch: Batch, count: int) -> Tensor:
    """The scores of windows (W, labels) as those of their texts, (count, labels): the mean by length."""
    assert batch.owners is not None
    if len(scores) == count:
        return scores
    sizes = batch.layout.lengths.to(scores.dtype).unsqueeze(1)  # (W, 1)
    total = torch.zeros(count, scores.shape[1], dtype=scores.dtype, device=scores.device)
    weight = torch.zeros(count, 1, dtype=scores.dtype, device=scores.device)
    return total.index_add(0, batch.owners, scores * sizes) / weight.index_add(0, batch.owners, sizes)
