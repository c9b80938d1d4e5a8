"""Metrics with their confidence intervals as a table for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from clearhead.metrics.evaluation import Evaluation


def score_table(evaluation: Evaluation, before: Evaluation | None = None) -> Table:
    """Return the metrics of an evaluation; `before` is what a reranker is compared with."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column(f"{evaluation.count:,} rows")
    table.add_column("", justify="right")
    table.add_column("95 % confidence interval")
    if before is not None:
        table.add_column("without reranking", justify="right")
    earlier = {} if before is None else before.scores()
    intervals = evaluation.intervals()
    for name, value in evaluation.scores().items():
        low, high = intervals[name]
        more = (f"{earlier[name]:.2f}",) if name in earlier else ()
        table.add_row(name, f"{value:.2f}", f"{low:.2f} to {high:.2f}", *more)
    return table
