"""Tasks by name and data, and the task that a model folder answers."""

from collections.abc import Container
from typing import Any

from clearhead.hub.folder import LoadedModel
from clearhead.tasks import TASKS
from clearhead.tasks.answer import PassageReader
from clearhead.tasks.caption_images import CaptionImages
from clearhead.tasks.classify import Classify, Pair
from clearhead.tasks.classify_images import ClassifyImages
from clearhead.tasks.embed import Embed
from clearhead.tasks.qa import QuestionAnswering
from clearhead.tasks.rerank import Rerank
from clearhead.tasks.tag import Tag
from clearhead.tasks.task import Answering, Task

AnswerTask = Answering[Any, Any]
TASK_BY_HEAD = {"sequence": "classify", "token": "tag", "span": "qa"}  # for folders whose manifest names no task
ANSWER_TASKS: dict[str, type[AnswerTask]] = {
    "classify": Classify, "pair": Pair, "tag": Tag, "qa": QuestionAnswering, "embed": Embed, "rerank": Rerank,
    "answer": PassageReader, "caption": CaptionImages,
}  # fmt: skip


IMAGE_TASKS: dict[str, type[Task]] = {ClassifyImages.spec.name: ClassifyImages}


def find_task(name: str, columns: Container[str]) -> type[Task]:
    """Return the class of a task that is trained on data with these columns."""
    return IMAGE_TASKS.get(name, TASKS[name]) if "image" in columns else TASKS[name]


def answer_task_name(loaded: LoadedModel) -> str | None:
    """Return the name of the task that a folder answers; None where it does something else."""
    head = loaded.config.head
    name = loaded.metadata.get("task") or TASK_BY_HEAD.get("" if head is None else head.kind)
    if name is None and "modules.json" in loaded.extra_files:
        name = "embed"  # a folder of sentence-transformers
    if name is None and loaded.config.patches is not None and loaded.config.decoder is not None:
        name = "caption"
    return name if name in ANSWER_TASKS else None


def task_of(loaded: LoadedModel) -> AnswerTask:
    name = answer_task_name(loaded)
    if name is None:
        raise ValueError(
            f"{loaded.architecture} does not classify, tag or answer questions, nor write captions: "
            "`clearhead new classify --data FILE` starts a model that does"
        )
    if loaded.config.patches is not None and loaded.config.decoder is None:
        return ClassifyImages.from_model(loaded)
    return ANSWER_TASKS[name].from_model(loaded)
