"""Questions in another language than the documents: they are translated before the search."""

from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.pipeline import load


@dataclass(frozen=True)
class TranslatedQuestion:
    """A question in the language of the documents, and the text to search for.

    That text has the question as it was asked, too: names, numbers and words that the languages share find passages
    where the translation lost them.
    """

    text: str
    query: str


class QuestionTranslator:
    """Translates questions by a model of the task `translate`; without a model, they stay as they are."""

    def __init__(self, model: str | None) -> None:
        self._pipeline = None if model is None else load(model)

    def __call__(self, questions: Sequence[str]) -> list[TranslatedQuestion]:
        """Return the questions in the language of the documents."""
        if self._pipeline is None:
            return [TranslatedQuestion(question, question) for question in questions]
        texts = [translation.text for translation in self._pipeline.translate(list(questions))]
        return [TranslatedQuestion(text, f"{text} {question}") for text, question in zip(texts, questions, strict=True)]
