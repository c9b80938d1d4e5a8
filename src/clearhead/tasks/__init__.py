"""Tasks: one file per task, from rows of text to batches, a loss, metrics and answers."""

from clearhead.tasks.classify import Classification, Classify, Pair
from clearhead.tasks.dialogue import Dialogue
from clearhead.tasks.language_model import LanguageModel
from clearhead.tasks.masked_lm import MaskedLM
from clearhead.tasks.qa import AnswerSpan, QaResult, QuestionAnswering
from clearhead.tasks.replaced_tokens import ReplacedTokens
from clearhead.tasks.tag import Entity, Tag, TagResult
from clearhead.tasks.task import Answering, Batch, Skipped, Task, TaskConfig, TaskSpec, did_you_mean
from clearhead.tasks.translate import Translate

TASKS: dict[str, type[Task]] = {
    task.spec.name: task
    for task in (Translate, LanguageModel, Dialogue, MaskedLM, ReplacedTokens, Classify, Pair, Tag, QuestionAnswering)
}

__all__ = [
    "TASKS", "AnswerSpan", "Answering", "Batch", "Classification", "Classify", "Dialogue", "Entity", "LanguageModel",
    "MaskedLM", "Pair", "QaResult", "QuestionAnswering", "ReplacedTokens", "Skipped", "Tag", "TagResult", "Task",
    "TaskConfig", "TaskSpec", "Translate", "did_you_mean",
]  # fmt: skip
