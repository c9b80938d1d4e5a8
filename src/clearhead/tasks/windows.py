"""Long texts, or pairs of texts, as overlapping windows that fit the model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clearhead.attention import Layout
from clearhead.data import Columns, InMemoryColumns, Integers, Ragged
from clearhead.tasks.task import Batch
from clearhead.text import TokenBatch, Tokenizer

CHUNK = 1000  # texts tokenized at a time


@dataclass(frozen=True)
class WindowTokenizer:
    """Tokenizes texts into windows of at most `max_len` tokens; consecutive windows overlap by a quarter."""

    tokenizer: Tokenizer
    max_len: int
    segments: bool = False  # the model has segment embeddings for the two texts of a pair

    @property
    def stride(self) -> int:
        return max(1, self.max_len * 3 // 4)

    def read(self, texts: Sequence[str], seconds: Sequence[str] | None = None) -> InMemoryColumns:
        """Return a row for each text: the concatenated ids of its windows, and the length of each window."""
        parts = [
            self._read_chunk(texts[lo : lo + CHUNK], None if seconds is None else seconds[lo : lo + CHUNK])
            for lo in range(0, len(texts), CHUNK)
        ]
        return concat_columns(parts)

    def _read_chunk(self, texts: Sequence[str], seconds: Sequence[str] | None) -> InMemoryColumns:
        if seconds is not None:
            texts = self.halved(texts)
        tokens = self.tokenizer.windows(texts, seconds, max_len=self.max_len, stride=self.stride)
        return windows(tokens, len(texts), self.segments)

    def halved(self, texts: Sequence[str]) -> list[str]:
        """Return the first texts of pairs, truncated so that the second has at least half of a window."""
        limit = self.max_len // 2
        tokens = self.tokenizer(list(texts), special=False)
        assert tokens.offsets is not None
        out = list(texts)
        for i, rows in enumerate(map(tokens.layout.rows, range(len(out)))):
            if rows.stop - rows.start > limit:
                out[i] = out[i][: int(tokens.offsets[rows.start + limit - 1, 1])]
        return out


def windows(tokens: TokenBatch, count: int, segments: bool) -> InMemoryColumns:
    """Return the tokens of windows as columns with a row for each of `count` texts."""
    sizes = np.asarray(tokens.layout.host_lengths, dtype=np.int64)
    per_text = np.bincount(tokens.sources.numpy(), minlength=count)
    ends = np.concatenate([[0], np.cumsum(per_text)])  # in windows
    starts = np.concatenate([[0], np.cumsum(sizes)])[ends]  # in tokens
    columns = {"ids": Ragged(_smallest(tokens.ids.numpy()), starts), "windows": Ragged(_smallest(sizes), ends)}
    return columns | ({"segments": Ragged(tokens.segments.numpy().astype(np.uint8), starts)} if segments else {})


def _smallest(ids: Integers) -> np.ndarray:
    return ids.astype(np.uint16 if ids.max(initial=0) < 2**16 else np.uint32)


def concat_columns(parts: Sequence[InMemoryColumns]) -> dict[str, Ragged]:
    """Concatenate the rows of several parts; without parts, return an empty `ids` column."""
    if not parts:
        return {"ids": Ragged.from_lists([])}
    return {name: _concat([part[name] for part in parts]) for name in parts[0]}


def _concat(parts: Sequence[Ragged]) -> Ragged:
    sizes = np.concatenate([part.lengths() for part in parts])
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Ragged(np.concatenate([part.ids for part in parts]), offsets)


def collate_windows(columns: Columns, examples: Integers, labels: Tensor) -> Batch:
    """Return the windows of these texts as one batch; `example_ids` is the text of each window."""
    ids, _ = columns["ids"].take(examples)
    sizes, counts = columns["windows"].take(examples)
    segments = torch.from_numpy(columns["segments"].take(examples)[0]) if "segments" in columns else None
    example_ids = torch.from_numpy(np.repeat(np.arange(len(examples)), counts))
    layout = Layout.from_lengths(sizes.tolist())
    return Batch(torch.from_numpy(ids), layout, labels, segments=segments, example_ids=example_ids)


def merge_windows(scores: Tensor, batch: Batch, count: int) -> Tensor:
    """Average the scores of windows (W, labels) into those of their texts, (count, labels), weighted by length."""
    assert batch.example_ids is not None
    if len(scores) == count:
        return scores
    sizes = batch.layout.lengths.to(scores.dtype).unsqueeze(1)  # (W, 1)
    total = torch.zeros(count, scores.shape[1], dtype=scores.dtype, device=scores.device)
    weight = torch.zeros(count, 1, dtype=scores.dtype, device=scores.device)
    return total.index_add(0, batch.example_ids, scores * sizes) / weight.index_add(0, batch.example_ids, sizes)
