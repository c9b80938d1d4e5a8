"""Tasks: one file a job, from rows of text to a batch, a loss, a metric and an answer."""

from clearhead.tasks.classify import Classified, Classify
from clearhead.tasks.converse import Converse
from clearhead.tasks.faults import unknown
from clearhead.tasks.language_model import LanguageModel
from clearhead.tasks.masked import Masked
from clearhead.tasks.pair import Pair
from clearhead.tasks.qa import Answered, Qa, Span
from clearhead.tasks.replaced import Replaced
from clearhead.tasks.tag import Name, Tag, Tagged
from clearhead.tasks.task import Batch, LeftOut, Settings, Task
from clearhead.tasks.translate import Translate

TASKS = {
    "translate": Translate,
    "language_model": LanguageModel,
    "converse": Converse,
    "masked": Masked,
    "replaced": Replaced,
    "classify": Classify,
    "pair": Pair,
    "tag": Tag,
    "qa": Qa,
}

__all__ = [
    "TASKS", "Answered", "Batch", "Classified", "Classify", "Converse", "LanguageModel", "LeftOut", "Masked", "Name",
    "Pair", "Qa", "Replaced", "Settings", "Span", "Tag", "Tagged", "Task", "Translate", "unknown",
]  # fmt: skip
