"""Studies: the claims of a course on attention as experiments that anyone can rerun."""

from clearhead.studies import bottleneck, gradient, language_models
from clearhead.studies.corpus import Corpus

STUDIES = {"bottleneck": bottleneck, "gradient": gradient, "language_models": language_models}

__all__ = ["STUDIES", "Corpus", "bottleneck", "gradient", "language_models"]
