"""scikit-learn: text vectors as a transformer, and a fine-tuned classifier as an estimator.

`make_pipeline(ClearheadVectorizer("my-model"), LogisticRegression()).fit(texts, labels)`
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from clearhead.pipeline import load
from clearhead.tasks import Classify
from clearhead.train.recipe import make_recipe
from clearhead.train.run import prepare, train


class _TextEstimator(BaseEstimator):
    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array, tags.input_tags.one_d_array = True, False, True
        return tags


class ClearheadVectorizer(TransformerMixin, _TextEstimator):
    """Turns texts into vectors, (texts, D), with the model of a folder or of a name on the hub; fitting only loads it.

    `prompt` is the name of one of the model's prompts, `batch_tokens` the tokens computed together.
    """

    def __init__(self, model: str = "sentence-transformers/all-MiniLM-L6-v2", *, prompt: str | None = None,
                 batch_tokens: int = 8192) -> None:  # fmt: skip
        self.model = model
        self.prompt = prompt
        self.batch_tokens = batch_tokens

    def fit(self, X: Sequence[str], y: Any = None) -> Self:
        """Load the model."""
        _texts(X)
        self.pipeline_ = load(self.model)
        self.n_features_out_ = self.pipeline_.loaded.config.output_width
        return self

    def transform(self, X: Sequence[str]) -> np.ndarray:
        """Return one vector per text, float32."""
        check_is_fitted(self)
        return self.pipeline_.encode(_texts(X), prompt=self.prompt, batch_tokens=self.batch_tokens).numpy()

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each number of a vector."""
        check_is_fitted(self)
        return np.array([f"clearhead{i}" for i in range(self.n_features_out_)], dtype=object)

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "pipeline_"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "n_features_out_" in state:
            self.pipeline_ = load(self.model)


class ClearheadClassifier(ClassifierMixin, _TextEstimator):
    """A Transformer fine-tuned to classify texts.

    `fit` trains in `folder`, by default a temporary one. `pipeline_` is the trained model: `pipeline_.save(FOLDER)`.
    """

    def __init__(
        self, base_model: str = "sentence-transformers/all-MiniLM-L6-v2", *, epochs: float = 3, lr: float = 1e-4,
        batch_size: int = 32, max_len: int = 256, seed: int = 1, folder: str | None = None,
    ) -> None:  # fmt: skip
        self.base_model = base_model
        self.epochs = epochs
        self.lr = lr
        self.batch_size = batch_size
        self.max_len = max_len
        self.seed = seed
        self.folder = folder

    def fit(self, X: Sequence[str], y: Sequence[Any]) -> Self:
        """Fine-tune the base model on texts and their labels."""
        texts, labels = _texts(X), np.asarray(y)
        if len(texts) != len(labels):
            raise ValueError(f"{len(texts)} texts and {len(labels)} labels: give one for each")
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise ValueError(f"the labels have only the class {self.classes_[0]!r}: a classifier needs two")
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(self.folder or temporary)
            folder.mkdir(parents=True, exist_ok=True)
            numbers = np.searchsorted(self.classes_, labels)
            with (folder / "rows.jsonl").open("w", encoding="utf-8") as file:
                for text, number in zip(texts, numbers.tolist(), strict=True):
                    file.write(json.dumps({"text": text, "label": f"{number:06d}"}) + "\n")
            recipe = make_recipe(
                {
                    "task": "classify",
                    "seed": self.seed,
                    "data": {
                        "train": {"file": "rows.jsonl", "text": "text", "label": "label"},
                        "validation_rows": min(1000, max(1, len(texts) // 10)),
                        "max_len": self.max_len,
                    },
                    "model": {"base_model": self.base_model},
                    "train": {
                        "epochs": self.epochs,
                        "batch_examples": self.batch_size,
                        "optimizer": {"kind": "adamw", "lr": self.lr, "weight_decay": 0.01},
                    },
                }
            )
            train(prepare(recipe, folder, folder / "run", lambda line: None))
            self.pipeline_ = load(folder / "run" / "model")
        return self

    def predict_proba(self, X: Sequence[str]) -> np.ndarray:
        """Return the probability of each class, (texts, classes)."""
        check_is_fitted(self)
        names = Classify.from_model(self.pipeline_.loaded).labels.names
        out = np.zeros((len(X), len(self.classes_)))
        for row, found in zip(out, self.pipeline_.classify(_texts(X)), strict=True):
            for name in names:
                row[int(name)] = found.scores[name]
        return out

    def predict(self, X: Sequence[str]) -> np.ndarray:
        """Return the most probable class of each text."""
        return self.classes_[self.predict_proba(X).argmax(1)]


def _texts(X: Any) -> list[str]:
    values = X.tolist() if hasattr(X, "tolist") else list(X)
    for i, text in enumerate(values):
        if not isinstance(text, str):
            raise TypeError(f"row {i} is {type(text).__name__}, not a string: give a list or array of texts")
    return values
