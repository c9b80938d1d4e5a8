"""Studies: the claims of a course on attention as experiments that anyone can rerun."""

from clearhead.studies import bank, bottleneck, gradient, labels, language_models, order, scaling
from clearhead.studies.corpus import Corpus

STUDIES = {
    "bottleneck": bottleneck, "gradient": gradient, "language_models": language_models, "labels": labels, "bank": bank,
    "order": order, "scaling": scaling,
}  # fmt: skip

__all__ = [
    "STUDIES", "Corpus", "bank", "bottleneck", "gradient", "labels", "language_models", "order", "scaling",
]  # fmt: skip
