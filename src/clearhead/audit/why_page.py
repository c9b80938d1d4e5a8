"""The page behind `clearhead audit --why`: heads by the effect of their ablation, and the attention of the pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from clearhead.audit.estimate_table import STYLE, estimate_table
from clearhead.audit.estimates import AuditedExample
from clearhead.audit.head_effects import AblatedHead, HeadEffects
from clearhead.audit.sentence_likelihood import num_tokens
from clearhead.hub.folder import LoadedModel
from clearhead.viz.page import Preface, page, static_page
from clearhead.viz.record_scene import record_scene
from clearhead.viz.scene import Scene

NUM_SHOWN = 8  # pairs whose attention is in the page
MAX_WEIGHTS = 2**23  # attention weights in the page: 24 MB before compression
MAX_HEADS = 20
HEADS_PER_PAIR = 4

LIMITS = (
    "An ablation shows what the model does without a head, not what the head is for. Other heads may do the same work, "
    "so a small change does not show that a head is not involved, and changes of several heads do not add up.",
    "A model was not trained without a head. Where both sentences become much less likely (last column), the ablation "
    "damages the model in general, and its effect on the preference says little about groups.",
    "Attention weights show where a head reads, not why the model prefers a sentence.",
    "The pairs were chosen by the size of their effect, so the changes are too large for other pairs. The p-values, "
    "corrected for all heads (Holm), are about these pairs.",
)


def why_page(loaded: LoadedModel, heads: HeadEffects, title: str) -> str:
    """Return the page of the heads: a ranked table, and both sentences of the largest pairs in the viewer.

    Pairs that are too long for one page are listed without their attention.
    """
    shown = _pairs_within_limit(loaded, heads)
    if not shown:
        return static_page(title, Preface(html=_preface(heads, title, None, ()), style=STYLE))
    texts = [text for number in shown for text in heads.pairs[number].texts[:2]]
    scene = record_scene(loaded, texts, title="Attention of both sentences", answers=False)
    inputs = [
        replace(given, label=f"{shown[i // 2] + 1}{'ab'[i % 2]}: {given.label}") for i, given in enumerate(scene.inputs)
    ]
    named = replace(scene, inputs=tuple(inputs))
    start = _fragment(named, 0, heads.heads[0])
    return page(named, Preface(html=_preface(heads, title, named, shown), style=STYLE, start=start))


def heads_table(heads: HeadEffects, limit: int, names: Sequence[str] | None = None) -> str:
    """Return the table of the heads with the largest changes; `names` are HTML."""
    ranked = heads.heads[:limit]
    likelihoods = [f"{head.likelihood:+.2f}" for head in ranked]
    changes = [head.change for head in ranked]
    return estimate_table(changes, "adds", "pairs", names=names, extra=("both sentences", likelihoods))


def _pairs_within_limit(loaded: LoadedModel, heads: HeadEffects) -> list[int]:
    """Return the numbers of the first pairs whose attention fits into a page."""
    shown: list[int] = []
    remaining = MAX_WEIGHTS
    for number, pair in enumerate(heads.pairs[:NUM_SHOWN]):
        remaining -= len(heads.heads) * sum(num_tokens(loaded, text) ** 2 for text in pair.texts[:2])
        if remaining < 0:
            break
        shown.append(number)
    return shown


def _preface(heads: HeadEffects, title: str, scene: Scene | None, shown: Sequence[int]) -> str:
    limits = "".join(f"<li>{escape(text)}</li>" for text in LIMITS)
    ranked = heads.heads[:MAX_HEADS]
    names = [_link(scene, 0, head, head.name) for head in ranked]
    pairs = "".join(_pair(heads, number, scene, place) for place, number in enumerate(shown))
    links = " A link shows the head on both sentences of a pair, in the viewer below." if scene is not None else ""
    attention = f"<h2>Pairs with the largest effects</h2><ul>{pairs}</ul>" if shown else (
        '<p class="dim">The pairs are too long for their attention to be shown: see clearhead see --live.</p>'
    )  # fmt: skip
    return (
        f'<div class="audit"><h1>{escape(title)}</h1><p class="dim">The mean preference of the {len(heads.pairs)} '
        f"sentence pairs with the largest effects is {heads.total.value:.2f} in log-likelihood. Each head is ablated "
        "in turn: its output is set to zero. A head adds the mean preference minus that without it: above 0, the model "
        "prefers less without the head. The last column is the change of the log-likelihood of both sentences, on "
        f"average.{links}</p><h2>Limits</h2><ul>{limits}</ul>"
        f"<h2>Heads</h2>{heads_table(heads, MAX_HEADS, names)}{attention}</div>"
    )


def _pair(heads: HeadEffects, number: int, scene: Scene | None, place: int) -> str:
    pair = heads.pairs[number]
    links = ", ".join(
        _link(scene, place, head, f"{head.name} ({head.by_pair[number]:+.2f})")
        for head in heads.of_pair(number, HEADS_PER_PAIR)
    )
    return (
        f'<li class="pair"><p>{number + 1}a: {escape(pair.texts[0])}</p><p>{number + 1}b: {escape(pair.texts[1])}</p>'
        f'<p class="dim">{escape(_about(pair))}. Heads that change it most: {links}</p></li>'
    )


def _about(pair: AuditedExample) -> str:
    likelier = "a" if pair.effect > 0 else "b"
    group = f"{pair.group}: " if pair.group else ""
    return f"{group}{likelier} is more likely, by {abs(pair.effect):.2f}"


def _link(scene: Scene | None, place: int, head: AblatedHead, text: str) -> str:
    """Return a link that shows the head on both sentences of a pair, side by side."""
    if scene is None:
        return escape(text)
    return f'<a href="{_fragment(scene, place, head)}">{escape(text)}</a>'


def _fragment(scene: Scene, place: int, head: AblatedHead) -> str:
    """Return what the viewer shows of a pair: the head on both sentences, words whole, without special tokens."""
    layer = [layer.name for layer in scene.inputs[2 * place].layers].index(head.layer)
    first, second = 2 * place, 2 * place + 1
    return f"#lines.{first}.{layer}.{head.head}.words.nospecial.vs{second}-{layer}-{head.head}"
