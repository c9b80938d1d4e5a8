"""Tasks: one file a job, from rows of text to a batch, a loss, a metric and an answer."""

from clearhead.tasks.faults import unknown
from clearhead.tasks.language_model import LanguageModel
from clearhead.tasks.task import Batch, LeftOut, Task
from clearhead.tasks.translate import Translate

TASKS = {"translate": Translate, "language_model": LanguageModel}

__all__ = ["TASKS", "Batch", "LanguageModel", "LeftOut", "Task", "Translate", "unknown"]
