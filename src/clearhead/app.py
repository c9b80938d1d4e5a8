"""The face: a model, its tokenizer and its head in one object."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from clearhead.attention import Seen
from clearhead.attention import look as look_at
from clearhead.attention import without as without_heads
from clearhead.models.embed import BUDGET, Embedded, embed
from clearhead.models.heads import Kind
from clearhead.models.precision import choose_device, choose_dtype
from clearhead.models.sentence import SentenceConfig, read_sentence
from clearhead.models.store import Opened, open_folder, save_folder
from clearhead.text import Tokenizer, Tokens


class App:
    """What `clearhead.load` gives: encode texts, look inside, save.

    `model` is the plain PyTorch module, `tokenizer` turns text into its tokens, `opened` is all that the folder said.
    """

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.model = opened.model
        self.sentence: SentenceConfig = read_sentence(opened.carried)

    @property
    def tokenizer(self) -> Tokenizer:
        """The folder's tokenizer; an error that says what is missing where it has none."""
        if self.opened.tokenizer is None:
            raise ValueError("this folder has no tokenizer that can be read: tokenizer.json, or vocab.txt, is missing")
        return self.opened.tokenizer

    @property
    def max_len(self) -> int | None:
        """The most tokens of a text that are read: the least of what the folder, the tokenizer and the model say."""
        stack = self.opened.config.encoder or self.opened.config.stack
        told = (self.sentence.max_len, self.tokenizer.max_len, stack.limit)
        return min((n for n in told if n is not None), default=None)

    def tokens(self, texts: str | Sequence[str], pairs: str | Sequence[str] | None = None) -> Tokens:
        """Texts as the model reads them: `model.tokens("…")`, then `tokenizer.tokens(ids)` for their names."""
        return self.tokenizer(texts, pairs, max_len=self.max_len)

    def encode(
        self,
        texts: str | Iterable[str],
        *,
        pool: str | None = None,
        normalize: bool | None = None,
        budget: int = BUDGET,
    ) -> Tensor:
        """One vector per text, (len(texts), D), float32; of a single string, its vector (D,).

        Pooling and normalising are the folder's own unless given. A text longer than the model reads is cut, and a
        warning says so.
        """
        alone = isinstance(texts, str)
        many = [texts] if isinstance(texts, str) else texts
        parts = list(self.stream(many, pool=pool, normalize=normalize, budget=budget))
        if cut := sum(part.num_cut for part in parts):
            longest = max(part.longest for part in parts)
            warnings.warn(
                f"{cut} of {sum(len(p.vectors) for p in parts)} texts were cut to the {self.max_len} tokens this model "
                f"reads; the longest had {longest}",
                stacklevel=2,
            )
        width = (self.opened.config.encoder or self.opened.config.stack).width
        vectors = torch.cat([part.vectors for part in parts]) if parts else torch.zeros(0, width)
        return vectors[0] if alone else vectors

    def stream(
        self,
        texts: Iterable[str],
        *,
        pool: str | None = None,
        normalize: bool | None = None,
        budget: int = BUDGET,
    ) -> Iterator[Embedded]:
        """The same batch by batch, for texts without end."""
        config = replace(
            self.sentence,
            pool=self.sentence.pool if pool is None else pool,
            normalize=self.sentence.normalize if normalize is None else normalize,
            max_len=self.max_len,
        )
        return embed(self.model, self.tokenizer, texts, config, budget=budget)

    def look(self, **options: Any) -> AbstractContextManager[Seen]:
        """Watch the attention while the model runs: `with model.look() as seen: model.encode("…")`."""
        return look_at(self.model, **options)

    def without(self, heads: Mapping[str, Sequence[int] | Literal["all"]]) -> AbstractContextManager[None]:
        """Switch heads off while inside."""
        return without_heads(self.model, heads)

    def save(self, folder: str | Path, *, overwrite: bool = False, facts: Mapping[str, Any] | None = None) -> None:
        """Write a folder that `load` and `transformers` open."""
        save_folder(self.opened, folder, overwrite=overwrite, facts=facts)

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.model.parameters())
        return f"App({self.opened.architecture}, {count:,} parameters)"


def load(
    source: str | Path,
    *,
    head: Kind | None = None,
    labels: Iterable[str] | None = None,
    dtype: str | torch.dtype | None = None,
    device: torch.device | str = "cpu",
    revision: str | None = None,
) -> App:
    """Open a model: a folder, or a name on the Hugging Face hub (its cache, revisions and offline mode hold).

    `dtype` is the folder's own unless given; "auto" takes bfloat16 where the device computes in it. `head` with
    `labels` puts a new head on a pre-trained body.
    """
    where = choose_device(device)
    kind = choose_dtype(dtype, where)
    return App(open_folder(source, head=head, labels=labels, dtype=kind, device=where, revision=revision))
