"""Studies: the claims of a course on attention as experiments that anyone can rerun."""

from clearhead.studies import bank, bottleneck, domain, gradient, labels, language_models, order, scaling
from clearhead.studies.corpus import Corpus

STUDIES = {
    "bottleneck": bottleneck, "gradient": gradient, "language_models": language_models, "labels": labels, "bank": bank,
    "order": order, "scaling": scaling, "domain": domain,
}  # fmt: skip

__all__ = [
    "STUDIES", "Corpus", "bank", "bottleneck", "domain", "gradient", "labels", "language_models", "order", "scaling",
]  # fmt: skip
