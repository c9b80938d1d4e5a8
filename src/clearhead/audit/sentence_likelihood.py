"""How likely a language model finds sentences: log-likelihood, and pseudo-log-likelihood of masked models."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.attention import Layout
from clearhead.audit.run_in_chunks import OnProgress, no_progress
from clearhead.hub.folder import LoadedModel
from clearhead.metrics.bootstrap import Numbers
from clearhead.models.heads import LMHead, PretrainingHead
from clearhead.tasks.embed_texts import batches
from clearhead.text import Tokenizer

BATCH_TOKENS = 8192
CHUNK_TOKENS = 512  # whose scores over the vocabulary are in memory

LikelihoodKind = Literal["masked", "causal"]


def likelihood_kind(loaded: LoadedModel) -> LikelihoodKind:
    """Return how a model scores sentences; ValueError where it is no language model."""
    head, has_encoder = loaded.model.head, loaded.model.encoder is not None
    if isinstance(head, PretrainingHead) or (isinstance(head, LMHead) and loaded.model.decoder is None):
        if loaded.require_tokenizer.mask_id is None:
            raise ValueError(f"{loaded.architecture} has a tokenizer without a mask token: it cannot score sentences")
        return "masked"
    if isinstance(head, LMHead) and not has_encoder:
        return "causal"
    raise ValueError(
        f"{loaded.architecture} gives sentences no likelihood: sentence pairs need a masked or a causal language model"
    )


def shared_places(first: Sequence[int], second: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the places of the tokens that two sentences share, in both."""
    blocks = SequenceMatcher(None, first, second).get_matching_blocks()
    return (
        [block.a + i for block in blocks for i in range(block.size)],
        [block.b + i for block in blocks for i in range(block.size)],
    )


def num_tokens(loaded: LoadedModel, text: str) -> int:
    """Return how many tokens a model reads to score a text."""
    tokenizer = loaded.require_tokenizer
    if likelihood_kind(loaded) == "masked":
        return len(tokenizer(text, offsets=False).ids)
    return len(_start(tokenizer)) + len(tokenizer(text, special=False, offsets=False).ids)


def _start(tokenizer: Tokenizer) -> Tensor:
    """Return the first token that the tokenizer puts before texts, or a newline where it puts none."""
    start = tokenizer("", offsets=False).ids[:1]
    return start if len(start) else tokenizer("\n", special=False, offsets=False).ids


@torch.inference_mode()
def pseudo_log_likelihoods(
    loaded: LoadedModel, pairs: Sequence[tuple[str, str]], on_progress: OnProgress = no_progress
) -> Numbers:
    """Return the sum of log p of the tokens that the texts of a pair share, each masked in turn, (n, 2).

    This is the score of Nangia et al. (2020): tokens in which the two differ are read, but not scored.
    """
    tokenizer = loaded.require_tokenizer
    assert tokenizer.mask_id is not None
    mask = torch.tensor(tokenizer.mask_id)
    masked: list[Tensor] = []  # a text for each token that is scored
    places: list[int] = []
    targets: list[int] = []
    owners: list[tuple[int, int]] = []  # the pair, and which of its texts
    for number, pair in enumerate(pairs):
        tokens = [tokenizer(text, max_len=loaded.max_len, offsets=False) for text in pair]
        for side, shared in enumerate(shared_places(*(one.ids.tolist() for one in tokens))):
            ids, is_special = tokens[side].ids, (tokens[side].parts < 0).tolist()
            for place in shared:
                if not is_special[place]:
                    masked.append(torch.where(torch.arange(len(ids)) == place, mask, ids))
                    places.append(place)
                    targets.append(int(ids[place]))
                    owners.append((number, side))
    sums, done = np.zeros((len(pairs), 2)), 0
    for count in batches((len(ids) for ids in masked), BATCH_TOKENS):
        some = slice(done, done + count)
        scores = _log_probabilities(loaded, masked[some], [[place] for place in places[some]], targets[some])
        np.add.at(sums, tuple(np.array(owners[some]).T), scores.numpy())
        done += count
        on_progress(done, len(masked))
    return sums


@torch.inference_mode()
def log_likelihoods(
    loaded: LoadedModel, texts: Sequence[str], on_progress: OnProgress = no_progress
) -> tuple[Numbers, Numbers]:
    """Return the log-likelihood of each text, (n,), and its number of tokens.

    A text follows the first token that the tokenizer puts before texts, or a newline where it puts none.
    """
    tokenizer = loaded.require_tokenizer
    start = _start(tokenizer)
    ids = [torch.cat([start, tokenizer(text, special=False, offsets=False).ids]) for text in texts]
    sizes = [len(one) - len(start) for one in ids]
    sums, done = np.zeros(len(texts)), 0
    for count in batches((len(one) for one in ids), BATCH_TOKENS):
        some = slice(done, done + count)
        before = [list(range(len(start) - 1, len(one) - 1)) for one in ids[some]]  # the token before each
        targets = torch.cat([one[len(start) :] for one in ids[some]]).tolist()
        scores = _log_probabilities(loaded, ids[some], before, targets)
        sums[some] = [float(part.sum()) for part in scores.split(sizes[some])]
        done += count
        on_progress(done, len(ids))
    return sums, np.array(sizes)


def _log_probabilities(
    loaded: LoadedModel, texts: Sequence[Tensor], places: Sequence[Sequence[int]], targets: Sequence[int]
) -> Tensor:
    """Return log p of the targets, given the hidden states at these places of each text, float64."""
    layout = Layout.from_lengths([len(ids) for ids in texts])
    firsts = layout.offsets[:-1].tolist()
    rows = torch.tensor(
        [first + place for first, of in zip(firsts, places, strict=True) for place in of], dtype=torch.int64
    )
    ids = torch.cat(list(texts))
    segments = torch.zeros_like(ids) if loaded.has_segments else None
    x = loaded.model.eval().hidden_states(ids, layout, segments=segments).index_select(0, rows)
    head = loaded.model.head.words if isinstance(loaded.model.head, PretrainingHead) else loaded.model.head
    assert isinstance(head, LMHead)
    wanted = torch.tensor(targets, dtype=torch.int64)
    losses = [
        F.cross_entropy(head.output(head.pre_logits(some)).float(), target, reduction="none")
        for some, target in zip(x.split(CHUNK_TOKENS), wanted.split(CHUNK_TOKENS), strict=True)
    ]
    return -torch.cat(losses).double()
