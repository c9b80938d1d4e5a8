"""Tasks: one file per task, from rows of text to batches, a loss, metrics and answers."""

from clearhead.tasks.answer import PassageReader, PassageSpan, ReaderResult
from clearhead.tasks.answer_spans import AnswerSpan
from clearhead.tasks.caption_images import CaptionImages
from clearhead.tasks.classify import Classification, Classify, Pair
from clearhead.tasks.classify_images import ClassifyImages
from clearhead.tasks.dialogue import Dialogue
from clearhead.tasks.draw_images import DrawImages
from clearhead.tasks.embed import Embed
from clearhead.tasks.language_model import LanguageModel
from clearhead.tasks.masked_lm import MaskedLM
from clearhead.tasks.qa import QaResult, QuestionAnswering
from clearhead.tasks.replaced_tokens import ReplacedTokens
from clearhead.tasks.rerank import Rerank
from clearhead.tasks.tag import Entity, Tag, TagResult
from clearhead.tasks.task import Answering, Batch, Skipped, Task, TaskConfig, TaskSpec, did_you_mean
from clearhead.tasks.translate import Translate

_ALL: tuple[type[Task], ...] = (
    Translate, LanguageModel, Dialogue, MaskedLM, ReplacedTokens, Classify, Pair, Tag, QuestionAnswering, Embed, Rerank,
    PassageReader, CaptionImages, DrawImages,
)  # fmt: skip
TASKS = {task.spec.name: task for task in _ALL}
"""The tasks, by the name that a recipe gives."""

__all__ = [
    "TASKS", "AnswerSpan", "Answering", "Batch", "CaptionImages", "Classification", "Classify", "ClassifyImages",
    "Dialogue", "DrawImages", "Embed", "Entity", "LanguageModel", "MaskedLM", "Pair", "PassageReader", "PassageSpan",
    "QaResult", "QuestionAnswering", "ReaderResult", "ReplacedTokens", "Rerank", "Skipped", "Tag", "TagResult", "Task",
    "TaskConfig", "TaskSpec", "Translate", "did_you_mean",
]  # fmt: skip
