"""Estimates as a table of HTML: each with its interval as a line, the value without bias as a mark. No script."""

from collections.abc import Sequence
from html import escape

from clearhead.audit.estimates import Estimate

STYLE = """
:root { color-scheme: light dark; } body { margin: 0; }
.audit { --line: #d8dee6; --dim: #5b6876; --bar: #0072b2; --flag: #b9450b; --ink: #16202c; --ground: #fafbfd;
  box-sizing: border-box; min-height: 100vh; padding: 1.6rem max(1rem, calc(50vw - 32rem)) 2.5rem;
  background: var(--ground); color: var(--ink);
  font: 15px/1.5 ui-sans-serif, system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif; }
.preface .audit { min-height: 0; }
.audit h1 { margin: 0 0 .2rem; font-size: 1.45rem; overflow-wrap: anywhere; }
.audit h2 { margin: 2.2rem 0 .3rem; font-size: 1.15rem; } .audit h3 { margin: 1.4rem 0 .3rem; font-size: 1rem; }
.audit p { margin: .4rem 0; max-width: 52rem; } .audit .dim { color: var(--dim); }
.audit a { color: var(--bar); } .audit ul { padding-left: 1.2rem; } .audit li { margin: .35rem 0; max-width: 56rem;
  overflow-wrap: anywhere; }
.audit table { width: 100%; margin: .8rem 0; border-collapse: collapse; font-size: .92rem; }
.audit th { padding: .15rem .9rem .15rem 0; border-bottom: 1px solid var(--line); color: var(--dim); font-weight: 600;
  text-align: left; vertical-align: bottom; }
.audit td { padding: .18rem .9rem .18rem 0; vertical-align: middle; }
.audit .n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.audit td:first-child { min-width: 9.6rem; }
.audit .axis { width: 34%; min-width: 9rem; } .audit th.axis span { float: right; }
.audit svg { display: block; width: 100%; height: 16px; overflow: visible; }
.audit .ideal { stroke: var(--dim); stroke-dasharray: 2 2; }
.audit .bar { stroke: var(--bar); stroke-width: 2; } .audit circle.bar { fill: var(--bar); stroke: none; }
.audit .small .bar { stroke: var(--dim); } .audit .small circle.bar { fill: var(--dim); }
.audit .flagged .bar { stroke: var(--flag); } .audit .flagged circle.bar { fill: var(--flag); }
.audit .flag { color: var(--flag); font-weight: 600; }
.audit .small td { color: var(--dim); }
.audit .pair { padding: .5rem 0 .5rem .9rem; border-left: 3px solid var(--line); list-style: none; }
.audit .pair p { margin: .1rem 0; }
@media (prefers-color-scheme: dark) {
  .audit { --line: #2b3a50; --dim: #9aa9bb; --bar: #56b4e9; --flag: #ff9a62; --ink: #e8eef6; --ground: #0d1522; } }
@media (max-width: 44rem) {
  .audit .axis { display: none; } .audit td, .audit th { padding-right: .6rem; } .audit { font-size: 14px; }
  .audit td:first-child { overflow-wrap: anywhere; min-width: 5.5rem; } .audit .wide { display: none; } }
"""


def estimate_table(
    estimates: Sequence[Estimate],
    unit: str,
    counted: str,
    *,
    names: Sequence[str] | None = None,
    extra: tuple[str, Sequence[str]] | None = None,
) -> str:
    """Return a table of estimates; all have the same axis, whose ends are in the header.

    `names` are HTML, by default the names of the estimates; `extra` is the title of one more column, with its values.
    """
    low = min((min(e.low, e.value if e.ideal is None else e.ideal) for e in estimates), default=0.0)
    high = max((max(e.high, e.value if e.ideal is None else e.ideal) for e in estimates), default=1.0)
    labels = names or [escape(e.name) for e in estimates]
    more = extra[1] if extra else [""] * len(estimates)
    rows = "".join(
        _row(e, low, high, label, cell if extra else None)
        for e, label, cell in zip(estimates, labels, more, strict=True)
    )
    last = f'<th class="n wide">{escape(extra[0])}</th>' if extra else ""
    return (
        f'<table><tr><th></th><th class="n">{escape(unit or "value")}</th><th class="n">95 % interval</th>'
        f'<th class="axis">{low:.3g}<span>{high:.3g}</span></th><th class="n wide">without bias</th>'
        f'<th class="n wide">{escape(counted)}</th><th class="n">p</th>{last}</tr>{rows}</table>'
    )


def shown_p(e: Estimate) -> str:
    """Return the corrected p-value as text, and whether the group is too small for the bootstrap."""
    if e.p_value is None:
        return "too few" if e.too_small else ""
    shown = "<0.001" if e.p_value < 0.001 else f"{e.p_value:.3f}"
    return f"{shown} (few)" if e.too_small else shown


def _row(e: Estimate, low: float, high: float, label: str, extra: str | None) -> str:
    kind = "flagged" if e.flagged else "small" if e.too_small or e.ideal is None else ""
    name = f'<span class="flag">{label}</span>' if e.flagged else label
    ideal = "" if e.ideal is None else f"{e.ideal:g}"
    last = "" if extra is None else f'<td class="n wide">{escape(extra)}</td>'
    return (
        f'<tr class="{kind}"><td>{name}</td>'
        f'<td class="n">{e.value:.2f}</td><td class="n">{e.low:.2f} to {e.high:.2f}</td>'
        f'<td class="axis">{_axis(e, low, high)}</td><td class="n wide">{ideal}</td>'
        f'<td class="n wide">{e.count:,}</td><td class="n">{escape(shown_p(e))}</td>{last}</tr>'
    )


def _axis(e: Estimate, low: float, high: float) -> str:
    """Return a line from the lower to the upper end, in hundredths of the range of the table."""
    width = (high - low) or 1.0

    def place(value: float) -> str:
        return f"{100 * (value - low) / width:.2f}%"

    ideal = "" if e.ideal is None else (
        f'<line class="ideal" x1="{place(e.ideal)}" x2="{place(e.ideal)}" y1="0" y2="16"/>'
    )  # fmt: skip
    return (
        f'<svg role="img" aria-label="{e.low:.2f} to {e.high:.2f}">{ideal}'
        f'<line class="bar" x1="{place(e.low)}" x2="{place(e.high)}" y1="8" y2="8"/>'
        f'<circle class="bar" cx="{place(e.value)}" cy="8" r="4"/></svg>'
    )
