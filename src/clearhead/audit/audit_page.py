"""The page of an audit. It is static: no script, everything escaped."""

from collections.abc import Sequence
from html import escape

from clearhead.audit.audit_plots import shown_estimates
from clearhead.audit.estimates import MIN_ROWS, AuditedExample, Estimate, SuiteResult
from clearhead.audit.head_effects import HeadEffects

MAX_EXAMPLES, MAX_HEADS = 12, 20

STYLE = """
:root { color-scheme: light dark; --line: #d8d8d4; --dim: #6b6b66; --bar: #1f6fb2; --flag: #c2410c; --ideal: #556372; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3a3a3d; --dim: #9a9a96; --bar: #7ea6ee; --flag: #f59e6c; --ideal: #b8c4d0; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; } p.about, .dim { color: var(--dim); }
table { border-collapse: collapse; margin: .8rem 0; width: 100%; }
th { text-align: left; vertical-align: bottom; font-weight: 600; border-bottom: 1px solid var(--line);
  padding: .15rem .8rem .15rem 0; }
td { padding: .15rem .8rem .15rem 0; vertical-align: middle; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.axis { width: 38%; min-width: 10rem; } svg { display: block; width: 100%; height: 16px; }
.flag { color: var(--flag); font-weight: 600; } li { margin: .3rem 0; overflow-wrap: anywhere; }
@media (max-width: 40rem) { td.axis { display: none; } }
"""


def audit_page(results: Sequence[SuiteResult], title: str, heads: HeadEffects | None = None) -> str:
    """Return the page: the estimates of each suite with their intervals, the examples with the largest effects."""
    sections = "".join(_suite(result) for result in results) + ("" if heads is None else _heads(heads))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{STYLE}</style><h1>{escape(title)}</h1>"
        '<p class="about">Lines are 95 % intervals (bootstrap), the dotted mark is the value without this bias. '
        '<span class="flag">Marked</span> values differ from it with p &lt; 0.05, corrected for all values of the '
        f"suite (Holm). Groups of fewer than {MIN_ROWS} rows are not tested. A suite measures what its sentences "
        "contain: a value near the ideal one does not show that a model is fair.</p>"
        f"{sections}</html>\n"
    )


def _suite(result: SuiteResult) -> str:
    estimates = shown_estimates(result)
    hidden = len(result.estimates) - len(estimates)
    low = min((min(e.low, e.value if e.ideal is None else e.ideal) for e in estimates), default=0.0)
    high = max((max(e.high, e.value if e.ideal is None else e.ideal) for e in estimates), default=1.0)
    rows = "".join(_row(e, low, high) for e in estimates)
    notes = [*result.notes, *([f"{hidden} further estimates are in the record"] if hidden else [])]
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return (
        f'<h2>{escape(result.title)}</h2><p class="about">{escape(result.method)}</p>'
        f'<table><tr><th></th><th class="n">{escape(result.unit)}</th><th class="n">95 % interval</th><th></th>'
        '<th class="n">rows</th><th class="n">p</th></tr>'
        f"{rows}</table><ul>{listed}</ul>{_examples(result.examples)}"
        f'<p class="dim">suite {escape(result.suite)}, version {escape(result.version)}, seed {result.seed}, '
        f"data {escape(result.sha256[:12])}</p>"
    )


def _row(e: Estimate, low: float, high: float) -> str:
    p = "too few" if e.too_small else "" if e.p_value is None else f"{e.p_value:.3f}"
    name = f'<span class="flag">{escape(e.name)}</span>' if e.flagged else escape(e.name)
    return (
        f"<tr><td>{name}</td>"
        f'<td class="n">{e.value:.2f}</td><td class="n">{e.low:.2f} to {e.high:.2f}</td>'
        f'<td class="axis">{_axis(e, low, high)}</td><td class="n">{e.count:,}</td><td class="n">{p}</td></tr>'
    )


def _axis(e: Estimate, low: float, high: float) -> str:
    """Return a line from the lower to the upper end, in hundredths of the range of the suite."""
    width = (high - low) or 1.0

    def place(value: float) -> str:
        return f"{100 * (value - low) / width:.2f}%"

    color = "var(--flag)" if e.flagged else "var(--bar)"
    ideal = "" if e.ideal is None else (
        f'<line x1="{place(e.ideal)}" x2="{place(e.ideal)}" y1="0" y2="16" stroke="var(--ideal)" '
        'stroke-dasharray="2 2"/>'
    )  # fmt: skip
    return (
        f'<svg role="img" aria-label="{e.low:.2f} to {e.high:.2f}">{ideal}'
        f'<line x1="{place(e.low)}" x2="{place(e.high)}" y1="8" y2="8" stroke="{color}" stroke-width="2"/>'
        f'<circle cx="{place(e.value)}" cy="8" r="4" fill="{color}"/></svg>'
    )


def _examples(examples: Sequence[AuditedExample]) -> str:
    ranked = sorted(examples, key=lambda example: -abs(example.effect))[:MAX_EXAMPLES]
    if not ranked:
        return ""
    items = "".join(
        f"<li>{'<br>'.join(escape(text) for text in example.texts)}<br>"
        f'<span class="dim">{escape(example.group)} · {example.effect:+.2f}</span></li>'
        for example in ranked
    )
    return f"<h3>Examples with the largest effects</h3><ul>{items}</ul>"


def _heads(heads: HeadEffects) -> str:
    shown = heads.heads[:MAX_HEADS]
    low, high = min((e.low for e in shown), default=0.0), max((e.high for e in shown), default=1.0)
    rows = "".join(_row(e, min(low, 0.0), max(high, 0.0)) for e in shown)
    return (
        '<h2>Heads</h2><p class="about">The mean preference of the '
        f"{len(heads.pairs)} pairs with the largest effects, {heads.total.value:.2f} in log-likelihood, minus that "
        "without a head: above 0, the model prefers less without it. An ablation shows what a model does without a "
        "head, not what the head is for: other heads may do the same work, and a head may matter for the sentences "
        "rather than for the groups in them. The pairs were chosen by their effect, so the values are too large for "
        "other pairs.</p>"
        f"<table><tr><th>head</th><th>adds</th><th>95 % interval</th><th></th><th>pairs</th><th>p</th></tr>{rows}"
        "</table>"
    )
