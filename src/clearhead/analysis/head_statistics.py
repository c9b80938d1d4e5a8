"""Head statistics over a corpus: what each head attends to on average, and the loss it saves.

Documents are processed in chunks. Only sums are kept; they are saved after each chunk, so that an interrupted run
resumes from the last chunk and ends with the same bits.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.attention import AttentionMap, ablate_heads
from clearhead.attention.capture import look
from clearhead.files import write_atomic
from clearhead.hub.folder import LoadedModel
from clearhead.layers import POOLINGS
from clearhead.models.heads import LMHead
from clearhead.text.token_batch import TokenBatch

CHUNK_DOCUMENTS = 32  # documents between two checkpoints
STATISTICS = ("entropy", "distance", "first", "previous", "next", "same", "special")  # names of the statistics


@dataclass(frozen=True)
class HeadSums:
    """Running sums. `statistics` are summed over queries, by layer and head, in the order of FIGURES."""

    documents: int = 0
    tokens: int = 0
    queries: int = 0
    statistics: tuple[tuple[tuple[float, ...], ...], ...] = ()  # (layers, heads, statistics)
    ablated_losses: tuple[tuple[float, ...], ...] = ()  # (layers, heads): loss without the head, summed over documents
    full_loss: float = 0.0  # loss of the unchanged model, summed over the same documents
    ablated_documents: int = 0  # number of documents in both loss sums


@dataclass(frozen=True)
class HeadRow:
    """Mean statistics of one head."""

    layer: str
    head: int
    entropy: float
    distance: float
    first: float
    previous: float
    next: float
    same: float
    special: float
    effect: float | None  # mean increase of a document's loss when the head is ablated


def sum_statistics(view: AttentionMap, sequence: int, special: Tensor) -> Tensor:
    """Return the statistics of each head, summed over queries that are not special tokens: (H, statistics)."""
    weights = view.heads(sequence).double()  # (H, T, S)
    T, S = weights.shape[1:]
    offset = torch.arange(S) - torch.arange(T).view(-1, 1)  # (T, S), key position minus query position
    per_query = (
        torch.special.entr(weights).sum(-1),
        (weights * offset.abs()).sum(-1),
        weights[:, :, 0],
        (weights * (offset == -1)).sum(-1),
        (weights * (offset == 1)).sum(-1),
        (weights * (offset == 0)).sum(-1),
        (weights * special[:S]).sum(-1),
    )
    return torch.stack([values[:, ~special[:T]].sum(-1) for values in per_query], dim=-1)


def head_statistics(
    loaded: LoadedModel,
    documents: Iterable[str],
    state: Path | None = None,
    *,
    effects: int = 64,
    on_progress: Callable[[HeadSums], None] = lambda sums: None,
) -> tuple[list[str], HeadSums]:
    """Return the names of the self-attention layers and the sums of their head statistics over the documents.

    The first `effects` documents are also run with each head ablated in turn. With `state`, the sums are saved to that
    file after each chunk, and an existing file is resumed. `on_progress` is called after each chunk.
    """
    if loaded.config.encoder is not None and loaded.config.decoder is not None:
        raise ValueError(
            "head statistics support encoders and decoder-only models, and this is an encoder-decoder: "
            "use `clearhead see` to look at its attention"
        )
    layers, head_counts = _self_attention_layers(loaded)
    fingerprint = _fingerprint(loaded, effects)
    sums = _read_state(state, fingerprint) or HeadSums(
        statistics=tuple(tuple((0.0,) * len(STATISTICS) for _ in range(count)) for count in head_counts),
        ablated_losses=tuple((0.0,) * count for count in head_counts),
    )
    remaining = iter(documents)
    for _ in islice(remaining, sums.documents):
        pass  # in the resumed sums already
    while chunk := list(islice(remaining, CHUNK_DOCUMENTS)):
        sums = _add_chunk(loaded, layers, sums, chunk, effects)
        if state is not None:
            write_atomic(state, json.dumps({"fingerprint": fingerprint, **asdict(sums)}))
        on_progress(sums)
    if not sums.documents:
        raise ValueError("there are no documents: give a file with at least one text")
    return layers, sums


def head_rows(layers: Sequence[str], sums: HeadSums) -> list[HeadRow]:
    rows: list[HeadRow] = []
    for layer, heads, losses in zip(layers, sums.statistics, sums.ablated_losses, strict=True):
        for head, (statistics, loss) in enumerate(zip(heads, losses, strict=True)):
            means = {name: total / max(sums.queries, 1) for name, total in zip(STATISTICS, statistics, strict=True)}
            effect = (loss - sums.full_loss) / sums.ablated_documents if sums.ablated_documents else None
            rows.append(HeadRow(layer=layer, head=head, effect=effect, **means))
    return rows


def _add_chunk(
    loaded: LoadedModel, layers: Sequence[str], sums: HeadSums, chunk: Sequence[str], effects: int
) -> HeadSums:
    tokenizer = loaded.require_tokenizer
    tokens = tokenizer(list(chunk), max_len=loaded.max_len, offsets=False)
    special_ids = {tokenizer.id(name) for name in tokenizer.specials.values()}
    special = torch.tensor([int(i) in special_ids for i in tokens.ids])
    statistics = [torch.tensor(heads, dtype=torch.float64) for heads in sums.statistics]
    with torch.inference_mode():
        with look(loaded.model, kinds=("self",)) as capture:
            _hidden_states(loaded, tokens)
        masks = tokens.layout.split(special)
        for layer, name in enumerate(layers):
            for i, mask in enumerate(masks):
                statistics[layer] += sum_statistics(capture[name], i, mask)
        ablated = chunk[: max(0, effects - sums.ablated_documents)]
        losses, full_loss = sums.ablated_losses, sums.full_loss
        if ablated:
            losses, full_loss = _add_losses(loaded, layers, sums, ablated)
    return replace(
        sums,
        documents=sums.documents + len(chunk),
        tokens=sums.tokens + len(tokens.ids),
        queries=sums.queries + int((~special).sum()),
        statistics=tuple(tuple(tuple(row) for row in heads.tolist()) for heads in statistics),
        ablated_losses=losses,
        full_loss=full_loss,
        ablated_documents=sums.ablated_documents + len(ablated),
    )


def _add_losses(
    loaded: LoadedModel, layers: Sequence[str], sums: HeadSums, texts: Sequence[str]
) -> tuple[tuple[tuple[float, ...], ...], float]:
    """Add the losses of these texts to the sums: with each head ablated in turn, and of the full model."""
    tokens = loaded.require_tokenizer(list(texts), max_len=loaded.max_len, offsets=False)
    full = _hidden_states(loaded, tokens)
    full_loss = float(_loss(loaded, tokens, full, full).sum())
    losses: list[tuple[float, ...]] = []
    for layer, totals in zip(layers, sums.ablated_losses, strict=True):
        row: list[float] = []
        for head, total in enumerate(totals):
            with ablate_heads(loaded.model, {layer: [head]}):
                row.append(total + float(_loss(loaded, tokens, _hidden_states(loaded, tokens), full).sum()))
        losses.append(tuple(row))
    return tuple(losses), sums.full_loss + full_loss


def _hidden_states(loaded: LoadedModel, tokens: TokenBatch) -> Tensor:
    segments = tokens.segments if loaded.has_segments else None
    return loaded.model.hidden_states(tokens.ids, tokens.layout, segments=segments)


def _loss(loaded: LoadedModel, tokens: TokenBatch, x: Tensor, full: Tensor) -> Tensor:
    """Return one loss per text.

    For a language model: cross-entropy in nats per token. For an encoder: 1 - cosine similarity of the mean-pooled
    vector with that of the full model.
    """
    head = loaded.model.head
    if loaded.model.decoder is not None and isinstance(head, LMHead):
        logits = head(x, tokens.layout).float()
        parts = zip(tokens.layout.split(logits), tokens.layout.split(tokens.ids), strict=True)
        return torch.stack([F.cross_entropy(a[:-1], b[1:]) if len(b) > 1 else a.sum() * 0 for a, b in parts]).double()
    pool = POOLINGS["mean"]
    vectors = pool(x.float(), tokens.layout), pool(full.float(), tokens.layout)
    return 1 - F.cosine_similarity(*vectors, dim=-1).double()


def _self_attention_layers(loaded: LoadedModel) -> tuple[list[str], list[int]]:
    tokens = loaded.require_tokenizer("a", offsets=False)
    with torch.inference_mode(), look(loaded.model, kinds=("self",)) as capture:
        _hidden_states(loaded, tokens)
    layers = [name for name in capture if capture.has(name)]
    if not layers:
        raise ValueError(f"{loaded.architecture} has no self-attention: head statistics need a Transformer")
    return layers, [capture[name].num_heads for name in layers]


def _fingerprint(loaded: LoadedModel, effects: int) -> str:
    """Return a hash of the model's weights (names, shapes, sums) and of the settings; a resumed run must match it."""
    digest = hashlib.sha256(f"{loaded.architecture} {effects} {CHUNK_DOCUMENTS}".encode())
    for name, weight in loaded.model.state_dict().items():
        digest.update(f"{name} {tuple(weight.shape)} {float(weight.double().sum())!r}".encode())
    return digest.hexdigest()


def _read_state(state: Path | None, fingerprint: str) -> HeadSums | None:
    if state is None or not state.exists():
        return None
    try:
        saved: Mapping[str, Any] = json.loads(state.read_text(encoding="utf-8"))
        if saved["fingerprint"] != fingerprint:
            raise ValueError(
                f"{state} was written for a different model or different settings: delete it or choose another --out"
            )
        return HeadSums(
            documents=saved["documents"],
            tokens=saved["tokens"],
            queries=saved["queries"],
            statistics=tuple(tuple(tuple(head) for head in layer) for layer in saved["statistics"]),
            ablated_losses=tuple(tuple(layer) for layer in saved["ablated_losses"]),
            full_loss=saved["full_loss"],
            ablated_documents=saved["ablated_documents"],
        )
    except (KeyError, TypeError, json.JSONDecodeError):
        raise ValueError(f"{state} is not a readable state file: delete it to start over") from None
