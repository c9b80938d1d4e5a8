"""The page of an audit. It is static: no script, everything escaped."""

from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from clearhead.audit.audit_plots import by_ideal, shown_estimates
from clearhead.audit.estimate_table import STYLE, estimate_table
from clearhead.audit.estimates import MIN_ROWS, AuditedExample, SuiteResult
from clearhead.audit.head_effects import HeadEffects
from clearhead.audit.why_page import heads_table
from clearhead.viz.page import Preface, static_page

MAX_EXAMPLES, MAX_HEADS = 12, 20
OWN_TEXTS = "These texts are your own: this page quotes them, the record audit.json does not."


def audit_page(
    results: Sequence[SuiteResult],
    title: str,
    *,
    heads: HeadEffects | None = None,
    why: str = "",
    left_out: Sequence[str] = (),
) -> str:
    """Return the page: the estimates of each suite with their intervals, the examples with the largest effects.

    `why` is the address of the page of the heads; `left_out` says which suites did not run, and why.
    """
    sections = "".join(_suite(result) for result in results) + ("" if heads is None else _heads(heads, why))
    overview = "".join(f"<li>{_overview(result)}</li>" for result in results)
    overview += "".join(f"<li>{escape(text)}</li>" for text in left_out)
    content = (
        f'<main class="audit"><h1>{escape(title)}</h1>'
        '<p class="dim">Lines are 95 % intervals (bootstrap); the dotted mark is the value of a model without this '
        'bias. <span class="flag">Marked</span> values differ from it with p &lt; 0.05, corrected for all values of '
        f"the suite (Holm). Groups of fewer than {MIN_ROWS} rows are marked as few: their intervals hold less often, "
        "and they are tested only where the test is exact for small groups. A suite measures what its sentences "
        "contain: a value near the mark does not show that a model is fair.</p>"
        f"<ul>{overview}</ul>{sections}</main>"
    )
    return static_page(title, Preface(html=content, style=STYLE))


def _overview(result: SuiteResult) -> str:
    tested = sum(e.p_value is not None for e in result.estimates)
    link = f'<a href="#{quote(result.suite)}">{escape(result.title)}</a>'
    found = f"{len(result.flagged)} of {tested} tested values differ from that of a model without this bias"
    return f'{link}: <span class="flag">{found}</span>' if result.flagged else f"{link}: {found}"


def _suite(result: SuiteResult) -> str:
    estimates = shown_estimates(result.estimates)
    hidden = len(result.estimates) - len(estimates)
    tables = "".join(estimate_table(some, result.unit, "rows") for some in by_ideal(estimates))
    notes = [*result.notes, *([f"{hidden} further estimates are in the record"] if hidden else [])]
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return (
        f'<h2 id="{escape(result.suite)}">{escape(result.title)}</h2><p class="dim">{escape(result.method)}</p>'
        f"{tables}{f'<ul>{listed}</ul>' if listed else ''}"
        f"{_examples(result.examples, result.own_texts)}"
        f'<p class="dim">suite {escape(result.suite)}, version {escape(result.version)}, seed {result.seed}, '
        f"data {escape(result.sha256[:12])}</p>"
    )


def _examples(examples: Sequence[AuditedExample], own_texts: bool) -> str:
    ranked = sorted(examples, key=lambda example: -abs(example.effect))[:MAX_EXAMPLES]
    if not ranked:
        return ""
    items = "".join(
        f'<li class="pair">{"".join(f"<p>{escape(text)}</p>" for text in example.texts)}'
        f'<p class="dim">{escape(" · ".join(filter(None, (example.group, f"{example.effect:+.2f}"))))}</p></li>'
        for example in ranked
    )
    note = f'<p class="dim">The number is the effect of an example. {OWN_TEXTS if own_texts else ""}</p>'
    return f"<h3>Examples with the largest effects</h3>{note}<ul>{items}</ul>"


def _heads(heads: HeadEffects, why: str) -> str:
    link = f' <a href="{escape(quote(why))}">Attention of both sentences, and limits of this table</a>' if why else ""
    return (
        '<h2 id="heads">Heads behind the largest effects</h2><p class="dim">The mean preference of the '
        f"{len(heads.pairs)} pairs with the largest effects, {heads.total.value:.2f} in log-likelihood, minus that "
        f"without a head: above 0, the model prefers less without it.{link}</p>{heads_table(heads, MAX_HEADS)}"
    )
