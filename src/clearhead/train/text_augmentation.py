"""Settings of a recipe about groups of people in training texts: counterfactual copies, and reweighing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Tag

from clearhead.data.group_terms import categories, exchangeable
from clearhead.tasks import did_you_mean
from clearhead.vision import AugmentConfig

COUNTERFACTUAL = "counterfactual"
REFUSED = {  # by task: why its rows have no counterfactual copies
    "translate": "the targets would have to be exchanged too, in a language whose terms are not known",
    "embed": "a row and its copy would be negatives of each other in a batch",
    "answer": "its passages come from an index, where they keep their terms",
}


@dataclass(frozen=True, kw_only=True)
class TextAugmentConfig:
    """Which copies of training texts are added."""

    counterfactual: tuple[str, ...] = ("gender",)  # categories whose groups are exchanged

    def __post_init__(self) -> None:
        if not self.counterfactual:
            raise ValueError(f"augment.counterfactual names no category: there are {', '.join(exchangeable())}")
        for name in self.counterfactual:
            check_category("augment.counterfactual", name)


def check_category(key: str, name: str) -> None:
    """Refuse a category of groups that texts do not name by terms that are known."""
    if name not in categories():
        raise ValueError(f"{key} is {name!r}: {did_you_mean(name, exchangeable())}")
    if name not in exchangeable():
        known = ", ".join(exchangeable())
        raise ValueError(
            f"{key} is {name!r}, whose words have other senses too, so none is searched for: choose {known}"
        )


def augment_kind(value: Any) -> type[AugmentConfig] | type[TextAugmentConfig]:
    """Return what the value of `data.augment` configures: changes of images, or copies of texts."""
    names_texts = isinstance(value, str | TextAugmentConfig) or (isinstance(value, Mapping) and COUNTERFACTUAL in value)
    return TextAugmentConfig if names_texts else AugmentConfig


def _in_full(value: Any) -> Any:
    """Return the configuration that the word `counterfactual` names."""
    if isinstance(value, str):
        if value != COUNTERFACTUAL:
            raise ValueError(f"the value is {value!r}: {did_you_mean(value, [COUNTERFACTUAL])}")
        return TextAugmentConfig()
    if isinstance(value, Mapping) and isinstance(name := value.get(COUNTERFACTUAL), str):
        raise ValueError(f"counterfactual is {name!r}: give a list of categories, [{name}]")
    return value


Augmentation = Annotated[
    Annotated[AugmentConfig, Tag("AugmentConfig")]
    | Annotated[TextAugmentConfig, BeforeValidator(_in_full), Tag("TextAugmentConfig")],
    Discriminator(lambda value: augment_kind(value).__name__),
]


def check_counterfactuals(task: str, train: Mapping[str, Any]) -> None:
    """Refuse counterfactual copies where they make no sense."""
    reason = REFUSED.get(task)
    if "image" in train:
        reason = "the persons in the images would stay the same"
    elif "shards" in train:
        reason = "shards are tokenized already, so name the files of their text"
    if reason is not None:
        raise ValueError(f"data.augment is counterfactual, which does not fit the task {task}: {reason}. Remove it")


def check_balanced_groups(category: str, task: str, train: Mapping[str, Any]) -> None:
    """Refuse to weight rows by group and label where they have not one label each, or no text."""
    check_category("data.balance_groups", category)
    if task not in ("classify", "pair") or "label" not in train or "image" in train:
        raise ValueError(
            f"data.balance_groups weights texts by their label, and the data of the task {task} names no column "
            "`label` of texts: remove it, or classify texts or pairs by one label"
        )
