"""The face: a model, its tokenizer and its head in one object."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, overload

import torch
from torch import Tensor

from clearhead.attention import without as without_heads
from clearhead.decode import (
    Beam,
    Generation,
    Piece,
    Translation,
    Writer,
    generate,
    pieces,
    reply,
    samplings,
    translate,
)  # fmt: skip
from clearhead.models.embed import BUDGET, Embedded, embed
from clearhead.models.heads import Kind
from clearhead.models.precision import choose_device, choose_dtype
from clearhead.models.sentence import SentenceConfig, read_sentence
from clearhead.models.store import Opened, open_folder, save_folder
from clearhead.see import Sight
from clearhead.see import look as look_at
from clearhead.tasks import Answered, Classified, Classify, Pair, Qa, Tag, Tagged
from clearhead.text import Tokenizer, Tokens
from clearhead.text.tokens import Cut


class App:
    """What `clearhead.load` gives: encode texts, translate them, go on with them, look inside, save.

    `model` is the plain PyTorch module, `tokenizer` turns text into its tokens, `opened` is all that the folder said.
    """

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.model = opened.model
        self.sentence: SentenceConfig = read_sentence(opened.carried)

    @property
    def tokenizer(self) -> Tokenizer:
        """The folder's tokenizer; an error that says what is missing where it has none."""
        return self.opened.words

    @property
    def max_len(self) -> int | None:
        """The most tokens of a text that are read: the least of what the folder, the tokenizer and the model say."""
        return min((n for n in (self.sentence.max_len, self.opened.max_len) if n is not None), default=None)

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

    @cached_property
    def writer(self) -> Writer:
        """The part that writes; ValueError where the model does not."""
        return Writer.of(self.opened)

    def beam(
        self, size: int | None = None, *, length_penalty: float | None = None, nbest: int = 1, default: int = 1
    ) -> Beam:
        """How to search: as asked, else as the folder says, else with a beam of `default`."""
        told = self.writer.defaults
        wanted = size if size is not None else told.beam if told.beam > 1 else default
        return Beam(
            size=max(wanted, nbest) if size is None else wanted,
            length_penalty=told.length_penalty if length_penalty is None else length_penalty,
            early_stopping=told.early_stopping,
            nbest=nbest,
        )

    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, *, beam: int | None = None, length_penalty: float | None = None, nbest: int = 1,
        max_len: int | None = None, align: bool = False,
    ) -> Translation: ...  # fmt: skip

    @overload
    def translate(
        self, texts: Iterable[str], *, beam: int | None = None, length_penalty: float | None = None, nbest: int = 1,
        max_len: int | None = None, align: bool = False,
    ) -> list[Translation]: ...  # fmt: skip

    def translate(
        self,
        texts: str | Iterable[str],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        nbest: int = 1,
        max_len: int | None = None,
        align: bool = False,
    ) -> Translation | list[Translation]:
        """Translations in the order of the texts; of a single string, its translation.

        `beam` and `length_penalty` are the folder's own unless given (a beam of 5 where it says nothing); 1 is greedy.
        `nbest` keeps more hypotheses, `max_len` limits the tokens written, `align` adds which token was read for which.
        Inside `look`, the attention of the finished translations is seen, and not the search.
        """
        many = [texts] if isinstance(texts, str) else list(texts)
        how = self.beam(beam, length_penalty=length_penalty, nbest=nbest, default=5)
        found: dict[int, Translation] = {}
        cut: list[Cut] = []
        for done, short in translate(self.writer, many, how, max_new=max_len, align=align):
            found.update(done)
            cut += short
        if cut:
            warnings.warn(
                f"{len(cut)} of {len(many)} texts were cut to the {cut[0].kept} tokens this model reads; "
                f"the longest had {max(c.had for c in cut)}",
                stacklevel=2,
            )
        ordered = [found[i] for i in range(len(many))]
        return ordered[0] if isinstance(texts, str) else ordered

    @overload
    def generate(  # type: ignore[overload-overlap]
        self, prompts: str, *, max_new: int | None = None, temperature: float | None = None, top_k: int | None = None,
        top_p: float | None = None, seed: int | Sequence[int] | None = None, beam: int = 1,
    ) -> Generation: ...  # fmt: skip

    @overload
    def generate(
        self, prompts: Iterable[str], *, max_new: int | None = None, temperature: float | None = None,
        top_k: int | None = None, top_p: float | None = None, seed: int | Sequence[int] | None = None, beam: int = 1,
    ) -> list[Generation]: ...  # fmt: skip

    def generate(
        self,
        prompts: str | Iterable[str],
        *,
        max_new: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | Sequence[int] | None = None,
        beam: int = 1,
    ) -> Generation | list[Generation]:
        """What the model writes after each prompt; of a single string, after that.

        It writes the likeliest token unless a temperature, `top_k` or `top_p` ask for chance. A request with the same
        seed gives the same text, alone or among others; one without gets a seed of its own, and the result tells it.
        """
        many = [prompts] if isinstance(prompts, str) else list(prompts)
        draws = samplings(self.writer, len(many), temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
        how = None
        if beam != 1:
            if any(draw.temperature > 0 for draw in draws):
                raise ValueError("beam search draws nothing: give a beam, or temperature, top_k and top_p")
            how = self.beam(beam)
        results = generate(self.writer, many, draws, max_new=max_new, beam=how)
        return results[0] if isinstance(prompts, str) else results

    def pieces(
        self,
        prompts: str | Iterable[str],
        *,
        max_new: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | Sequence[int] | None = None,
    ) -> Iterator[Piece]:
        """The same token by token, as it is written: `for piece in model.pieces("Once"): print(piece.text, end="")`."""
        many = [prompts] if isinstance(prompts, str) else list(prompts)
        draws = samplings(self.writer, len(many), temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
        return pieces(self.writer, many, draws, max_new=max_new)

    def reply(
        self,
        turns: Sequence[str],
        *,
        max_new: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> tuple[int, Iterator[Piece]]:
        """What is said next in a dialogue, token by token, and how many of the oldest turns the model cannot read."""
        (draw,) = samplings(self.writer, 1, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
        return reply(self.writer, turns, draw, max_new=max_new)

    @overload
    def classify(self, texts: str, pairs: str | None = None) -> Classified: ...  # type: ignore[overload-overlap]

    @overload
    def classify(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> list[Classified]: ...

    def classify(
        self, texts: str | Sequence[str], pairs: str | Sequence[str] | None = None
    ) -> Classified | list[Classified]:
        """What each text is called, or each pair of texts: a label, several or a number, with the scores of all labels.

        A text longer than the model reads is read in windows.
        """
        if isinstance(texts, str):
            return self.classify([texts], None if pairs is None else [str(pairs)])[0]
        if pairs is None:
            return list(Classify.of(self.opened).answers(self.model, [texts]))
        if isinstance(pairs, str) or len(pairs) != len(texts):
            raise ValueError(f"{len(texts)} texts and {len(pairs)} to go with them: give one for each")
        return list(Pair.of(self.opened).answers(self.model, [texts, pairs]))

    @overload
    def tag(self, texts: str) -> Tagged: ...  # type: ignore[overload-overlap]

    @overload
    def tag(self, texts: Sequence[str | Sequence[str]]) -> list[Tagged]: ...

    def tag(self, texts: str | Sequence[str | Sequence[str]]) -> Tagged | list[Tagged]:
        """The tags of the words of each text, and the names they mark; a text may be a list of words."""
        if isinstance(texts, str):
            return self.tag([texts])[0]
        return list(Tag.of(self.opened).answers(self.model, texts))

    @overload
    def qa(self, question: str, context: str, *, nbest: int = 5) -> Answered: ...  # type: ignore[overload-overlap]

    @overload
    def qa(self, question: Sequence[str], context: Sequence[str], *, nbest: int = 5) -> list[Answered]: ...

    def qa(
        self, question: str | Sequence[str], context: str | Sequence[str], *, nbest: int = 5
    ) -> Answered | list[Answered]:
        """Where the answer to a question stands in its context, of any length; of several, each in its own."""
        if isinstance(question, str):
            return self.qa([question], [str(context)], nbest=nbest)[0]
        if isinstance(context, str) or len(context) != len(question):
            raise ValueError(f"{len(question)} questions and {len(context)} contexts: give one for each")
        return list(Qa.of(self.opened).answers(self.model, question, context, nbest=nbest))

    def look(self, **options: Any) -> AbstractContextManager[Sight]:
        """Watch the attention while the model runs: `with model.look() as seen: model.encode("…")`, `seen.show()`."""
        return look_at(self, **options)

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
    """Open a model: a folder, a name on the Hugging Face hub (its cache, revisions and offline mode hold), or
    `package:NAME`, the model that an installed Python package carries.

    `dtype` is the folder's own unless given; "auto" takes bfloat16 where the device computes in it. `head` with
    `labels` puts a new head on a pre-trained body.
    """
    where = choose_device(device)
    kind = choose_dtype(dtype, where)
    return App(open_folder(source, head=head, labels=labels, dtype=kind, device=where, revision=revision))
