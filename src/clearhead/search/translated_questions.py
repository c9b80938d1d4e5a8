"""Questions in another language than the documents: they are translated before the search."""

from collections.abc import Sequence

from clearhead.pipeline import load


class QuestionTranslator:
    """Translates questions by a model of the task `translate`; without a model, they stay as they are."""

    def __init__(self, model: str | None) -> None:
        self._pipeline = None if model is None else load(model)

    def __call__(self, questions: Sequence[str]) -> list[str]:
        """Return the questions in the language of the documents."""
        if self._pipeline is None:
            return list(questions)
        return [translation.text for translation in self._pipeline.translate(list(questions))]
