"""Writer: a model that writes, with its tokenizer and what its folder says about writing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.attention import Layout
from clearhead.attention.look import is_watched
from clearhead.decode.beam import Beam, Found, search
from clearhead.decode.pick import Sampling
from clearhead.decode.roll import roll
from clearhead.decode.rules import Defaults, read_defaults
from clearhead.decode.state import start
from clearhead.files.safe import parse_json
from clearhead.models.heads import Vocabulary
from clearhead.models.model import Model
from clearhead.models.store import Opened
from clearhead.text import Tokenizer


@dataclass(frozen=True, eq=False)
class Writer:
    """What `translate` and `generate` run."""

    model: Model
    tokenizer: Tokenizer
    defaults: Defaults
    limit: int | None = None  # positions of the decoder; None: no end
    source_limit: int | None = None  # tokens that the encoder reads

    @staticmethod
    def of(opened: Opened) -> Writer:
        """The writer in a folder that was opened; ValueError where there is none."""
        if opened.config.decoder is None or not isinstance(opened.model.head, Vocabulary):
            raise ValueError(f"{opened.architecture} does not write: load a translator or a language model")
        tokenizer = opened.words
        name = "generation_config.json"
        told = parse_json(opened.carried[name], name) if name in opened.carried else None
        source = None if opened.config.encoder is None else opened.config.encoder.limit
        read = [n for n in (source, tokenizer.max_len) if n is not None]
        return Writer(
            opened.model,
            tokenizer,
            read_defaults(told, opened.raw),
            opened.config.decoder.limit,
            min(read, default=None) if opened.config.encoder is not None else None,
        )

    @property
    def translates(self) -> bool:
        """Does it read a source? Otherwise it goes on from a prompt."""
        return self.model.encoder is not None

    @property
    def device(self) -> torch.device:
        return next(iter(self.model.parameters())).device

    @property
    def start(self) -> int:
        """What a decoder reads before its first token."""
        if self.defaults.rules.start is None:
            raise ValueError("the folder does not say what a text starts with: put decoder_start_token_id into config")
        return self.defaults.rules.start

    def room(self, read: int, wanted: int | None, fallback: int) -> int:
        """How many new tokens may follow `read` of them; what was asked for in so many words must fit."""
        room = None if self.limit is None else self.limit - read + 1  # the last token is written and never read
        if room is not None and room < 1:
            raise ValueError(
                f"the prompt has {read} tokens, but the model's positions end at {self.limit}: shorten the prompt"
            )
        if wanted is not None:
            if wanted < 1:
                raise ValueError(f"{wanted} new tokens: ask for at least 1")
            if room is not None and wanted > room:
                raise ValueError(
                    f"{wanted} new tokens after {read} do not fit: the model's positions end at {self.limit}; "
                    f"ask for at most {room}"
                )
            return wanted
        told = self.defaults.max_new
        if told is None:
            told = fallback if self.defaults.max_len is None else max(1, self.defaults.max_len - read)
        return told if room is None else min(told, room)

    def search(self, sources: Sequence[Sequence[int]], beam: Beam, max_new: int) -> list[list[Found]]:
        """The best hypotheses for each source, or after each prompt."""
        found: list[list[Found]] = [[] for _ in sources]
        if not sources:
            return found
        ids, layout, first, prompts = self.inputs(sources)
        state = start(self.model, ids, layout)
        rules = self.defaults.rules
        if beam.size > 1:
            for number, best in search(state, first, rules, beam, max_new, prompts):
                found[number] = best
            return found
        written: list[list[int]] = [[] for _ in sources]
        sums = [0.0] * len(sources)
        for step in roll(state, first, rules, [Sampling()] * len(sources), [max_new] * len(sources), prompts):
            for number, token, score in zip(step.sequences.tolist(), step.tokens.tolist(), step.scores.tolist()):
                written[number].append(token)
                sums[number] += score
        for number, tokens in enumerate(written):
            score = sums[number] / float(len(tokens)) ** beam.length_penalty
            found[number] = [Found(tuple(tokens), score, rules.ended(tokens, max_new))]
        return found

    def inputs(self, sources: Sequence[Sequence[int]]) -> tuple[Tensor, Layout, Tensor, list[list[int]]]:
        """What a state starts from: ids and layout, the first tokens to read, and what was read before, per row."""
        if self.translates:
            parts, first = sources, [self.start] * len(sources)
            prompts = [[self.start]] * len(sources)
        else:
            parts, first = [source[:-1] for source in sources], [source[-1] for source in sources]
            prompts = [list(source) for source in sources]
        ids = torch.tensor([id for part in parts for id in part], dtype=torch.int64, device=self.device)
        layout = Layout.of([len(part) for part in parts], device=self.device)
        return ids, layout, torch.tensor(first, device=self.device), prompts

    def attend(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> None:
        """Run the model once over whole texts, so that whoever looks sees each token attend as it was written."""
        source = torch.tensor([id for s in sources for id in s], dtype=torch.int64, device=self.device)
        layout = Layout.of([len(s) for s in sources], device=self.device)
        if not self.translates:
            whole = [[*s, *t[:-1]] for s, t in zip(sources, targets, strict=True)]
            ids = torch.tensor([id for row in whole for id in row], dtype=torch.int64, device=self.device)
            self.model.states(ids, Layout.of([len(row) for row in whole], device=self.device))
            return
        read = [[self.start, *t[:-1]] for t in targets]  # what each step read, not the last token written
        target = torch.tensor([id for row in read for id in row], dtype=torch.int64, device=self.device)
        self.model.states(source, layout, target, Layout.of([len(row) for row in read], device=self.device))

    @property
    def is_watched(self) -> bool:
        """Is somebody looking at the model?"""
        return is_watched(self.model)
