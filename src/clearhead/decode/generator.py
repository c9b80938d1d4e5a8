"""A generative model with its tokenizer and the generation defaults of its folder, and batches of similar length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from clearhead.attention import Layout
from clearhead.attention.capture.look import is_captured
from clearhead.decode.beam import BeamConfig, BeamHypothesis, search
from clearhead.decode.continuous import decode_steps
from clearhead.decode.sampler import SamplingParams
from clearhead.decode.state import initial_state
from clearhead.files.safe import parse_json
from clearhead.hub.folder import LoadedModel
from clearhead.hub.generation_config import GenerationDefaults, read_defaults
from clearhead.models.heads import LMHead
from clearhead.models.model import Model
from clearhead.text import Tokenizer
from clearhead.vision import Patches

Source = Sequence[int] | Tensor
"""What an encoder reads, or a prompt: token ids, or an image (3, H, W)."""

WINDOW = 2048  # texts sorted by length together
BATCH_TOKENS = 4096  # source or prompt tokens per batch
MAX_HYPOTHESES = 512  # per batch


def batches(sizes: Sequence[int], beam: int, batch_tokens: int = BATCH_TOKENS) -> list[list[int]]:
    """Return the indices of the texts of each batch, longest first, so that peak memory is reached at once.

    Texts of similar length share a batch, so that little is padded and few wait for the longest.
    """
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens is {batch_tokens}: give at least 1")
    limit = max(1, MAX_HYPOTHESES // beam)
    out: list[list[int]] = []
    total = 0
    for i in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        if not out or len(out[-1]) >= limit or total + sizes[i] > batch_tokens:
            out.append([])
            total = 0
        out[-1].append(i)
        total += sizes[i]
    return out


@dataclass(frozen=True, eq=False)
class TextGenerator:
    """The model that `translate` and `generate` run."""

    model: Model
    tokenizer: Tokenizer
    defaults: GenerationDefaults
    max_positions: int | None = None  # of the decoder; None: unlimited
    max_source_len: int | None = None  # of the encoder

    @staticmethod
    def from_model(loaded: LoadedModel) -> TextGenerator:
        """Create the generator of a loaded model; raises ValueError where it does not generate text."""
        if loaded.config.decoder is None or not isinstance(loaded.model.head, LMHead):
            raise ValueError(f"{loaded.architecture} does not generate text: load a translation or language model")
        tokenizer = loaded.require_tokenizer
        name = "generation_config.json"
        generation = parse_json(loaded.extra_files[name], name) if name in loaded.extra_files else None
        source = None if loaded.config.encoder is None else loaded.config.encoder.max_positions
        read = [n for n in (source, tokenizer.max_len) if n is not None]
        max_source_len = min(read, default=None) if loaded.config.encoder is not None else None
        defaults, max_positions = read_defaults(generation, loaded.hf_config), loaded.config.decoder.max_positions
        return TextGenerator(loaded.model, tokenizer, defaults, max_positions, max_source_len)

    def beam(
        self, size: int | None = None, *, length_penalty: float | None = None, nbest: int = 1, default: int = 1
    ) -> BeamConfig:
        """Return beam search parameters: as given, else the folder's, else a beam of `default`."""
        beam_size = size if size is not None else self.defaults.num_beams if self.defaults.num_beams > 1 else default
        return BeamConfig(
            size=max(beam_size, nbest) if size is None else beam_size,
            length_penalty=self.defaults.length_penalty if length_penalty is None else length_penalty,
            early_stopping=self.defaults.early_stopping,
            nbest=nbest,
        )

    @property
    def translates(self) -> bool:
        """Whether it has an encoder, which reads a source; otherwise it continues a prompt."""
        return self.model.encoder is not None

    @property
    def reads_images(self) -> bool:
        """Whether a source is an image (3, H, W) instead of token ids."""
        return self.model.encoder is not None and isinstance(self.model.encoder.embedding, Patches)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(iter(self.model.parameters())).device

    @property
    def start(self) -> int:
        """The id that the decoder reads first."""
        if self.defaults.constraints.start_token_id is None:
            raise ValueError("the folder has no start token: add decoder_start_token_id to config.json")
        return self.defaults.constraints.start_token_id

    def token_budget(self, read: int, wanted: int | None, fallback: int) -> int:
        """Return the maximum of new tokens after `read` tokens; raises ValueError where `wanted` does not fit."""
        # the last token is generated and never read
        room = None if self.max_positions is None else self.max_positions - read + 1
        if room is not None and room < 1:
            raise ValueError(
                f"the prompt has {read} tokens, but the model has {self.max_positions} positions: shorten the prompt"
            )
        if wanted is not None:
            if wanted < 1:
                raise ValueError(f"max_new_tokens is {wanted}: give at least 1")
            if room is not None and wanted > room:
                raise ValueError(
                    f"{wanted} new tokens after {read} do not fit: the model has {self.max_positions} positions; "
                    f"give at most {room}"
                )
            return wanted
        budget = self.defaults.max_new_tokens
        if budget is None:
            budget = fallback if self.defaults.max_len is None else max(1, self.defaults.max_len - read)
        return budget if room is None else min(budget, room)

    def search(self, sources: Sequence[Source], beam: BeamConfig, max_new_tokens: int) -> list[list[BeamHypothesis]]:
        """Return the best hypotheses for each source, or after each prompt."""
        results: list[list[BeamHypothesis]] = [[] for _ in sources]
        if not sources:
            return results
        ids, layout, first, prompts = self.inputs(sources)
        state = initial_state(self.model, ids, layout)
        constraints = self.defaults.constraints
        if beam.size > 1:
            for number, best in search(state, first, constraints, beam, max_new_tokens, prompts):
                results[number] = best
            return results
        written: list[list[int]] = [[] for _ in sources]
        sums = [0.0] * len(sources)
        for step in decode_steps(
            state, first, constraints, [SamplingParams()] * len(sources), [max_new_tokens] * len(sources), prompts
        ):
            for number, token, score in zip(step.sequences.tolist(), step.tokens.tolist(), step.scores.tolist()):
                written[number].append(token)
                is_forced = constraints.forced_eos_token_ids and len(written[number]) == max_new_tokens
                sums[number] += 0.0 if is_forced else score  # as in a beam
        for number, tokens in enumerate(written):
            score = sums[number] / float(len(tokens)) ** beam.length_penalty
            results[number] = [BeamHypothesis(tuple(tokens), score, constraints.ended(tokens, max_new_tokens))]
        return results

    def inputs(self, sources: Sequence[Source]) -> tuple[Tensor, Layout, Tensor, list[list[int]]]:
        """Return the inputs of `initial_state`: ids and layout, the first token of each row, and all tokens read."""
        if self.translates:
            ids, layout = self._sources(sources)
            first, prompts = [self.start] * len(sources), [[self.start]] * len(sources)
        else:
            prompts = [list(cast(Sequence[int], source)) for source in sources]
            ids, layout = self._sources([prompt[:-1] for prompt in prompts])
            first = [prompt[-1] for prompt in prompts]
        return ids, layout, torch.tensor(first, device=self.device), prompts

    def _sources(self, sources: Sequence[Source]) -> tuple[Tensor, Layout]:
        """Return what the encoder reads, or prompts: token ids, or images."""
        if self.reads_images:
            if not all(isinstance(source, Tensor) for source in sources):
                raise ValueError("this model reads images, not texts: use `caption`")
            assert self.model.encoder is not None
            first = next(iter(self.model.parameters()))
            pixels = torch.stack([cast(Tensor, source) for source in sources]).to(first)
            return pixels, cast(Patches, self.model.encoder.embedding).layout(pixels)
        rows = [cast(Sequence[int], source) for source in sources]
        ids = torch.tensor([id for row in rows for id in row], dtype=torch.int64, device=self.device)
        return ids, Layout.from_lengths([len(row) for row in rows], device=self.device)

    def attend(self, sources: Sequence[Source], targets: Sequence[Sequence[int]]) -> None:
        """Run the model once over complete texts, so that captured attention is that of each generated token."""
        if not self.translates:
            pairs = zip(sources, targets, strict=True)
            self.model.hidden_states(*self._sources([[*cast(Sequence[int], s), *t[:-1]] for s, t in pairs]))
            return
        read = [[self.start, *t[:-1]] for t in targets]  # what each step read: all but the last token
        target = torch.tensor([id for row in read for id in row], dtype=torch.int64, device=self.device)
        target_layout = Layout.from_lengths([len(row) for row in read], device=self.device)
        self.model.hidden_states(*self._sources(sources), target, target_layout)

    @property
    def is_captured(self) -> bool:
        """Whether the model is inside `look` or `ablate_heads`."""
        return is_captured(self.model)
