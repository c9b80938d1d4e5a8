"""Heads over a corpus: what each of them looks at, on average, and what is lost without it.

Documents are read one chunk after another; sums are all that is kept, and they are written down after each chunk, so
that a run that was stopped goes on where it was and ends with the same bits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.attention import View, look, without
from clearhead.files import write_atomic
from clearhead.layers import POOLINGS
from clearhead.models.heads import Vocabulary
from clearhead.models.store import Opened
from clearhead.see.paper import LIGHT, Theme, paper
from clearhead.text.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHUNK = 32  # documents between two savings
FIGURES = ("entropy", "distance", "first", "previous", "next", "same", "special")


@dataclass(frozen=True)
class Sums:
    """What has been added up so far; `figures` are sums over queries, by layer and head, in the order of FIGURES."""

    documents: int = 0
    tokens: int = 0
    queries: int = 0
    figures: tuple[tuple[tuple[float, ...], ...], ...] = ()  # (layers, heads, figures)
    losses: tuple[tuple[float, ...], ...] = ()  # (layers, heads): the loss without a head, added up over documents
    whole: float = 0.0  # the loss of the whole model, added up
    measured: int = 0  # documents that the losses are of


@dataclass(frozen=True)
class Head:
    """One line of the table."""

    layer: str
    head: int
    entropy: float
    distance: float
    first: float
    previous: float
    next: float
    same: float
    special: float
    effect: float | None  # what its absence adds to the loss of a document, on average


def tally(view: View, sequence: int, special: Tensor) -> Tensor:
    """The figures of each head, summed over the queries that are not special tokens, (H, figures)."""
    weights = view.heads(sequence).double()  # (H, T, S)
    T, S = weights.shape[1:]
    at_q = torch.arange(T).view(-1, 1)
    gap = torch.arange(S) - at_q
    found = (
        torch.special.entr(weights).sum(-1),
        (weights * gap.abs()).sum(-1),
        weights[:, :, 0],
        (weights * (gap == -1)).sum(-1),
        (weights * (gap == 1)).sum(-1),
        (weights * (gap == 0)).sum(-1),
        (weights * special[:S]).sum(-1),
    )
    return torch.stack([figure[:, ~special[:T]].sum(-1) for figure in found], dim=-1)


def survey(
    opened: Opened,
    documents: Iterable[str],
    state: Path | None = None,
    *,
    effects: int = 64,
    told: Callable[[Sums], None] = lambda sums: None,
) -> tuple[list[str], Sums]:
    """Add up the figures of every self-attention over documents; the first `effects` of them also without each head.

    With `state`, sums are kept in that file after each chunk, and a run that finds it goes on from there.
    """
    if opened.config.encoder is not None and opened.config.decoder is not None:
        raise ValueError(
            "heads are surveyed in encoders and decoders alone; look into a translator with `clearhead see`"
        )
    names, shape = _layers(opened)
    fingerprint = _fingerprint(opened, effects)
    sums = _read(state, fingerprint) or Sums(
        figures=tuple(tuple((0.0,) * len(FIGURES) for _ in range(h)) for h in shape),
        losses=tuple((0.0,) * h for h in shape),
    )
    stream = iter(documents)
    for _ in islice(stream, sums.documents):
        pass  # read before
    while chunk := list(islice(stream, CHUNK)):
        sums = _add(opened, names, sums, chunk, effects)
        if state is not None:
            write_atomic(state, json.dumps({"fingerprint": fingerprint, **asdict(sums)}))
        told(sums)
    if not sums.documents:
        raise ValueError("no documents: give a file with at least one text")
    return names, sums


def table(names: Sequence[str], sums: Sums) -> list[Head]:
    """The averages, a line for each head."""
    lines: list[Head] = []
    for name, heads, losses in zip(names, sums.figures, sums.losses, strict=True):
        for head, (figures, loss) in enumerate(zip(heads, losses, strict=True)):
            means = {n: f / max(sums.queries, 1) for n, f in zip(FIGURES, figures, strict=True)}
            effect = (loss - sums.whole) / sums.measured if sums.measured else None
            lines.append(Head(layer=name, head=head, effect=effect, **means))
    return lines


def write_parquet(lines: Sequence[Head], path: Path) -> None:
    """The table as a Parquet file."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ValueError("Parquet files need pyarrow: pip install 'clearhead[parquet]'") from None
    part = path.with_name(path.name + ".partial")
    pq.write_table(pa.Table.from_pylist([asdict(line) for line in lines]), part)
    part.replace(path)


