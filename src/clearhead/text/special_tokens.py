"""Special tokens around a text or a pair, read from a post-processor of `tokenizers`."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import tokenizers


class TemplateItem(NamedTuple):
    """One item of a template: the first or second text (`part` 0 or 1), or a special token (`part` -1)."""

    part: int
    segment: int
    id: int = -1


@dataclass(frozen=True)
class SpecialTokenTemplate:
    """The order of special tokens and texts, for one text and for a pair."""

    single: tuple[TemplateItem, ...] = (TemplateItem(0, 0),)
    pair: tuple[TemplateItem, ...] = (TemplateItem(0, 0), TemplateItem(1, 1))

    def items(self, pair: bool) -> tuple[TemplateItem, ...]:
        return self.pair if pair else self.single

    def overhead(self, pair: bool) -> int:
        return sum(item.part < 0 for item in self.items(pair))

    @property
    def opening(self) -> tuple[int, ...]:
        return self._surrounding[0]

    @property
    def closing(self) -> tuple[int, ...]:
        return self._surrounding[1]

    @property
    def _surrounding(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        index = [item.part for item in self.single].index(0)
        return tuple(i.id for i in self.single[:index]), tuple(i.id for i in self.single[index + 1 :])


BARE = SpecialTokenTemplate()


def read_template(rust: tokenizers.Tokenizer) -> SpecialTokenTemplate:
    processor = rust.post_processor
    return BARE if processor is None else _parse(json.loads(processor.__getstate__()))


def _parse(post: dict[str, Any]) -> SpecialTokenTemplate:
    parse = _PARSERS.get(post["type"])
    if parse is None:
        raise ValueError(f"post-processor {post['type']!r} is not supported: use one of {', '.join(_PARSERS)}")
    template = parse(post)
    for items, expected in ((template.single, [0]), (template.pair, [0, 1])):
        if [item.part for item in items if item.part >= 0] != expected:
            raise ValueError(f"the template places its texts as {items}: each text must occur once, in order")
    return template


def _template(post: dict[str, Any]) -> SpecialTokenTemplate:
    ids = {name: special["ids"] for name, special in post["special_tokens"].items()}

    def items(places: list[dict[str, Any]]) -> tuple[TemplateItem, ...]:
        result: list[TemplateItem] = []
        for place in places:
            if "Sequence" in place:
                result.append(TemplateItem("AB".index(place["Sequence"]["id"]), place["Sequence"]["type_id"]))
            else:
                special = place["SpecialToken"]
                result += [TemplateItem(-1, special["type_id"], id) for id in ids[special["id"]]]
        return tuple(result)

    return SpecialTokenTemplate(items(post["single"]), items(post["pair"]))


def _bert(post: dict[str, Any]) -> SpecialTokenTemplate:
    cls, sep = post["cls"][1], post["sep"][1]
    single = (TemplateItem(-1, 0, cls), TemplateItem(0, 0), TemplateItem(-1, 0, sep))
    return SpecialTokenTemplate(single, (*single, TemplateItem(1, 1), TemplateItem(-1, 1, sep)))


def _roberta(post: dict[str, Any]) -> SpecialTokenTemplate:
    cls, sep = post["cls"][1], post["sep"][1]
    single = (TemplateItem(-1, 0, cls), TemplateItem(0, 0), TemplateItem(-1, 0, sep))
    second = TemplateItem(-1, 0, sep), TemplateItem(1, 0), TemplateItem(-1, 0, sep)
    return SpecialTokenTemplate(single, (*single, *second))


def _sequence(post: dict[str, Any]) -> SpecialTokenTemplate:
    templates = [f for f in map(_parse, post["processors"]) if f != BARE]
    if len(templates) > 1:
        raise ValueError(f"{len(templates)} nested templates: only one is supported")
    return templates[0] if templates else BARE


_PARSERS: dict[str, Callable[[dict[str, Any]], SpecialTokenTemplate]] = {
    "TemplateProcessing": _template,
    "BertProcessing": _bert,
    "RobertaProcessing": _roberta,
    "ByteLevel": lambda post: BARE,
    "Sequence": _sequence,
}
