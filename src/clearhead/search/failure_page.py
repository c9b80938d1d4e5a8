"""A page of the questions that an index fails on, by stage. It is static: no script, everything escaped."""

from collections.abc import Sequence
from html import escape

from clearhead.search.ask import FoundAnswer
from clearhead.search.evaluate_index import STAGES, QuestionOutcome, stage_counts

MAX_SHOWN = 200  # questions of each stage

STYLE = """
:root { color-scheme: light dark; --line: #d8d8d4; --dim: #6b6b66; --mark: #ffe08a; --bar: #4a7bd0; }
@media (prefers-color-scheme: dark) { :root { --line: #3a3a3d; --dim: #9a9a96; --mark: #6b5510; --bar: #7ea6ee; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .3rem; }
p.about, .place { color: var(--dim); } table { border-collapse: collapse; margin: 1rem 0; }
td { padding: .15rem .8rem .15rem 0; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
td.bar { width: 16rem; } td.bar div { background: var(--bar); height: .8rem; border-radius: 2px; }
details { border-top: 1px solid var(--line); padding: .5rem 0; } summary { cursor: pointer; }
dl { display: grid; grid-template-columns: 8rem 1fr; margin: .5rem 0 0; gap: .2rem 1rem; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; } mark { background: var(--mark); color: inherit; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } }
"""


def failure_page(outcomes: Sequence[QuestionOutcome], title: str) -> str:
    """Return the page: how many questions end at each stage, and the questions of each with what was found."""
    counts = stage_counts(outcomes)
    largest = max(counts.values(), default=1)
    rows = "".join(
        f'<tr><td>{escape(stage)}</td><td class="n">{count:,}</td>'
        f'<td class="n">{100 * count / len(outcomes):.1f} %</td>'
        f'<td class="bar"><div style="width: {100 * count / largest:.1f}%"></div></td></tr>'
        for stage, count in counts.items()
    )
    sections = "".join(_section(stage, outcomes) for stage in counts if stage != "right")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{STYLE}</style><h1>Questions by stage</h1>"
        f'<p class="about">{escape(title)}, {len(outcomes):,} questions</p><table>{rows}</table>{sections}</html>\n'
    )


def _section(stage: str, outcomes: Sequence[QuestionOutcome]) -> str:
    some = [outcome for outcome in outcomes if outcome.stage == stage]
    note = f", the first {MAX_SHOWN} of {len(some):,}" if len(some) > MAX_SHOWN else ""
    about = STAGES[stage] + note
    questions = "".join(_question(outcome) for outcome in some[:MAX_SHOWN])
    return f'<h2>{escape(stage.capitalize())}</h2><p class="about">{escape(about)}</p>{questions}'


def _question(outcome: QuestionOutcome) -> str:
    rank = "not among the first 20" if outcome.rank is None else f"number {outcome.rank}"
    facts = [("expected", escape(" / ".join(outcome.expected) or "no answer"))]
    if outcome.expected:
        facts.append(("first passage with it", rank))
    if outcome.result is not None:
        facts += [("found", _found(candidate)) for candidate in outcome.result.candidates[:2]]
    body = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts)
    return f"<details><summary>{escape(outcome.question)}</summary><dl>{body}</dl></details>"


def _found(answer: FoundAnswer) -> str:
    """Return the passage of an answer with the answer marked, and its place."""
    text, base = answer.passage.text, answer.passage.start
    lo, hi = answer.start - base, answer.end - base
    return (
        f"{escape(text[:lo])}<mark>{escape(text[lo:hi])}</mark>{escape(text[hi:])}<br>"
        f'<span class="place">{escape(answer.place)} · {answer.probability:.2f}</span>'
    )