def draw_survey(lines: Sequence[Head], title: str, theme: Theme = LIGHT) -> Figure:
    """Every head as a cell, a panel for each figure."""
    layers = list(dict.fromkeys(line.layer for line in lines))
    wide = max(line.head for line in lines) + 1
    figures = [*FIGURES, *(["effect"] if lines[0].effect is not None else [])]
    tall = -(-len(figures) // 4)
    with paper(11.5, tall * (0.27 * len(layers) + 1.1) + 0.5, title, theme) as figure:
        for axes, name in zip(figure.subplots(tall, 4, squeeze=False).flat, [*figures, *[None] * 8], strict=False):
            if name is None:
                axes.axis("off")
                continue
            grid = torch.full((len(layers), wide), float("nan"))
            for line in lines:
                grid[layers.index(line.layer), line.head] = getattr(line, name)
            bound = float(grid.nan_to_num().abs().max()) or 1.0
            signed = name == "effect"
            limits = {"vmin": -bound, "vmax": bound} if signed else {"vmin": 0, "vmax": None}
            if name in ("first", "previous", "next", "same", "special"):
                limits = {"vmin": 0, "vmax": 1}
            shown = axes.imshow(grid.numpy(), cmap="PuOr_r" if signed else theme.shades, aspect="auto", **limits)
            axes.set_title(_TITLES[name])
            axes.set_xticks(range(0, wide, 2))
            axes.set_yticks(range(len(layers)), layers if axes.get_subplotspec().is_first_col() else [])  # type: ignore[union-attr]
            figure.colorbar(shown, ax=axes, shrink=0.9, pad=0.02)
    return figure


_TITLES = {
    "entropy": "entropy (nats)",
    "distance": "distance (tokens)",
    "first": "on the first token",
    "previous": "on the token before",
    "next": "on the token after",
    "same": "on itself",
    "special": "on special tokens",
    "effect": "loss added without it",
}


def texts_of(path: Path) -> Iterator[str]:
    """The texts of a JSONL file (its "text"), or the lines of any other."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            if path.suffix not in (".jsonl", ".json"):
                yield line.rstrip("\n")
                continue
            try:
                yield str(json.loads(line)["text"])
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise ValueError(f'{path}:{number}: each line is an object with a "text" ({error})') from None


def _add(opened: Opened, names: Sequence[str], sums: Sums, chunk: Sequence[str], effects: int) -> Sums:
    tokens = opened.words(list(chunk), max_len=opened.max_len, offsets=False)
    ids = {opened.words.id(name) for name in opened.words.specials.values()}
    special = torch.tensor([int(i) in ids for i in tokens.ids])
    figures = [torch.tensor(heads, dtype=torch.float64) for heads in sums.figures]
    with torch.inference_mode():
        with look(opened.model, kinds=("self",)) as seen:
            _run(opened, tokens)
        masks = tokens.layout.split(special)
        for layer, name in enumerate(names):
            for i, mask in enumerate(masks):
                figures[layer] += tally(seen[name], i, mask)
        few = range(min(len(chunk), max(0, effects - sums.measured)))
        losses, whole = _effects(opened, names, sums, [chunk[i] for i in few]) if few else (sums.losses, sums.whole)
    return replace(
        sums,
        documents=sums.documents + len(chunk),
        tokens=sums.tokens + len(tokens.ids),
        queries=sums.queries + int((~special).sum()),
        figures=tuple(tuple(tuple(row) for row in heads.tolist()) for heads in figures),
        losses=losses,
        whole=whole,
        measured=sums.measured + len(few),
    )


def _effects(
    opened: Opened, names: Sequence[str], sums: Sums, texts: Sequence[str]
) -> tuple[tuple[tuple[float, ...], ...], float]:
    """The loss of these texts, whole and without each head in turn, added to what there is."""
    tokens = opened.words(list(texts), max_len=opened.max_len, offsets=False)
    whole = _run(opened, tokens)
    base = float(_loss(opened, tokens, whole, whole).sum())
    losses = []
    for name, heads in zip(names, sums.losses, strict=True):
        row = []
        for head, before in enumerate(heads):
            with without(opened.model, {name: [head]}):
                row.append(before + float(_loss(opened, tokens, _run(opened, tokens), whole).sum()))
        losses.append(tuple(row))
    return tuple(losses), sums.whole + base


def _run(opened: Opened, tokens: Tokens) -> Tensor:
    return opened.model.states(tokens.ids, tokens.layout, segments=tokens.segments if opened.has_segments else None)


def _loss(opened: Opened, tokens: Tokens, x: Tensor, whole: Tensor) -> Tensor:
    """A loss for each text: of a language model, nats a token; of an encoder, 1 - cosine with the whole's vector."""
    head = opened.model.head
    if opened.model.decoder is not None and isinstance(head, Vocabulary):
        logits = head(x, tokens.layout).float()
        parts = zip(tokens.layout.split(logits), tokens.layout.split(tokens.ids), strict=True)
        return torch.stack([F.cross_entropy(a[:-1], b[1:]) if len(b) > 1 else a.sum() * 0 for a, b in parts]).double()
    pool = POOLINGS["mean"]
    found = pool(x.float(), tokens.layout), pool(whole.float(), tokens.layout)
    return 1 - F.cosine_similarity(*found, dim=-1).double()


def _layers(opened: Opened) -> tuple[list[str], list[int]]:
    tokens = opened.words("a", offsets=False)
    with torch.inference_mode(), look(opened.model, kinds=("self",)) as seen:
        _run(opened, tokens)
    names = [name for name in seen if seen.has(name)]
    if not names:
        raise ValueError("this model has no self-attention to survey")
    return names, [seen[name].num_heads for name in names]


def _fingerprint(opened: Opened, effects: int) -> str:
    """What must be the same for sums to be added up: the weights' shapes and values at a glance, and the settings."""
    digest = hashlib.sha256(f"{opened.architecture} {effects} {CHUNK}".encode())
    for name, weight in opened.model.state_dict().items():
        digest.update(f"{name} {tuple(weight.shape)} {float(weight.double().sum())!r}".encode())
    return digest.hexdigest()


def _read(state: Path | None, fingerprint: str) -> Sums | None:
    if state is None or not state.exists():
        return None
    try:
        held: Mapping[str, Any] = json.loads(state.read_text(encoding="utf-8"))
        if held["fingerprint"] != fingerprint:
            raise ValueError(f"{state} is of another model or other settings: remove it, or give another --out")
        return Sums(
            documents=held["documents"],
            tokens=held["tokens"],
            queries=held["queries"],
            figures=tuple(tuple(tuple(h) for h in layer) for layer in held["figures"]),
            losses=tuple(tuple(layer) for layer in held["losses"]),
            whole=held["whole"],
            measured=held["measured"],
        )
    except (KeyError, TypeError, json.JSONDecodeError):
        raise ValueError(f"{state} cannot be read as what an earlier run left: remove it") from None
