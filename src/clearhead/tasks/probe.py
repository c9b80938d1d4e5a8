"""A probe: how well a linear classifier predicts labels from frozen vectors, by cross-validation."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from clearhead.metrics.evaluation import Evaluation, Numbers, evaluate_single_label

FOLDS = 5


def evaluate_probe(vectors: Numbers, labels: Sequence[str]) -> Evaluation:
    """Predict the label of each row with a logistic regression fitted on the other folds, and evaluate that.

    Rows with labels that occur less often than there are folds stay in: they are only predicted where another row with
    the label is in the training folds.
    """
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import StratifiedKFold
    except ModuleNotFoundError:
        raise ValueError("labels are predicted by scikit-learn: pip install 'clearhead[sklearn]'") from None
    counts = Counter(labels)
    names = sorted(counts)
    if len(names) < 2 or max(counts.values()) < 2:
        raise ValueError(f"{len(labels)} rows with {len(names)} labels: a probe needs two labels, one of them twice")
    target = np.array([names.index(label) for label in labels])
    folds = StratifiedKFold(min(FOLDS, max(counts.values())), shuffle=True, random_state=0)
    probabilities = np.zeros((len(labels), len(names)))
    for train, test in folds.split(vectors, target):
        model = LogisticRegression(max_iter=1000).fit(vectors[train], target[train])
        probabilities[np.ix_(test, model.classes_)] = model.predict_proba(vectors[test])
    return evaluate_single_label(names, target, probabilities)
