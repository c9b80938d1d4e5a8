"""BLEU and chrF, as sacreBLEU measures them: cased, on plain text."""

from __future__ import annotations

from collections.abc import Sequence


def scores(said: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Corpus BLEU (Papineni et al. 2002) and chrF (Popović 2015) of translations against one reference each."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    bleu, chrf = (metric.corpus_score(said, [references]).score for metric in (BLEU(), CHRF()))
    return {"bleu": round(bleu, 2), "chrf": round(chrf, 2)}
