"""Studies: claims of a course on attention as experiments that can be rerun."""

from clearhead.studies import (
    adapted_attention,
    bias_mitigation,
    bottleneck,
    domain_pretraining,
    efficient_attention,
    gradient,
    labels_needed,
    language_models,
    long_recall,
    scaling,
    word_order,
    word_senses,
)
from clearhead.studies.training import StudyCorpus

STUDIES = {
    "bottleneck": bottleneck, "gradient": gradient, "language_models": language_models, "labels": labels_needed,
    "word_senses": word_senses, "word_order": word_order, "scaling": scaling, "domain_pretraining": domain_pretraining,
    "efficient": efficient_attention, "adapted": adapted_attention,
    "recall": long_recall, "augmentation": bias_mitigation,
}  # fmt: skip

__all__ = [
    "STUDIES", "StudyCorpus", "adapted_attention", "bias_mitigation", "bottleneck", "domain_pretraining",
    "efficient_attention", "gradient", "labels_needed", "language_models", "long_recall", "scaling", "word_order",
    "word_senses",
]  # fmt: skip
