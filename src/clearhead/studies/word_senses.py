"""Word senses: how well the vectors of an ambiguous word separate its meanings, layer by layer.

Before the first layer a word has the same vector in every context. The measure is whether the nearest neighbor of a
vector, among the same word in other sentences, has the same sense.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from clearhead.models.model import Model
from clearhead.studies.study_results import wilson_interval
from clearhead.text import Tokenizer
from clearhead.viz import Curve, Panel
from clearhead.viz.line_plots import draw_panel
from clearhead.viz.style import COLORS, MARKERS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SENSES: dict[str, dict[str, tuple[str, ...]]] = {
    "bank": {
        "money": (
            "She opened an account at the bank on Monday.", "The bank refused to lend them the money.",
            "He owes the bank more than his house is worth.", "A clerk of the bank counted the notes twice.",
            "The bank charges interest on every loan.", "They robbed the bank in broad daylight.",
            "Her salary is paid into the bank each month.", "The bank was saved by the government.",
        ),
        "river": (
            "They sat on the bank and watched the boats.", "The river burst its bank after the storm.",
            "Willows grow along the muddy bank.", "He pulled the canoe onto the bank.",
            "The fisherman slept on the grassy bank.", "Otters dug a hole in the steep bank.",
            "We swam to the far bank of the stream.", "The bank was slippery with wet leaves.",
        ),
    },
    "bat": {
        "animal": (
            "A bat flew out of the cave at dusk.", "The bat hangs upside down from a branch.",
            "We saw a bat hunting moths above the barn.", "The bat finds its way by its own echo.",
            "A small brown bat slept behind the shutter.", "The bat folded its wings and squeaked.",
        ),
        "sport": (
            "He swung the bat and missed the ball.", "The bat broke when she hit the pitch.",
            "A wooden bat is heavier than it looks.", "She gripped the bat and waited for the throw.",
            "The umpire checked the bat before the match.", "His new bat was a present from the coach.",
        ),
    },
    "spring": {
        "season": (
            "The trees blossom in spring.", "We shall move house next spring.",
            "After a cold winter spring came early.", "In spring the swallows return.",
            "The garden is at its best in late spring.", "Lambs are born in spring.",
        ),
        "coil": (
            "The spring in the mattress is broken.", "A steel spring pushes the valve shut.",
            "He wound the spring of the old clock.", "The lid is held by a small spring.",
            "The spring stretched under the weight.", "Oil the spring so that it does not squeak.",
        ),
    },
    "match": {
        "game": (
            "Our team lost the match by one goal.", "The match was stopped because of rain.",
            "Thousands came to watch the match.", "She won the tennis match in two sets.",
            "The referee ended the match too early.", "He was injured in the first match of the season.",
        ),
        "fire": (
            "He struck a match to light the candle.", "The match went out in the wind.",
            "She held a match to the dry paper.", "A single match can burn down a forest.",
            "The last match in the box was wet.", "He lit his pipe with a match.",
        ),
    },
    "seal": {
        "animal": (
            "A seal lay on the rocks in the sun.", "The seal dived after a fish.",
            "We heard the seal bark on the beach.", "The seal pup waited for its mother.",
            "A grey seal swam beside the boat.", "The seal slid from the ice into the water.",
        ),
        "closure": (
            "The seal on the letter was broken.", "A rubber seal keeps the water out.",
            "The king pressed his seal into the wax.", "Check the seal of the jar before you eat.",
            "The pump leaks because its seal is worn.", "The document bears the seal of the court.",
        ),
    },
}  # fmt: skip


@dataclass(frozen=True)
class LayerAccuracy:
    """Nearest-neighbor accuracy of one layer; layer 0 is the token embedding."""

    layer: int
    right: float  # vectors whose nearest neighbor has the same sense; ties count with their chance
    of: int
    low: float  # 95 % confidence interval (Wilson)
    high: float

    @property
    def share(self) -> float:
        return 100.0 * self.right / self.of


@dataclass(frozen=True)
class ProjectedSentence:
    """A sentence of the plotted word, projected to two dimensions."""

    sentence: str
    sense: str
    x: float
    y: float


@dataclass(frozen=True)
class WordSenses:
    """Results of the study."""

    model: str
    words: tuple[str, ...]
    depths: tuple[LayerAccuracy, ...]
    drawn: str  # plotted word
    best: int  # layer with the highest accuracy
    places: tuple[ProjectedSentence, ...]
    explained: float  # variance of the two axes, in percent


def measure(
    model: Model, tokenizer: Tokenizer, name: str, senses: Mapping[str, Mapping[str, Sequence[str]]] = SENSES,
    *, drawn: str = "bank",
) -> WordSenses:  # fmt: skip
    """Compare the vectors of every word across its sentences at every layer."""
    sentences = {word: [(text, sense) for sense, texts in by.items() for text in texts] for word, by in senses.items()}
    vectors = {word: vectors_of(model, tokenizer, word, [text for text, _ in rows]) for word, rows in sentences.items()}
    depths: list[LayerAccuracy] = []
    for layer in range(next(iter(vectors.values())).shape[0]):
        right, total = 0.0, 0
        for word, rows in sentences.items():
            senses_of = [sense for _, sense in rows]
            for i, near in enumerate(_nearest(vectors[word][layer])):
                same = senses_of.count(senses_of[i]) - 1
                right += same / (len(rows) - 1) if near is None else senses_of[i] == senses_of[near]
            total += len(rows)
        depths.append(LayerAccuracy(layer, round(right, 2), total, *wilson_interval(right, total)))
    best = max(depths, key=lambda depth: depth.right).layer
    flat, explained = _pca(vectors[drawn][best])
    drawn_at = zip(sentences[drawn], flat.tolist(), strict=True)
    places = [ProjectedSentence(text, sense, *map(float, xy)) for (text, sense), xy in drawn_at]
    return WordSenses(name, tuple(sentences), tuple(depths), drawn, best, tuple(places), round(explained, 1))


@torch.inference_mode()
def vectors_of(model: Model, tokenizer: Tokenizer, word: str, texts: Sequence[str]) -> Tensor:
    """Return the word's vector in each text, for the token embedding and each layer, (layers + 1, texts, D)."""
    stack = model.encoder if model.encoder is not None else model.decoder
    assert stack is not None
    tokens = tokenizer(list(texts))
    assert tokens.offsets is not None
    layers: list[Tensor] = []

    def capture(module: nn.Module, args: object, x: Tensor) -> None:
        layers.append(x)

    hooks = [block.register_forward_hook(capture) for block in stack.blocks]
    try:
        model.eval().hidden_states(tokens.ids, tokens.layout)
    finally:
        for hook in hooks:
            hook.remove()
    layers.insert(0, stack.embedding.tokens(tokens.ids))  # type: ignore[union-attr]
    rows: list[list[int]] = []
    ends = [0, *torch.tensor(tokens.layout.host_lengths).cumsum(0).tolist()]
    for i, text in enumerate(texts):
        start = text.lower().find(word)
        inside = [
            n for n in range(ends[i], ends[i + 1])
            if tokens.offsets[n][0] < start + len(word) and tokens.offsets[n][1] > start
        ]  # fmt: skip
        if start < 0 or not inside:
            raise ValueError(f"{text!r} does not contain the word {word!r}")
        rows.append(inside)
    return torch.stack([torch.stack([x[row].float().mean(0) for row in rows]) for x in layers])


