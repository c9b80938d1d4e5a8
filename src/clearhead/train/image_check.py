"""Check the images of a recipe: unreadable ones, near duplicates within and across parts, labels that look wrong."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.data import Row, Rows
from clearhead.train.findings import MAX_PLACES, DataFinding
from clearhead.vision import UnreadableImage, read_image
from clearhead.vision.similar_images import ImageDigest, SimilarImages, image_digest, image_features

MAX_LABELED = 20_000  # images that are compared with their labels
MIN_LABELED = 50
FOLDS = 5
DOUBT = 300


@dataclass
class _Images:
    """What is known of the images of all parts, in order."""

    names: list[str] = field(default_factory=list[str])
    parts: list[str] = field(default_factory=list[str])
    labels: list[str] = field(default_factory=list[str])
    digests: list[ImageDigest] = field(default_factory=list[ImageDigest])
    features: list[np.ndarray] = field(default_factory=list[np.ndarray])
    captioned: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])  # part and content


def check_images(parts: Mapping[str, Rows]) -> list[DataFinding]:
    """Return the findings about the images of all parts."""
    images, findings = _Images(), list[DataFinding]()
    for part, rows in parts.items():
        unreadable = [reason for row in rows if (reason := _add(images, part, row)) is not None]
        if unreadable:
            what = f"{part}: unreadable images, skipped"
            findings.append(DataFinding(what, len(unreadable), tuple(unreadable[:MAX_PLACES])))
    return findings + _near_duplicates(images) + _wrong_labels(images)


def _add(images: _Images, part: str, row: Row) -> str | None:
    """Add the image of a row; return why it cannot be read, or None."""
    image = row.values["image"]
    if "caption" in row.values:  # an image has several rows, one for each caption
        if (part, str(image)) in images.captioned:
            return None
        images.captioned.add((part, str(image)))
    try:
        pixels = read_image(image.content, name=image.name)
    except UnreadableImage as error:
        return str(error)
    images.names.append(image.name)
    images.parts.append(part)
    images.labels.append(str(row.values.get("label", "")))
    images.digests.append(image_digest(pixels))
    if part == "train" and "caption" not in row.values and len(images.features) < MAX_LABELED:
        images.features.append(image_features(pixels))
    return None


def _near_duplicates(images: _Images) -> list[DataFinding]:
    """Return images that look like another one: in the same part, with another label, or in another part."""
    known, pairs = SimilarImages(), dict[str, list[str]]()
    for number, digest in enumerate(images.digests):
        first = known.add(digest)
        if first is None:
            continue
        one, other = images.parts[number], images.parts[first]
        if one != other:
            what = f"images of {one} that look like one of {other}"
        elif images.labels[number] != images.labels[first]:
            what = f"{one}: images that look alike, with different labels"
        else:
            what = f"{one}: images that look alike"
        pairs.setdefault(what, []).append(f"{_place(images, number)} and {_place(images, first)}")
    return [DataFinding(what, len(found), tuple(found[:MAX_PLACES])) for what, found in pairs.items()]


def _place(images: _Images, number: int) -> str:
    return Path(images.names[number]).as_posix()


def _wrong_labels(images: _Images) -> list[DataFinding]:
    """Return training images whose label looks wrong, by confident learning (Northcutt et al. 2021).

    A linear classifier on simple features, trained on other images, is surer of another label than it is on average
    of the images that have that label, and takes the image's own label for `DOUBT` times less likely.
    """
    train = [i for i, part in enumerate(images.parts) if part == "train"][: len(images.features)]
    labels = np.array([images.labels[i] for i in train])
    counts = Counter(labels.tolist())
    if len(train) < MIN_LABELED or len(counts) < 2 or min(counts.values()) < FOLDS or "" in counts:
        return []
    probabilities, names = _out_of_fold(np.stack(images.features), labels)
    own = probabilities[np.arange(len(labels)), np.searchsorted(names, labels)]
    sure = np.array([own[labels == name].mean() for name in names])
    best = probabilities.argmax(1)
    most = probabilities[np.arange(len(labels)), best]
    wrong = np.flatnonzero((most >= sure[best]) & (DOUBT * own < most))
    if not len(wrong):
        return []
    wrong = wrong[np.argsort(own[wrong] / most[wrong], kind="stable")]
    places = [f"{_place(images, train[i])} is {labels[i]!s} and looks like {names[best[i]]!s}" for i in wrong]
    return [DataFinding("train: labels that look wrong", len(places), tuple(places[:MAX_PLACES]))]


def _out_of_fold(features: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, Any]:
    """Return the probabilities of all labels for each image, by a classifier that has not seen it, and the labels."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    probabilities: Any = cross_val_predict(model, features, labels, cv=folds, method="predict_proba")
    return probabilities, np.unique(labels)