def _nearest(x: Tensor) -> list[int | None]:
    """Return the index of the nearest vector by cosine; None where all are equally near."""
    unit = torch.nn.functional.normalize(x, dim=1)
    cosine = (unit @ unit.T).fill_diagonal_(-2.0)
    ranges = [float(row[row > -2.0].max() - row[row > -2.0].min()) for row in cosine]
    return [None if wide < 1e-5 else int(row.argmax()) for row, wide in zip(cosine, ranges, strict=True)]


def _pca(x: Tensor) -> tuple[Tensor, float]:
    """Project vectors to their first two principal components; returns them and the explained variance in percent."""
    centered = x - x.mean(0)
    u, s, _ = torch.linalg.svd(centered, full_matrices=False)
    return u[:, :2] * s[:2], 100.0 * float((s[:2] ** 2).sum() / (s**2).sum())


def draw(measured: WordSenses) -> Figure:
    """Plot the accuracy by layer, and the projected sentences of one word."""
    depths = measured.depths
    layers, shares = [float(d.layer) for d in depths], [d.share for d in depths]
    curve = Curve("", layers, shares, [d.low for d in depths], [d.high for d in depths])
    panel = Panel(
        [curve], "layer (0: token embedding)", "nearest neighbor with the same sense (%)",
        f"{len(measured.words)} words, with 95 % confidence intervals",
        labelled=False, ticks=[(float(d.layer), str(d.layer)) for d in depths],
    )  # fmt: skip
    with new_figure(11.2, 4.4, f"Word senses: {measured.model}") as figure:
        draw_panel(figure.add_subplot(1, 2, 1), panel, 4.4)
        axes = figure.add_subplot(1, 2, 2)
        axes.set_title(f"“{measured.drawn}” after layer {measured.best}")
        for number, sense in enumerate(dict.fromkeys(p.sense for p in measured.places)):
            points = [p for p in measured.places if p.sense == sense]
            axes.scatter([p.x for p in points], [p.y for p in points], label=sense, s=36,
                         color=COLORS[number], marker=MARKERS[number])  # fmt: skip
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel(f"first two principal components, {measured.explained:.0f} % of the variance")
        axes.legend(frameon=False)
    return figure
